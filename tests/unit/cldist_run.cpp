#include <algorithm>
#include <csignal>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/new_start.hpp"
#include "cluster_devices.hpp"
#include "greeting.hpp"
#include "launcher_text.hpp"
#include "run_plan.hpp"

using namespace cldist::tool;

namespace {

using Texts = std::vector<std::string>;

RunOptions run_of(int ranks) {
    RunOptions options;
    options.ranks = ranks;
    options.program = {"prog", "-n", "5"};
    return options;
}

// Processors 0 to n-1, each on its own core.
std::vector<Processor> single_threads(int n) {
    std::vector<Processor> processors;
    for (int i = 0; i < n; ++i) processors.push_back({i, 0, std::to_string(i)});
    return processors;
}

RankPlace local(int rank, int size) { return {rank, rank, size}; }

// Status values as waitpid returns them.
int exited(int status) { return status << 8; }
int killed(int signal) { return signal; }

}  // namespace

TEST_CASE("wrapped groups of calls are known names, or off alone") {
    for (const char *const right : {"", "off", "random,time", "identity,output,files"})
        CHECK(wrong_group(right).empty());
    CHECK(wrong_group("time,off") == "off");
    CHECK(wrong_group("off,time") == "off");
    CHECK(wrong_group("time,clock") == "clock");
}

TEST_CASE("mpirun starts cldist, which starts the program with all its arguments") {
    CHECK(mpirun_command(run_of(4), true, "mpirun", "/bin/cldist", {}) ==
          Texts{"mpirun", "-n", "4", "/bin/cldist", "run", "--rank", "--", "prog", "-n", "5"});
    RunOptions options = run_of(0);
    options.hostfile = "hosts";
    options.hosts = "a:2,b";
    options.devices = "gpu";
    options.all_output = options.no_bind = options.no_terminal = true;
    options.mpirun_options = {"--tag-output"};
    const Environment environment{{"CLDIST_LOG", "info"}, {"HOME", "/"}};
    CHECK(mpirun_command(options, true, "m", "c", environment) == Texts{"m",
                                                                        "--hostfile",
                                                                        "hosts",
                                                                        "--host",
                                                                        "a:2,b",
                                                                        "-x",
                                                                        "CLDIST_LOG",
                                                                        "--tag-output",
                                                                        "c",
                                                                        "run",
                                                                        "--rank",
                                                                        "--check-devices",
                                                                        "--no-terminal",
                                                                        "--all-output",
                                                                        "--no-bind",
                                                                        "--devices",
                                                                        "gpu",
                                                                        "--",
                                                                        "prog",
                                                                        "-n",
                                                                        "5"});
    options.no_terminal = false;
    CHECK(mpirun_command(options, false, "m", "c", environment) ==
          Texts{"m", "-f", "hosts", "-hosts", "a:2,b", "--tag-output", "c", "run", "--rank",
                "--check-devices", "--all-output", "--no-bind", "--devices", "gpu", "--", "prog",
                "-n", "5"});
}

TEST_CASE(
    "Open MPI may start any number of ranks on this host, but not on hosts that the user listed") {
    const char *const oversubscribe = "OMPI_MCA_rmaps_base_oversubscribe";
    CHECK(mpirun_environment(run_of(4), true, {}).at(oversubscribe) == "1");
    CHECK(mpirun_environment(run_of(4), true, {{oversubscribe, "0"}}).at(oversubscribe) == "0");
    CHECK_FALSE(
        mpirun_environment(run_of(4), true, {{"SLURM_JOB_ID", "7"}}).contains(oversubscribe));
    RunOptions options = run_of(4);
    options.hosts = "a,b";
    const Environment given = mpirun_environment(options, true, {});
    CHECK_FALSE(given.contains(oversubscribe));
    CHECK(given.at("OMPI_MCA_hwloc_base_binding_policy") == "none");
    CHECK(given.at("OMPI_MCA_ess_base_forward_signals") == "SIGURG");
    CHECK(mpirun_environment(run_of(4), false, {}) == Environment{{"HWLOC_COMPONENTS", "-opencl"}});
}

