#include <cerrno>
#include <chrono>
#include <csignal>

#include <doctest/doctest.h>

#include "api/init.hpp"
#include "base/child_process.hpp"
#include "doctor_mpi.hpp"
#include "doctor_opencl.hpp"
#include "doctor_program.hpp"
#include "doctor_system.hpp"
#include "finding.hpp"
#include "support.hpp"

using namespace cldist;
using namespace cldist::tool;
using Level = Finding::Level;

namespace {

HostFacts healthy() {
    HostFacts facts;
    facts.ranks = 2;
    facts.cores = facts.cores_of_a_rank = 8;
    facts.shm_total = facts.shm_free = 1ULL << 30U;
    facts.open_files = 1024;
    facts.huge_pages = "always [madvise] never";
    facts.governors = {"performance"};
    return facts;
}

Level level_of(const std::string &topic, const HostFacts &facts) {
    for (const Finding &finding : judge_host(facts))
        if (finding.topic == topic) return finding.level;
    FAIL("no finding about " << topic);
    return Level::ok;
}

Answer answer(const char *json) { return {nlohmann::json::parse(json), {}}; }

const Answer crashed{{}, "died of signal 6 (Aborted)"};

}  // namespace

TEST_CASE("nothing is found on a healthy host") {
    for (const Finding &finding : judge_host(healthy())) {
        CAPTURE(finding.topic);
        CHECK(finding.level == Level::ok);
        CHECK(finding.advice.empty());
    }
}

TEST_CASE("each harmful limit is found, with advice") {
    HostFacts facts = healthy();
    facts.locked_memory = 65536;
    CHECK(level_of("locked memory", facts) == Level::ok);
    facts.rdma = true;
    CHECK(level_of("locked memory", facts) == Level::problem);
    facts.shm_free = 10 << 20U;
    CHECK(level_of("shared memory", facts) == Level::problem);
    facts.shm_total.reset();
    CHECK(level_of("shared memory", facts) == Level::problem);
    facts.ptrace_scope = "2";
    CHECK(level_of("single copy", facts) == Level::note);
    facts.ptrace_scope = "0";
    facts.reads_own_memory = false;
    CHECK(level_of("single copy", facts) == Level::note);
    facts.open_files = 64;
    CHECK(level_of("open files", facts) == Level::problem);
    facts.huge_pages = "always madvise [never]";
    CHECK(level_of("huge pages", facts) == Level::note);
    facts.governors = {"performance", "powersave"};
    CHECK(level_of("core frequency", facts) == Level::note);
    facts.ranks = 9;
    CHECK(level_of("cores", facts) == Level::note);
    facts.ranks = 2;
    facts.quota_cores = 1.5;
    CHECK(level_of("cores", facts) == Level::note);
    facts.cores_of_a_rank = 1;
    CHECK(level_of("binding", facts) == Level::note);
    for (const Finding &finding : judge_host(facts))
        CHECK((finding.level == Level::ok) == finding.advice.empty());
}

TEST_CASE("advice ends with the section of troubleshooting.md, if there is one") {
    const Findings all =
        with_sections({note("single copy", "no", "do this"), note("profile", "none", "do that"),
                       problem("OpenCL loader", "0 platforms", "install a driver"),
                       problem("OpenCL loader", "1 platform", "set HWLOC_COMPONENTS=-opencl"),
                       ok("single copy", "yes"), warning("rank 3", "shared", "start fewer")});
    CHECK(has(all[0].advice, "do this; see "));
    CHECK(all[0].advice.ends_with("troubleshooting.md#single-copy"));
    CHECK(all[1].advice == "do that");
    CHECK(all[2].advice.ends_with("#no-opencl-platform"));
    CHECK(all[3].advice.ends_with("#platforms-are-missing-under-mpirun"));
    CHECK(all[4].advice.empty());
    CHECK(all[5].advice.ends_with("#other-findings-of-doctor"));
}

