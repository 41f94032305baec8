#!/usr/bin/env python3
"""Tests of the scripts in this folder."""

import contextlib
import importlib.util
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import check_layers
import config_doc
import man_pages
import select_tests
import timeline

TOOLS = pathlib.Path(__file__).parent
HEAD = '[doctest] doctest version is "2.4.9"\n'
GREEN = HEAD + "[doctest] test cases: 12 | 12 passed | 0 failed | 3 skipped\n"
RED = HEAD + "TEST CASE:  a receive waits\n  CHECK( x )\n[doctest] test cases: 5 | 3 passed | 2 failed | 0 skipped\n"
NONE = HEAD + "[doctest] test cases: 0 | 0 passed | 0 failed | 9 skipped\n"


def program(output="", result="OK", name="a test"):
    return {"name": f"cldist:api / {name}", "result": result, "stdout": output}


class Summary(unittest.TestCase):
    def summary(self, tests, status=0, arguments=(), log_name="testlog.json"):
        """The last line and the exit status for one run of these tests."""
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / log_name
            log.write_text("\n".join(map(json.dumps, tests)))
            result = subprocess.run([sys.executable, TOOLS / "test_summary.py", *arguments, f"run={status}={log}"],
                                    capture_output=True, text=True)
        self.output = result.stdout
        self.assertEqual(result.stderr, "")
        return result.stdout.splitlines()[-1], result.returncode

    def test_cases_and_other_tests_are_added(self):
        self.assertEqual(self.summary([program(GREEN), program("done")]),
                         ("13 passed, 0 failed", 0))

    def test_failed_cases_are_counted_and_named(self):
        self.assertEqual(self.summary([program(GREEN), program(RED, "FAIL")], 1), ("15 passed, 2 failed", 1))
        self.assertIn("a receive waits", self.output)

    def test_failed_cases_of_mpi_jobs_are_named_with_what_their_ranks_said(self):
        job = (HEAD + "ok       0.01 s  a send arrives\nFAILED   0.05 s  a receive waits\n"
               "[rank 1] order.cpp:5: a receive waits\n    CHECK( x ), values: 1\n"
               "[doctest] test cases: 2 | 1 passed | 1 failed | 0 skipped\n")
        self.assertEqual(self.summary([program(job, "FAIL", "3 processes")], 1), ("1 passed, 1 failed", 1))
        self.assertIn("  run: 3 processes: a receive waits\n      [rank 1] order.cpp:5: a receive waits\n"
                      "          CHECK( x ), values: 1\n", self.output)

    def test_colours_do_not_matter(self):
        self.assertEqual(self.summary([program(GREEN.replace("12 passed", "\x1b[0;32m12 passed\x1b[0m"))]),
                         ("12 passed, 0 failed", 0))

    def test_failed_cases_count_even_where_the_program_ended_well(self):
        self.assertEqual(self.summary([program(RED)]), ("3 passed, 2 failed", 1))

    def test_a_crash_without_a_summary_counts_as_one_failure(self):
        self.assertEqual(self.summary([program("", "ERROR")], 1), ("0 passed, 1 failed", 1))

    def test_a_timeout_after_the_last_case_counts_as_one_failure(self):
        self.assertEqual(self.summary([program(GREEN, "TIMEOUT")], 1), ("12 passed, 1 failed", 1))

    def test_a_doctest_program_that_ends_well_without_a_summary_fails(self):
        self.assertEqual(self.summary([program(HEAD)]), ("0 passed, 1 failed", 1))

    def test_skips_are_named_and_not_counted_as_passed(self):
        skip = "SKIP: a wide send: needs 5 GiB of memory\n"
        self.assertEqual(self.summary([program(skip + GREEN)]), ("11 passed, 0 failed", 0))
        self.assertIn("a wide send: needs 5 GiB of memory (run)", self.output)

    def test_a_run_that_ended_badly_without_naming_a_failure_fails(self):
        self.assertEqual(self.summary([program(GREEN)], 2), ("12 passed, 1 failed", 1))

    def test_a_run_in_which_nothing_ran_fails(self):
        self.assertEqual(self.summary([]), ("0 passed, 1 failed", 1))

    def test_a_filter_that_matches_nothing_fails(self):
        self.assertEqual(self.summary([program(NONE), program("done")], 0, ["--filter", "xyz"], "filtered.json"),
                         ("0 passed, 1 failed", 1))
        self.assertIn('no test matches "xyz"', self.output)

    def test_a_program_without_cases_fails_unless_there_is_a_filter(self):
        self.assertEqual(self.summary([program(GREEN), program(NONE)]), ("12 passed, 1 failed", 1))
        self.assertEqual(self.summary([program(GREEN), program(NONE)], 0, ["--filter", "x"], "filtered.json"),
                         ("12 passed, 0 failed", 0))

    def test_no_run_at_all_fails(self):
        result = subprocess.run([sys.executable, TOOLS / "test_summary.py", "--filter", "x"], capture_output=True,
                                text=True)
        self.assertEqual((result.stdout.splitlines()[-1], result.returncode), ("0 passed, 1 failed", 1))

    def test_a_failed_build_fails(self):
        result = subprocess.run([sys.executable, TOOLS / "test_summary.py", "run=1"], capture_output=True, text=True)
        self.assertEqual((result.stdout.splitlines()[-1], result.returncode), ("0 passed, 1 failed", 1))