TEST_CASE("PBS's list of hosts is the host file, unless the user listed hosts") {
    const Environment pbs{{"PBS_JOBID", "7"}, {"PBS_NODEFILE", "/var/spool/pbs/aux/7"}};
    RunOptions options = run_of(4);
    take_node_file(options, pbs);
    CHECK(options.hostfile == "/var/spool/pbs/aux/7");
    options = run_of(4);
    options.hosts = "a,b";
    take_node_file(options, pbs);
    CHECK(options.hostfile.empty());
    options.hostfile = "mine";
    options.hosts.clear();
    take_node_file(options, pbs);
    CHECK(options.hostfile == "mine");
    options.hostfile.clear();
    take_node_file(options, {{"PBS_JOBID", "7"}});
    CHECK(options.hostfile.empty());
}

TEST_CASE("cldist run starts no mpirun in each of srun's tasks or under Open MPI's mpirun") {
    CHECK(refusal_under_launcher(
              true, {{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}})
              .empty());
    CHECK(refusal_under_launcher(true, {{"SLURM_STEP_NUM_TASKS", "1"}}).empty());
    for (const bool open_mpi : {false, true})
        CHECK(refusal_under_launcher(open_mpi, {{"SLURM_STEP_NUM_TASKS", "2"}})
                  .starts_with("srun has started it 2 times; "));
    CHECK_FALSE(refusal_under_launcher(true, {{"OMPI_COMM_WORLD_RANK", "0"}}).empty());
    CHECK(refusal_under_launcher(false, {{"OMPI_COMM_WORLD_RANK", "0"}}).empty());
}