TEST_CASE("settings in force are listed, and a misspelt setting is a problem") {
    CHECK(judge_settings({"HOME=/"}).at(0).fact ==
          "no CLDIST_ variable is set; all settings have their defaults");
    const Findings findings =
        judge_settings({"CLDIST_PATH=mapped", "CLDIST_DEPHT=3", "CLDIST_ON_ERROR=maybe"});
    REQUIRE(findings.size() == 3);
    CHECK(findings[0].fact == "CLDIST_ON_ERROR=maybe CLDIST_PATH=mapped");
    CHECK(findings[1].level == Level::problem);
    CHECK(has(findings[1].fact, "did you mean CLDIST_DEPTH?"));
    CHECK(has(findings[2].fact, "CLDIST_ON_ERROR=maybe: expected"));
    const Findings others = judge_settings({"CLDIST_DEVICES=gpus", "CLDIST_HOST_WRAP=off,random"});
    REQUIRE(others.size() == 3);
    CHECK(has(others[1].fact, "CLDIST_DEVICES=gpus: \"gpus\" is invalid"));
    CHECK(has(others[2].fact, "CLDIST_HOST_WRAP=off,random: \"off\" is invalid"));
}

TEST_CASE("missing or hidden platforms are a problem") {
    LoaderFacts facts{1, {"pocl.icd"}, {}, true};
    CHECK(judge_loader(facts).level == Level::ok);
    facts.installed.emplace_back("nvidia.icd");
    facts.environment = {{"OCL_ICD_FILENAMES", "libpocl.so"}};
    CHECK(judge_loader(facts).level == Level::problem);
    CHECK(has(judge_loader(facts).advice, "HWLOC_COMPONENTS=-opencl"));
    facts.openmpi_job = false;
    CHECK(judge_loader(facts).level == Level::problem);
    CHECK_FALSE(has(judge_loader(facts).advice, "HWLOC"));
    CHECK(judge_loader({0, {}, {}, false}).level == Level::problem);
}

TEST_CASE("PoCL's threads need enough cores for all ranks") {
    HostFacts host = healthy();
    CHECK(judge_pocl({4, false}, host).level == Level::ok);
    CHECK(judge_pocl({8, false}, host).level == Level::problem);
    CHECK(has(judge_pocl({8, false}, host).advice, "POCL_MAX_PTHREAD_COUNT=4"));
    host.ranks = 16;
    CHECK(judge_pocl({1, true}, host).level == Level::ok);
    host.ranks = 1;
    CHECK(judge_pocl({8, false}, host).level == Level::note);
}

TEST_CASE("a driver's behaviour with user events, copies and failures is judged") {
    const auto level = [](const Findings &findings, std::size_t at) {
        return findings.at(at).level;
    };
    CHECK(level(judge_user_event("d", answer(R"({"other_queue":true,"same_queue":true})")), 1) ==
          Level::ok);
    CHECK(level(judge_user_event("d", answer(R"({"other_queue":true,"same_queue":false})")), 1) ==
          Level::note);
    CHECK(level(judge_user_event("d", answer(R"({"other_queue":false})")), 0) == Level::problem);
    CHECK(level(judge_user_event("d", crashed), 0) == Level::problem);

    CHECK(
        level(judge_pageable_copy("d", answer(R"({"bytes":1024,"write":{"call_ms":0.1,"total_ms":5},
                                                    "read":{"call_ms":0.1,"total_ms":5}})")),
              0) == Level::ok);
    CHECK(
        level(judge_pageable_copy("d", answer(R"({"bytes":1024,"write":{"call_ms":0.1,"total_ms":5},
                                                    "read":{"call_ms":4.9,"total_ms":5}})")),
              0) == Level::note);

    const Findings same =
        judge_error_code("d", answer(R"({"sent":-5,"command":-5,"ended":true,"callback":-5})"));
    CHECK(level(same, 0) == Level::ok);
    CHECK(level(same, 1) == Level::ok);
    const Findings other =
        judge_error_code("d", answer(R"({"sent":-5,"command":-14,"ended":true,"callback":null})"));
    CHECK(level(other, 0) == Level::note);
    CHECK(has(other[0].fact,
              "status CL_OUT_OF_RESOURCES (-5) fails with "
              "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST (-14)"));
    CHECK(level(other, 1) == Level::note);
    CHECK(
        level(judge_error_code("d", answer(R"({"sent":-5,"command":0,"ended":true,"callback":0})")),
              0) == Level::problem);
    CHECK(level(judge_error_code(
                    "d", answer(R"({"sent":-5,"command":2,"ended":false,"callback":null})")),
                0) == Level::problem);

    CHECK(level(judge_failed_event("d", answer(R"({"survives":true})")), 0) == Level::ok);
    CHECK(level(judge_failed_event("d", crashed), 0) == Level::note);
    CHECK(has(judge_failed_event("d", crashed)[0].fact, "died of signal 6"));
    CHECK(level(judge_profiling("d", answer(R"({"start":5,"end":9})")), 0) == Level::ok);
    CHECK(level(judge_profiling("d", answer(R"({"start":9,"end":5})")), 0) == Level::note);
}