class Selection(unittest.TestCase):
    TESTS = [{"name": "mpi, 2 processes", "suite": ["cldist:mpi"], "env": {}, "cmd": []},
             {"name": "layers", "suite": ["cldist:project"], "env": {}, "cmd": []},
             {"name": "sides", "suite": ["cldist:mpi"], "env": {}, "cmd": ["--test-case=*two*"]},
             {"name": "trace", "suite": ["cldist:mpi"], "env": {"CLDIST_TEST_FILTER": "two"}, "cmd": []}]

    def test_tests_are_found_by_name(self):
        self.assertEqual(list(select_tests.select(self.TESTS, "LAYER", "named")), ["layers"])

    def test_programs_with_cases_are_run_with_the_filter(self):
        self.assertEqual(list(select_tests.select(self.TESTS, "layer", "cases")), ["mpi, 2 processes"])

    def test_no_test_is_run_twice(self):
        self.assertEqual(list(select_tests.select(self.TESTS, "mpi", "cases")), [])

    def test_a_list_may_contain_tests_that_the_build_lacks_and_they_are_reported(self):
        with tempfile.NamedTemporaryFile("w") as file, contextlib.redirect_stderr(io.StringIO()) as errors:
            file.write("# a comment\nlayers\nno such test\n")
            file.flush()
            self.assertEqual(select_tests.listed(self.TESTS, file.name), ["layers"])
        self.assertEqual(errors.getvalue(), f'{file.name}: this build has no test "no such test"\n')


class Layers(unittest.TestCase):
    def complaints(self, module, text):
        return list(check_layers.wrong_includes(check_layers.place_of([*module.split("/"), "file.cpp"]), text))

    def test_modules_to_the_right_may_be_included(self):
        self.assertEqual(self.complaints("api", '#include "mpi_interop/wire.hpp"\n#include "api/check.hpp"\n'), [])
        self.assertEqual(self.complaints("ocl", '#include "base/status.hpp"\n#include <CL/cl.h>\n'), [])

    def test_modules_to_the_left_may_not(self):
        self.assertEqual([line for line, _ in self.complaints("ocl", '\n# include "events/progress_thread.hpp"\n')], [2])

    def test_mpi_interop_and_stdio_do_not_know_each_other(self):
        self.assertTrue(self.complaints("mpi_interop", '#include "stdio/file.hpp"\n'))
        self.assertTrue(self.complaints("stdio", '#include "mpi_interop/wire.hpp"\n'))

    def test_an_include_must_name_its_module(self):
        self.assertTrue(self.complaints("base", '#include "status.hpp"\n'))
        self.assertTrue(self.complaints("base", '#include "../base/status.hpp"\n'))

    def test_folders_of_the_cluster_platform_include_only_those_below_them(self):
        self.assertEqual(self.complaints("cluster/execution", '#include "cluster/objects/event.hpp"\n'), [])
        self.assertTrue(self.complaints("cluster/objects", '#include "cluster/execution/executor.hpp"\n'))
        self.assertTrue(self.complaints("cluster/api", '#include "cluster/event.hpp"\n'))

    def test_the_schedule_is_pure(self):
        self.assertTrue(self.complaints("cluster/schedule", '#include "base/log.hpp"\n'))
        self.assertEqual(self.complaints("cluster/calls", '#include "base/wakeup.hpp"\n'), [])