TEST_CASE("a rank's place is read from the variables that each launcher sets") {
    CHECK(place_of({}) == RankPlace{0, 0, 0});
    CHECK(place_of({{"OMPI_COMM_WORLD_RANK", "5"},
                    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                    {"SLURM_PROCID", "0"},
                    {"SLURM_LOCALID", "0"}}) == RankPlace{5, 1, 4});
    CHECK(place_of({{"PMI_RANK", "3"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}}) ==
          RankPlace{3, 1, 2});
    CHECK(place_of({{"PMI_RANK", "3"}, {"PMI_LOCAL_RANK", "0"}, {"PMI_LOCAL_SIZE", "2"}}) ==
          RankPlace{3, 0, 2});
    CHECK(place_of({{"PMI_RANK", "3"}}) == RankPlace{3, 0, 0});
    Environment slurm{
        {"SLURM_PROCID", "6"}, {"SLURM_LOCALID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}};
    slurm["SLURM_NODEID"] = "2";
    CHECK(place_of(slurm) == RankPlace{6, 0, 2});
    slurm["SLURM_NODEID"] = "3";
    CHECK(place_of(slurm) == RankPlace{6, 0, 1});
    slurm["SLURM_NODEID"] = "4";
    CHECK(place_of(slurm) == RankPlace{6, 0, 0});
    slurm["SLURM_STEP_TASKS_PER_NODE"] = "x(x";
    CHECK(place_of(slurm) == RankPlace{6, 0, 0});
    // Contradictory variables yield no place.
    CHECK(place_of({{"MPI_LOCALRANKID", "2"}, {"MPI_LOCALNRANKS", "2"}}) == RankPlace{0, 0, 0});
}

TEST_CASE("the ranks of a host get whole cores, each core once") {
    CHECK(share_of(single_threads(5), 5, local(0, 2), true) == CoreShare{{0, 1}, 2, false});
    CHECK(share_of(single_threads(5), 5, local(1, 2), true) == CoreShare{{2, 3, 4}, 3, false});
    CHECK(share_of(single_threads(2), 2, local(1, 2), true) == CoreShare{{1}, 1, false});
    // Two packages with alternating processor numbers and two threads per core: 0 and 4 share a
    // core, and so do 2 and 6.
    std::vector<Processor> pairs;
    for (int i = 0; i < 8; ++i) pairs.push_back({i, i % 2, std::to_string(i % 4)});
    CHECK(share_of(pairs, 8, local(0, 2), true) == CoreShare{{0, 4, 2, 6}, 4, false});
    CHECK(share_of(pairs, 8, local(1, 2), true) == CoreShare{{1, 5, 3, 7}, 4, false});
    CHECK(share_of(pairs, 8, local(1, 4), true) == CoreShare{{2, 6}, 2, false});
}

TEST_CASE(
    "ranks are not bound if they outnumber the cores, are already bound, or binding is disabled") {
    CHECK(share_of(single_threads(2), 2, local(2, 3), true) == CoreShare{{}, 1, true});
    CHECK(share_of(single_threads(8), 8, local(0, 2), false) == CoreShare{{}, 4, false});
    CHECK(share_of(single_threads(4), 16, local(0, 4), true) == CoreShare{{}, 4, false});
    // The ranks are bound to a package that two of them share.
    CHECK(share_of(single_threads(8), 16, local(0, 4), true) == CoreShare{{}, 4, false});
    CHECK(share_of(single_threads(1), 2, local(0, 3), true) == CoreShare{{}, 1, true});
}

TEST_CASE("ranks with a CPU time limit are not bound, and get threads only for that limit") {
    CHECK(share_of(single_threads(8), 8, local(0, 2), true, 4) == CoreShare{{}, 2, false});
    CHECK(share_of(single_threads(8), 8, local(0, 4), true, 3) == CoreShare{{}, 1, true});
    CHECK(share_of(single_threads(2), 2, local(1, 2), true, 2) == CoreShare{{1}, 1, false});
    CHECK(processors_by_quota("200000", "100000") == 2);
    CHECK(processors_by_quota("50000", "100000") == 1);
    CHECK(processors_by_quota("max", "100000") == INT_MAX);
    CHECK(processors_by_quota("-1", "100000") == INT_MAX);
    CHECK(processors_by_quota("", "") == INT_MAX);
}

TEST_CASE("other load on a host is the load seen in every sample") {
    CHECK(running_besides({"0.20 0.18 0.12 3/1024 4711", "0.20 0.18 0.12 5/1024 4711"}) == 2);
    CHECK(running_besides({"0.20 0.18 0.12 1/80 11"}) == 0);
    CHECK(running_besides({""}) == 0);
    CHECK(running_besides({}) == 0);
}

TEST_CASE(
    "the program sees only the cluster platform, which loads the drivers that the program would "
    "have loaded") {
    const Environment plain = rank_environment({}, "/v", "", nullptr);
    CHECK(rank_environment({{"PMIX_MCA_gds", "ds12"}}, "/v", "", nullptr).at("PMIX_MCA_gds") ==
          "ds12");
    CHECK(plain == Environment{{"CLDIST_NATIVE_ICDS", "/etc/OpenCL/vendors"},
                               {"HWLOC_COMPONENTS", "-opencl"},
                               {"OCL_ICD_VENDORS", "/v"},
                               {"PMIX_MCA_gds", "hash"}});
    const auto native = [](const Environment &environment) {
        return rank_environment(environment, "/v", "", nullptr).at("CLDIST_NATIVE_ICDS");
    };
    CHECK(native({{"OPENCL_VENDOR_PATH", "/p"}}) == "/p");
    CHECK(native({{"OPENCL_VENDOR_PATH", "/p"}, {"OCL_ICD_VENDORS", "/o"}}) == "/o");
    CHECK(native({{"OCL_ICD_FILENAMES", "a.so:b.so"}}) == "a.so:b.so:/etc/OpenCL/vendors");
    CHECK(native({{"OCL_ICD_FILENAMES", "a.so"}, {"OCL_ICD_VENDORS", "/o"}}) == "a.so:/o");
    CHECK(native({{"OCL_ICD_FILENAMES", "a.so"}, {"CLDIST_NATIVE_ICDS", "c.icd"}}) == "c.icd");
    // In a nested run, the platform is not its own driver.
    CHECK(rank_environment(plain, "/v", "", nullptr) == plain);
    const Environment all = rank_environment(
        {{"OCL_ICD_FILENAMES", "a.so"}, {"OPENCL_VENDOR_PATH", "/p"}}, "/v", "gpu", nullptr);
    CHECK_FALSE(all.contains("OCL_ICD_FILENAMES"));
    CHECK_FALSE(all.contains("OPENCL_VENDOR_PATH"));
    CHECK(all.at("CLDIST_DEVICES") == "gpu");
}

TEST_CASE(
    "PoCL gets the rank's share of the cores, and a waiting rank yields if there are too few "
    "cores") {
    const CoreShare share{{}, 3, false};
    const Environment some = rank_environment({{"POCL_MAX_PTHREAD_COUNT", "1"}}, "/v", "", &share);
    CHECK(some.at("POCL_MAX_PTHREAD_COUNT") == "1");
    CHECK(some.at("POCL_CPU_MAX_CU_COUNT") == "3");
    CHECK_FALSE(some.contains("OMPI_MCA_mpi_yield_when_idle"));
    const CoreShare crowded{{}, 1, true};
    CHECK(rank_environment({}, "/v", "", &crowded).at("OMPI_MCA_mpi_yield_when_idle") == "1");
}

TEST_CASE("only the end of a long output is kept") {
    Tail tail;
    tail.append("one");
    tail.append("two");
    CHECK(tail.text() == "onetwo");
    tail.append(std::string(Tail::limit - 4, 'x'));
    CHECK(tail.text() == "etwo" + std::string(Tail::limit - 4, 'x'));
    tail.append(std::string(3 * Tail::limit, 'y') + "z");
    CHECK(tail.text() == std::string(Tail::limit - 1, 'y') + "z");
}

TEST_CASE("the report of a rank shows its status or signal as a shell does, and its last output") {
    CHECK(exit_status(exited(3)) == 3);
    CHECK(exit_status(killed(SIGSEGV)) == 139);
    CHECK(job_status(exited(3), 0) == 3);
    CHECK(job_status(exited(1), SIGTERM) == 143);
    CHECK(job_status(exited(0), SIGINT) == 130);
    CHECK(signal_name(SIGKILL) == "SIGKILL");
    CHECK(signal_name(40) == "signal 40");
    CHECK(failure_report(2, "a", exited(3), "") ==
          "cldist run: rank 2 (host a) exited with status 3\n");
    CHECK(failure_report(0, "b", killed(SIGSEGV), "line\nrest") ==
          "cldist run: rank 0 (host b) was killed by SIGSEGV\nits last output:\nline\nrest\n");
}

TEST_CASE("if a program gets no device, one line shows the request and the existing devices") {
    const auto refusal = [](const ClusterAnswer &found) { return refusal_of({found, {}}); };
    ClusterAnswer found;
    found.places = "/vendors";
    found.choice = "gpu";
    found.there = {"a (CPU)", "a (CPU)", "b (GPU)"};
    found.mine = {"b (GPU)"};
    CHECK(refusal(found) == Refusal{});
    CHECK(judge_cluster({found, {}}).level == Finding::Level::ok);
    found.left_out = {"libmissing.so: cannot open shared object file"};
    CHECK(judge_cluster({found, {}}).level == Finding::Level::note);
    CHECK(judge_cluster({found, {}}).fact.find("libmissing.so: cannot open") != std::string::npos);
    found.left_out.clear();
    found.mine.clear();
    CHECK(refusal(found) ==
          Refusal{"CLDIST_DEVICES=gpu selects no device; this host has: 2 x a (CPU), b (GPU)", 2});
    CHECK(judge_cluster({found, {}}).level == Finding::Level::note);
    found.choice_failure = "CLDIST_DEVICES=x: no";
    CHECK(refusal(found) == Refusal{"CLDIST_DEVICES=x: no; there are: 2 x a (CPU), b (GPU)", 2});
    found.platform_failure = "libx.so: cannot open";
    CHECK(refusal(found) == Refusal{"the cluster platform does not load: libx.so: cannot open", 1});
    CHECK(judge_cluster({found, {}}).level == Finding::Level::problem);
    ClusterAnswer nothing;
    nothing.places = "/vendors";
    CHECK(refusal(nothing).text.starts_with(
        "no OpenCL driver in /vendors has a device; install a driver: "));
    nothing.left_out = {"libx.so: cannot open"};
    CHECK(refusal(nothing) ==
          Refusal{"no OpenCL driver in /vendors can be opened: libx.so: cannot open", 2});
    // A driver that hangs or crashes affects only the child process. The program still starts.
    CHECK(refusal_of({{}, "hung"}) ==
          Refusal{"the test of the OpenCL drivers failed: the child process hung", 0});
}

TEST_CASE("--host still selects hosts or the host mode, with a warning") {
    for (const char *const mode : {"central", "replicated"}) {
        RunOptions options;
        options.host = mode;
        CHECK(take_host(options) ==
              FormerOption{std::string("--host ") + mode + " is now --host-mode " + mode, ""});
        CHECK(options.host_mode == mode);
        CHECK(options.hosts.empty());
    }
    for (const char *const hosts : {"a:2,b:2", "central:1", "central,b"}) {
        RunOptions options;
        options.host = hosts;
        CHECK(take_host(options) ==
              FormerOption{std::string("--host ") + hosts + " is now --hosts " + hosts, ""});
        CHECK(options.host_mode.empty());
        CHECK(options.hosts == hosts);
    }
    for (const char *const hosts : {"Central", "centrel", "REPLICATED"}) {
        RunOptions options;
        options.host = hosts;
        CHECK(take_host(options).refusal.find("did you mean --host-mode ") != std::string::npos);
    }
    RunOptions options;
    options.hosts = "central";
    CHECK(take_host(options) == FormerOption{});
    CHECK(options.hosts == "central");
}

TEST_CASE("host names are the parts before the numbers") {
    CHECK(host_names("a:2,b,,10.0.0.1:4", ',') == Texts{"a", "b", "10.0.0.1"});
    CHECK(host_names("", ',').empty());
}

TEST_CASE("root learns what Open MPI requires before mpirun starts") {
    RunOptions options;
    CHECK(refusal_of_root(options, {})
              .find("OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1") !=
          std::string::npos);
    CHECK_FALSE(refusal_of_root(options, {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}}).empty());
    CHECK(refusal_of_root(
              options, {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}})
              .empty());
    options.mpirun_options = {"--allow-run-as-root"};
    CHECK(refusal_of_root(options, {}).empty());
}