TEST_CASE("doctor finds out whether a program's MPI calls reach the library") {
    const LoadedObject mpi{"/lib/libmpi.so.40", true, true};
    const LoadedObject mpich{"/lib/libmpich.so.12", true, true};
    const LoadedObject own{"/lib/libcldist.so.0", true, false};
    const LoadedObject pmpi_tool{"/opt/libmpiP.so", true, false};
    const LoadedObject opencl{"/lib/libOpenCL.so.1"};
    const auto judge = [](const std::vector<LoadedObject> &objects) {
        return judge_program("./p", objects);
    };

    CHECK(judge({own, opencl, mpi}).size() == 1);
    CHECK(judge({own, opencl, mpi}).at(0).level == Level::ok);
    CHECK(judge({opencl, mpi}).at(0).level == Level::note);
    CHECK(has(judge({opencl, mpi}).at(0).fact, "does not load libcldist"));
    CHECK(judge({own, opencl}).at(0).level == Level::problem);
    CHECK(judge({mpi, own}).at(0).level == (redirects_calls ? Level::note : Level::problem));
    CHECK(has(judge({mpi, own}).at(0).fact, "./p loads libmpi.so.40 before libcldist"));
    REQUIRE(judge({pmpi_tool, own, mpi}).size() == 2);
    CHECK(has(judge({pmpi_tool, own, mpi}).at(0).fact, "/opt/libmpiP.so is a PMPI tool"));
    CHECK(judge({own, mpi, mpich}).at(0).level == Level::problem);
    CHECK(has(judge({own, mpi, mpich}).at(0).fact,
              "two MPI libraries, /lib/libmpi.so.40 and /lib/libmpich.so.12"));
}

TEST_CASE("Open MPI's settings for transports show whether shared memory is available") {
    CHECK(leaves_shared_memory(""));
    CHECK(leaves_shared_memory("self,vader,tcp"));
    CHECK(leaves_shared_memory("sm,self"));
    CHECK_FALSE(leaves_shared_memory("tcp,self"));
    CHECK_FALSE(leaves_shared_memory("^vader"));
    CHECK(leaves_shared_memory("^openib,uct"));
}

TEST_CASE("all pairs of ranks are measured, or one pair for each two hosts if there are many") {
    CHECK(choose_pairs({0}, 28).empty());
    CHECK(choose_pairs({0, 0, 2}, 28) == std::vector<Pair>{{0, 1}, {0, 2}, {1, 2}});
    CHECK(choose_pairs(std::vector<int>(8, 0), 28).size() == 28);
    CHECK(choose_pairs({0, 0, 0, 3, 3, 5}, 3) ==
          std::vector<Pair>{{0, 1, 3}, {0, 3, 6}, {0, 5, 3}});
    CHECK(choose_pairs({0, 0, 0, 3, 3, 5}, 14) ==
          std::vector<Pair>{{0, 1, 3}, {0, 3, 6}, {0, 5, 3}, {3, 4, 1}, {3, 5, 2}});
    CHECK(choose_pairs(std::vector<int>(1000, 0), 28) == std::vector<Pair>{{0, 1, 499500}});
}

TEST_CASE("a finding of all hosts is printed once, other findings with the names of their hosts") {
    const Findings all =
        joined({{"a", {ok("t", "same"), ok("u", "one"), ok("w", "all")}},
                {"b", {ok("t", "same"), problem("u", "two", "x"), ok("w", "all")}}});
    REQUIRE(all.size() == 4);
    CHECK(line_of(all[0]) == "ok       t: same");
    CHECK(line_of(all[1]) == "ok       u (a): one");
    CHECK(line_of(all[2]) == "PROBLEM  u (b): two -> x");
    CHECK(line_of(all[3]) == "ok       w: all");
    CHECK(nlohmann::json(all).get<Findings>() == all);
}