class Manual(unittest.TestCase):
    def test_a_setting_becomes_a_section_of_its_group(self):
        page = config_doc.manual('// ---- Memory\nCLDIST_SETTING(Bytes, keep, "CLDIST_KEEP", Bytes{64U << 20U},\n'
                                 '               "Bytes kept.\\n"  // as (told)\n               "- `0`: none\\nExample: `X`")\n')
        self.assertTrue(page.endswith("""
## Memory

### `CLDIST_KEEP`

Bytes kept.

- `0`: none

Default: `64M`. Example: `X`.
"""), page)

    def test_defaults_are_written_as_a_user_would(self):
        for default, written in [("Path::automatic", "`auto`"), ("30.0", "`30`"), ('""', "empty"), ("0U", "`0`"),
                                 ("Bytes{0}", "`0`"), ("1'500", "`1500`")]:
            self.assertEqual(config_doc.readable(default), written)

    def test_a_setting_with_a_missing_argument_is_refused(self):
        with self.assertRaises(ValueError):
            config_doc.manual('CLDIST_SETTING(int, depth, "CLDIST_DEPTH", 4)')


class ManualPages(unittest.TestCase):
    help = """Runs a program
Usage: cldist run [OPTIONS] PROGRAM

Options:
  -h,--help                   Print this help message and exit
  -n INT:INT in [1 - 8] Excludes: --simulate
                              How many processes
  --view TEXT:{devices,aggregate}
                              What it finds

Starts PROGRAM.

  cldist run -n 4 ./program
"""

    def test_options_become_entries_without_remarks_on_their_types(self):
        page = man_pages.page("cldist-run", "1.0", self.help, ["cldist", "cldist-run"])
        self.assertIn(".TP\n.B \\-n INT\nHow many processes\n", page)
        self.assertIn(".TP\n.B \\-\\-view TEXT\nWhat it finds\n", page)
        self.assertIn(".nf\n  cldist run \\-n 4 ./program\n.fi\n", page)
        self.assertIn(".SH NAME\ncldist-run \\- Runs a program\n", page)
        self.assertIn(".SH SEE ALSO\n\\fBcldist\\fR(1)\n", page)


class Dev(unittest.TestCase):
    """./dev reports wrong arguments before it builds anything, and --help changes no files."""

    def dev(self, *arguments):
        return subprocess.run([TOOLS.parent / "dev", *arguments], text=True, capture_output=True, check=False, timeout=60)

    def test_a_benchmark_that_there_is_not_is_refused_at_once(self):
        done = self.dev("bench", "nosuch")
        self.assertEqual(done.returncode, 1)
        self.assertIn('no benchmark is named "nosuch"; benchmarks: p2p ', done.stderr)
        self.assertEqual(done.stdout, "")

    def test_a_benchmark_is_one_whole_name(self):
        for name in "", "p2p enqueue", "p2":
            done = self.dev("bench", name)
            self.assertEqual((done.returncode, done.stdout), (1, ""), name)
            self.assertIn(f'no benchmark is named "{name}"', done.stderr)

    def test_an_empty_prefix_is_refused(self):
        self.assertIn("install needs one argument", self.dev("install", "").stderr)

    def test_help_makes_no_folders(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([TOOLS.parent / "bench" / "run", "--list"], env={"PATH": "/usr/bin:/bin", "BUILD_DIR": folder},
                                  text=True, capture_output=True, check=False, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("himeno", done.stdout.split())
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])

    def test_options_that_exclude_each_other_are_refused(self):
        self.assertIn("--all and --sanitize", self.dev("test", "--all", "--sanitize").stderr)