TEST_CASE("cldist run: a library whose path LD_PRELOAD would divide is refused") {
    CHECK(refusal_of_library("", {}).empty());
    CHECK(refusal_of_library("/opt/cldist/libcldist-host.so", {}).empty());
    for (const std::string path :
         {"/opt/my tools/libcldist-host.so", "/opt/a:b/libcldist-host.so"}) {
        CHECK(refusal_of_library(path, {}).starts_with("it cannot preload " + path));
        CHECK(refusal_of_library(path, {{"CLDIST_HOST_WRAP", "off"}}).empty());
    }
}

namespace {

const std::string dashes = std::string(74, '-') + "\n";
const std::string of_status =
    dashes +
    "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
    "the job to be terminated. The first process to do so was:\n\n"
    "  Process name: [[21806,1],1]\n  Exit code:    3\n" +
    dashes;
const std::string report = "cldist run: rank 1 (host a) exited with status 3\n";

// Passes the text in pieces of `size` bytes. If `lines`, extends each piece to the end of its line.
std::string passed(LauncherText &errors, const std::string &text, std::size_t size,
                   bool lines = false) {
    std::string result;
    for (std::size_t at = 0; at < text.size();) {
        std::size_t end = std::min(at + size, text.size());
        if (lines) end = std::min(text.find('\n', end - 1), text.size() - 1) + 1;
        result += errors.pass(text.substr(at, end - at));
        at = end;
    }
    return result + errors.pass({});
}

}  // namespace