TEST_CASE("ranks that share a GPU cause a warning, ranks that share the CPU device do not") {
    const Findings findings = judge_ranks({{"a", 0, "device 0.0, GPU", "uuid 1", false},
                                           {"a", 0, "device 0.0, GPU", "uuid 1", false},
                                           {"b", 2, "device 0.0, GPU", "uuid 1", false},
                                           {"c", 3, "device 1.0, CPU", "cpu", true},
                                           {"c", 3, "device 1.0, CPU", "cpu", true},
                                           {"d", 5, "", "", false}});
    REQUIRE(findings.size() == 6);
    CHECK(line_of(findings[0]) ==
          "WARNING  rank 0: host a, clDistLocalDevice gives device 0.0, GPU, shared by the ranks "
          "0, 1; no kernels move its messages -> start no more "
          "ranks on a host than it has devices");
    CHECK(findings[1].level == Level::warning);
    CHECK(line_of(findings[2]) ==
          "ok       rank 2: host b, clDistLocalDevice gives device 0.0, GPU");
    CHECK(findings[3].level == Level::ok);
    CHECK(findings[4].level == Level::ok);
    CHECK(findings[5].level == Level::problem);
}

TEST_CASE("a finding that several devices share is printed once") {
    const Findings all = without_repetition(
        {ok("device 0.0", "a GPU"), ok("profiling", "device 0.0: has times"),
         note("profile", "device 0.0: none", "make one"), ok("device 0.1", "a GPU"),
         ok("profiling", "device 0.1: has times"), note("profile", "device 0.1: none", "make one"),
         ok("profiling", "device 0.2: other times")});
    REQUIRE(all.size() == 5);
    CHECK(all[1].fact == "devices 0.0, 0.1: has times");
    CHECK(all[2].fact == "devices 0.0, 0.1: none");
    CHECK(all[4].fact == "device 0.2: other times");
}

TEST_CASE(
    "a child process is reported with its output, status or signal, and is killed after its time "
    "limit") {
    using std::chrono::seconds;
    const ChildEnd well = run_child(
        {"/bin/sh", "-c", "echo one; echo two >&2; head -c 100000 /dev/zero | tr '\\0' x"},
        seconds(20));
    CHECK(well.well());
    CHECK(well.output == "one\n" + std::string(100000, 'x'));
    CHECK(run_child({"/bin/sh", "-c", "exit 3"}, seconds(20)).status == 3);
    CHECK(run_child({"/bin/sh", "-c", "kill -ABRT $$"}, seconds(20)).signal == SIGABRT);
    {
        // cldist's threads also block all signals.
        sigset_t all;
        sigset_t before;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before);
        CHECK(run_child({"/bin/sh", "-c", "kill -ALRM $$"}, seconds(20)).signal == SIGALRM);
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    CHECK(run_child({"/no/such/program"}, seconds(20)).error == ENOENT);
    // The shell's child, which also holds the pipe, is killed together with the shell.
    const ChildEnd slow = run_child({"/bin/sh", "-c", "echo begun; sleep 1000; echo done"},
                                    std::chrono::milliseconds(100));
    CHECK(slow.timed_out);
    CHECK(slow.output == "begun\n");
    // A child process has ended even if its own child is still alive.
    CHECK(run_child({"/bin/sh", "-c", "sleep 2 & exec echo gone"}, seconds(20)).well());
}

TEST_CASE("the doctor says whether kernels can move a GPU's messages, and how to let them") {
    const Finding impossible = judge_kernels("device 0.1", {{}, "no sharing"}, Path::kernel);
    CHECK(impossible.level == Level::note);
    CHECK(has(impossible.fact, "device 0.1: impossible: no sharing"));
    const Finding large = judge_kernels("device 0.1", {}, Path::automatic);
    CHECK(large.level == Level::note);
    CHECK(has(large.fact, "used from 64 KiB on"));
    CHECK(has(large.advice, "CLDIST_PATH=device"));
    CHECK(has(judge_kernels("device 0.1", {}, Path::peer_to_peer).fact,
              "CLDIST_PATH=peer-to-peer does not"));
    CHECK(judge_kernels("device 0.1", {}, Path::device).level == Level::ok);
}