class RunAndCheck(unittest.TestCase):
    def run_job(self, job):
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run(
                [sys.executable, TOOLS.parent / "tests" / "support" / "run_and_check.py", "--ends", "nonzero", "--says", "it failed",
                 "--", "sh", "-c", job], cwd=folder, text=True, capture_output=True, check=False, timeout=60)

    crash = "echo \"[host:$(printf %05d $$)] Signal: Segmentation fault (11)\" >&2; exit 139"

    def test_a_job_whose_launcher_crashed_runs_again(self):
        done = self.run_job(f"if mkdir crashed; then {self.crash}; fi; echo it failed >&2; exit 3")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("The launcher itself crashed", done.stdout)

    def test_a_launcher_that_always_crashes_fails(self):
        self.assertEqual(self.run_job(f"echo it failed >&2; {self.crash}").returncode, 1)

    def test_a_crash_of_another_process_fails(self):
        job = "if mkdir crashed; then echo '[host:00001] Signal: Segmentation fault (11)' >&2; fi; echo it failed >&2; exit 3"
        self.assertEqual(self.run_job(job).returncode, 1)


class TimeLine(unittest.TestCase):
    @staticmethod
    def span(name, number, start, end):
        common = {"name": name, "cat": "cldist", "id": number}
        return [{"ph": "b", "ts": start, **common}, {"ph": "e", "ts": end, **common}]

    def write(self, folder, *spans):
        begin = [{"ph": "X", "name": "search", "cat": "kernel", "ts": 0, "dur": 3000, "tid": 1}]
        events = begin + sorted(sum(spans, []), key=lambda event: event["ts"])
        path = pathlib.Path(folder) / "cldist-trace-0.json"
        path.write_text(json.dumps({"traceEvents": events}))
        return path

    def test_files_have_a_lane_and_a_title(self):
        with tempfile.TemporaryDirectory() as folder:
            rank = timeline.Rank(self.write(folder, self.span("file read", 1, 0, 9000), self.span("file", 1, 1000, 5000)))
        self.assertEqual(rank.stages, [("file", "file", 1, 5)])
        self.assertEqual(rank.overlap(), (4, 2))
        self.assertEqual(timeline.lanes_of({0: rank}), ["file"])
        self.assertEqual(timeline.title_of(["file"]), "Computation with simultaneous file access")

    def test_messages_and_files_have_lanes_of_their_own(self):
        with tempfile.TemporaryDirectory() as folder:
            rank = timeline.Rank(self.write(folder, self.span("file write", 1, 0, 9000), self.span("file", 1, 1000, 5000),
                                            self.span("send", 2, 0, 900), self.span("message", 2, 100, 200)))
        self.assertEqual(timeline.lanes_of({0: rank}), ["send", "file"])
        self.assertEqual(timeline.title_of(["send", "file"]), "Computation with simultaneous communication and file access")
        self.assertEqual(timeline.title_of(["send", "recv"]), "Computation with simultaneous communication")
        self.assertEqual(timeline.title_of([]), "Computation")

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "there is no matplotlib")
    def test_a_run_that_streams_a_file_is_drawn(self):
        with tempfile.TemporaryDirectory() as folder:
            self.write(folder, self.span("file read", 1, 0, 9000), self.span("file", 1, 1000, 5000))
            picture = pathlib.Path(folder) / "picture.png"
            done = subprocess.run([sys.executable, TOOLS / "timeline.py", "--output", picture, f"streamed={folder}"], text=True,
                                  capture_output=True, check=False, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("streamed, rank 0: 4.0 ms of file access, kernels ran during 50 % of that time", done.stdout)
            self.assertTrue(picture.read_bytes().startswith(b"\x89PNG"))


if __name__ == "__main__":
    unittest.main()