TEST_CASE("mpirun's messages about a rank are removed once cldist run has reported it") {
    const std::string primary =
        dashes + "Primary job  terminated normally, but 1 process returned\nmore\n" + dashes;
    for (const std::size_t size : {8192, 100, 1}) {
        LauncherText errors("mpirun");
        CHECK(passed(errors, report + primary + of_status + "rest", size, true) == report + "rest");
    }
    const std::string differ = "cldist[0]: the processes' calls differ: rank 0's call 5 is\n";
    const std::string abort =
        dashes + "MPI_ABORT was invoked on rank 0 in communicator\nwith errorcode 1.\n" + dashes;
    LauncherText differing("mpirun");
    CHECK(passed(differing, differ + abort, 8192) == differ);
    CHECK(passed(differing, abort, 8192).empty());
    LauncherText others("mpirun");
    CHECK(passed(others, abort, 8192) == abort);
    CHECK(passed(others, of_status, 8192) == of_status);
    LauncherText interrupted("mpirun");
    CHECK(passed(interrupted, "mpirun: Forwarding signal 23 to job\n" + of_status, 8192).empty());
    LauncherText signalled("mpirun");
    CHECK(passed(signalled, "mpirun: Forwarding signal 10 to job\n" + of_status, 8192) ==
          of_status);
}

TEST_CASE("mpirun's messages are removed if the job starts again") {
    const std::string line = std::string(cldist::new_start_announcement) + "calls differ\n";
    const std::string aborted =
        dashes + "Primary job  terminated normally, but 1 process returned\nmore\n" + dashes;
    LauncherText errors("mpirun");
    CHECK(passed(errors, line + aborted, 8192) == line);
}

TEST_CASE("the second run's output is shown without what the first run has shown") {
    const auto second = [](const std::string &first, const std::string &all, std::size_t size) {
        Shown shown;
        for (std::size_t at = 0; at < first.size(); at += size)
            shown.add(std::string_view(first).substr(at, size));
        std::string result;
        for (std::size_t at = 0; at < all.size(); at += size)
            result += shown.new_in(std::string_view(all).substr(at, size));
        return result + shown.new_in({});
    };
    for (const std::size_t size : {1, 2, 3, 100}) {
        CHECK(second("", "a\nb\n", size) == "a\nb\n");
        CHECK(second("a\n", "a\nb\n", size) == "b\n");
        CHECK(second("a\nb\n", "a\n", size).empty());
        CHECK(second("How many? ", "How many? 5\n", size) == "5\n");
        // Everything from the first different line on is new.
        CHECK(second("a\nseed 12\nb\nc\n", "a\nseed 13\nb\nc\n", size) == "seed 13\nb\nc\n");
        CHECK(second("seed 12\n", "12\n", size) == "12\n");
        CHECK(second("a\nbc\n", "a\n\nbc\n", size) == "\nbc\n");
    }
}

TEST_CASE("of a long output the first part is compared") {
    Shown shown;
    const std::string lines(Shown::limit, 'x');
    shown.add(lines);
    shown.add("yz");
    CHECK(shown.new_in(lines).empty());
    CHECK(shown.new_in("y") == "");
    CHECK(shown.new_in("zw") == "w");
}

TEST_CASE("the announcement of a new start is found wherever the text is divided") {
    const std::string text =
        "some text\n" + std::string(cldist::new_start_announcement) + "calls differ\n";
    for (const std::size_t size : {1, 7, 1000}) {
        Shown shown;
        for (std::size_t at = 0; at < text.size(); at += size) {
            CHECK((shown.announces_new_start() == false || at > text.find("cldist run")));
            shown.add(std::string_view(text).substr(at, size));
        }
        CHECK(shown.announces_new_start());
    }
    Shown other;
    other.add("cldist run: the job starts again\n");
    CHECK_FALSE(other.announces_new_start());
}

TEST_CASE(
    "only a job with the default host mode may start again, and only if its output can be "
    "repeated") {
    CHECK(may_start_again({}));
    CHECK(may_start_again({{"CLDIST_HOST_MODE", "auto"}}));
    CHECK(may_start_again({{"CLDIST_HOST_MODE", "AUTO"}}));
    CHECK_FALSE(may_start_again({{"CLDIST_HOST_MODE", "replicated"}}));
    CHECK_FALSE(may_start_again({{"CLDIST_HOST_MODE", "central"}}));
    RunOptions options;
    CHECK(why_not_again(options, {}).empty());
    CHECK(why_not_again(options, {{"CLDIST_VIEW", "aggregate"}}).find("aggregate") !=
          std::string::npos);
    options.all_output = true;
    CHECK(why_not_again(options, {}).find("--all-output") != std::string::npos);
}

TEST_CASE("standard error of programs passes mpirun's filter unchanged") {
    for (const std::string &text :
         {dashes + "a title\n" + dashes + "text\n", dashes, std::string("----"),
          dashes + "mpirun detected that", "x" + dashes + "mpirun detected that one or more",
          std::string("no end of line"), dashes + dashes + dashes,
          dashes + "ORTE has lost communication with a remote daemon.\n" + std::string(20000, 'x')})
        for (const std::size_t size : {1, 75, 100000}) {
            LauncherText errors("mpirun");
            CHECK(errors.pass(report) == report);
            CHECK(passed(errors, text, size) == text);
            CHECK(errors.lost_hosts().empty());
        }
}

TEST_CASE("hosts that mpirun lost or can't reach are reported by their names") {
    const std::string lost =
        dashes +
        "ORTE has lost communication with a remote daemon.\n\n"
        "  HNP daemon   : [[5441,0],0] on node nl0\n  Remote daemon: [[5441,0],1] on node nl1\n\n"
        "This is usually due to either a failure of the TCP network\n" +
        dashes;
    LauncherText errors("mpirun");
    CHECK(passed(errors, "before\n" + lost + lost + "after\n", 8192) == "before\nafter\n");
    CHECK(errors.lost_hosts() == Texts{"nl1"});
    const std::string ssh =
        "ssh: Could not resolve hostname nohost: Name or service not known\n"
        "ssh: connect to host far port 22: Connection refused\n";
    const std::string failed =
        dashes + "ORTE was unable to reliably start one or more daemons.\nmore\n" + dashes;
    LauncherText starting("mpirun");
    CHECK(passed(starting, ssh + failed, 8192) == ssh);
    CHECK(starting.unreachable_hosts() == Texts{"nohost", "far"});
    LauncherText unexplained("mpirun");
    CHECK(passed(unexplained, failed + "more\n", 8192) == "more\n");
    CHECK(unexplained.launch_failure() == failed);
    CHECK(hosts_report({}, {}).empty());
    CHECK(hosts_report({"nl1"}, {"far"}).find("host nl1 is lost") != std::string::npos);
    CHECK(hosts_report({"nl1"}, {"far"}).find("host far cannot be reached") != std::string::npos);
}

TEST_CASE("a hub accepts greetings only from its job's ranks") {
    Secret secret;
    secret.fill('s');
    const auto parse = [&](const Greeting &greeting, std::size_t size = sizeof(Greeting)) {
        return parse_greeting(std::as_bytes(std::span(&greeting, 1)).first(size), secret)
            .has_value();
    };
    CHECK(parse({secret, 0, 2, {}}));
    CHECK(parse({secret, 1, 2, {"host"}}));
    CHECK_FALSE(parse({secret, 2, 2, {}}));
    CHECK_FALSE(parse({secret, 5000, 6000, {}}));  // more ranks than the hub can serve
    CHECK_FALSE(parse({secret, 1, 2, {}}, sizeof(Greeting) - 1));
    CHECK_FALSE(parse({secret, 1, 2, {}}, 0));
    Greeting endless{secret, 1, 2, {}};
    endless.host.fill('h');
    CHECK_FALSE(parse(endless));
    for (const std::size_t wrong : {0, 31}) {
        Secret other = secret;
        other.at(wrong) = 't';
        CHECK_FALSE(parse({other, 1, 2, {}}));
    }
}

TEST_CASE("with a central host rank 0 runs the program, and the other ranks run cldist worker") {
    RunOptions options;
    options.program = {"./program", "argument"};
    const Environment central{{"CLDIST_HOST_MODE", "central"}};
    CHECK(rank_program(options, central, 0, "/bin/cldist") == options.program);
    CHECK(rank_program(options, central, 1, "/bin/cldist") ==
          std::vector<std::string>{"/bin/cldist", "worker"});
    CHECK(rank_program(options, {}, 1, "/bin/cldist") == options.program);
}
