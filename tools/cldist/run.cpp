#include "run.hpp"

#include <CL/cl.h>
#include <fcntl.h>
#include <mpi.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/config.hpp"
#include "base/new_start.hpp"
#include "base/status.hpp"
#include "cluster_devices.hpp"
#include "host_channel.hpp"
#include "launcher_text.hpp"
#include "pipeline/profile_file.hpp"
#include "program.hpp"
#include "settings.hpp"
#include "shared_files.hpp"

namespace cldist::tool {
namespace {

namespace fs = std::filesystem;

#ifdef OPEN_MPI
constexpr bool open_mpi = true;
#else
constexpr bool open_mpi = false;
#endif

constexpr int drain_ms = 500;
// The exit statuses of a shell.
constexpr int not_executable = 126;
constexpr int not_found = 127;
// The exit status if the job failed, but not because of a rank.
constexpr int job_failed = 1;
// Rank 0's exit status if the job starts again. With any other status, the announcement was only
// output of the program.
constexpr int starts_again = 211;

int say_not_started(const std::string &program, int error) {
    std::error_code ignored;
    const bool there =
        error == ENOENT && program.find('/') != std::string::npos && fs::exists(program, ignored);
    std::fprintf(stderr, "cldist run: cannot start %s: %s\n", program.c_str(),
                 there ? "its interpreter does not exist" : std::strerror(error));
    return error == ENOENT ? not_found : not_executable;
}

std::string first_line(const fs::path &path) {
    std::string line;
    std::getline(std::ifstream(path), line);
    return line;
}

// The processors that a process may run on; empty if the system does not report them.
std::vector<Processor> processors_of(pid_t process) {
    constexpr std::size_t most = 65536;
    std::vector<cpu_set_t> mask(CPU_ALLOC_SIZE(most) / sizeof(cpu_set_t));
    const std::size_t size = mask.size() * sizeof(cpu_set_t);
    std::vector<Processor> processors;
    if (sched_getaffinity(process, size, mask.data()) != 0) return processors;
    for (std::size_t number = 0; number < most; ++number) {
        if (!CPU_ISSET_S(number, size, mask.data())) continue;
        const fs::path topology = fmt::format("/sys/devices/system/cpu/cpu{}/topology", number);
        Processor processor{static_cast<int>(number), 0,
                            first_line(topology / "thread_siblings_list")};
        if (processor.core.empty()) processor.core = std::to_string(number);
        std::ifstream(topology / "physical_package_id") >> processor.package;
        processors.push_back(processor);
    }
    return processors;
}

// The CPU time limit of this process's control groups, in processors.
int allowed_processors() {
    int allowed = INT_MAX;
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
        // "0::/folder" in version 2, "4:cpu,cpuacct:/folder" in version 1.
        const std::size_t first = line.find(':');
        const std::size_t second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        if (!controllers.empty() && (',' + controllers + ',').find(",cpu,") == std::string::npos)
            continue;
        const fs::path root = controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
        // A container may see its own group as the root, or its path from outside.
        for (fs::path folder = line.substr(second + 1);; folder = folder.parent_path()) {
            const fs::path at = root / folder.relative_path();
            std::string quota = first_line(at / "cpu.cfs_quota_us");
            std::string period = first_line(at / "cpu.cfs_period_us");
            if (controllers.empty()) {
                quota.clear();
                std::ifstream(at / "cpu.max") >> quota >> period;
            }
            allowed = std::min(allowed, processors_by_quota(quota, period));
            if (!folder.has_relative_path()) break;
        }
    }
    return allowed;
}

// Whether the host has enough processors for its ranks in addition to the programs that run now.
bool has_room_for(int ranks) {
    std::vector<std::string> looks;
    for (int i = 0; i < 5; ++i) {
        if (i != 0) poll(nullptr, 0, 5);  // short-lived programs end between samples
        looks.push_back(first_line("/proc/loadavg"));
    }
    return running_besides(looks) + ranks <= sysconf(_SC_NPROCESSORS_ONLN);
}

void bind_to(const std::vector<int> &processors) {
    std::vector<cpu_set_t> mask(
        1 + static_cast<std::size_t>(*std::ranges::max_element(processors)) / CPU_SETSIZE);
    const std::size_t size = mask.size() * sizeof(cpu_set_t);
    for (const int processor : processors)
        CPU_SET_S(static_cast<std::size_t>(processor), size, mask.data());
    if (sched_setaffinity(0, size, mask.data()) != 0)
        std::fprintf(stderr, "cldist run: cannot bind a rank to its cores: %s\n",
                     std::strerror(errno));
}

// Sends MPI_Abort's message of the PMI protocol to MPICH's mpirun. Otherwise mpirun would wait for
// the other ranks of a program without MPI, and after ending them would use the status of any rank.
// Returns the status.
int abort_job(const Environment &environment, int status) {
    const auto connection = environment.find("PMI_FD");
    if (open_mpi || connection == environment.end()) return status;
    // mpirun drops unread output.
    for (const int output : {STDOUT_FILENO, STDERR_FILENO})
        for (int i = 0, left = 0; i < drain_ms && ioctl(output, FIONREAD, &left) == 0 && left > 0;
             ++i)
            poll(nullptr, 0, 1);
    const std::string text = fmt::format("cmd=abort exitcode={}\n", status);
    // After MPI_Finalize no process reads this message.
    send(std::atoi(connection->second.c_str()), text.data(), text.size(), MSG_NOSIGNAL);
    return status;
}

// Ends this process like the program. With Open MPI it ends with the program's signal, which mpirun
// reports. MPICH's mpirun would use the signal's number as exit status.
int end_as(int wait_status) {
    if (open_mpi && WIFSIGNALED(wait_status)) {
        const int number = WTERMSIG(wait_status);
        prctl(PR_SET_DUMPABLE, 0);  // only the program's core dump is useful
        std::signal(number, SIG_DFL);
        sigset_t mask;
        sigemptyset(&mask);
        sigaddset(&mask, number);
        std::raise(number);
        sigprocmask(SIG_UNBLOCK, &mask, nullptr);
    }
    return exit_status(wait_status);
}

// Checks the settings that would fail in every rank. Returns the exit status.
int check_choice(Environment environment, const std::string &devices) {
    if (!devices.empty()) environment["CLDIST_DEVICES"] = devices;
    const std::vector<std::string> entries = entries_of(environment);
    std::vector<std::string> complaints;
    read_settings({entries.begin(), entries.end()}, complaints);
    std::erase_if(complaints, [](const std::string &text) {
        return text.find("CLDIST_DEVICES") == std::string::npos &&
               !text.starts_with("CLDIST_HOST_WRAP=");
    });
    if (complaints.empty()) return 0;
    std::fprintf(stderr, "cldist run: %s\n", complaints.front().c_str());
    return wrong_usage;
}

// Checks whether a program on this host would see the platform with the requested devices. Returns
// the exit status.
int check_cluster(const std::string &where, const RankPlace &place, const std::string &devices) {
    const Refusal refusal =
        refusal_of(ask_cluster(static_cast<std::size_t>(place.local_rank),
                               static_cast<std::size_t>(std::max(place.local_size, 1)), devices));
    if (!refusal.text.empty())
        std::fprintf(stderr, "cldist run: %s%s\n", where.c_str(), refusal.text.c_str());
    return refusal.status;
}

// The hosts that the user listed.
std::vector<std::string> hosts_of(const RunOptions &options) {
    std::vector<std::string> hosts = host_names(options.hosts, ',');
    if (options.hostfile.empty()) return hosts;
    std::ifstream file(options.hostfile);
    for (std::string line; std::getline(file, line);) {
        const std::vector<std::string> first =
            host_names(line.substr(0, line.find_first_of(" \t#")), '\n');
        hosts.insert(hosts.end(), first.begin(), first.end());
    }
    return hosts;
}

bool is_pipe(int descriptor) {
    struct stat state {};
    return fstat(descriptor, &state) == 0 && (S_ISFIFO(state.st_mode) || S_ISSOCK(state.st_mode));
}

// One process, without mpirun.
int run_simulated(const RunOptions &options, const Environment &environment) {
    // The value is valid: the command line was checked.
    const auto simulation = parse_simulation(options.simulate).value();
    if (is_central(environment) && simulation.rank != 0) {
        std::fprintf(
            stderr,
            "cldist run: --simulate %s: with --host-mode central, only rank 0 can be simulated\n",
            options.simulate.c_str());
        return wrong_usage;
    }
    const auto number = static_cast<int>(simulation.rank % simulation.per_host);
    const auto count = static_cast<int>(std::min(simulation.per_host, simulation.processes));
    if (const int status = check_cluster("", {0, number, count}, options.devices); status != 0)
        return status;
    Program program;
    program.arguments = options.program;
    program.environment = rank_environment(environment, vendors(), options.devices, nullptr);
    program.environment["CLDIST_SIMULATE"] = options.simulate;
    program.death_signal = SIGKILL;
    const ProgramEnd end = run_program(program);
    if (end.error != 0) return say_not_started(options.program.front(), end.error);
    if (WIFSIGNALED(end.wait_status) && end.stopped_by == 0)
        std::fprintf(stderr, "cldist run: the program was killed by %s\n",
                     signal_name(WTERMSIG(end.wait_status)).c_str());
    return job_status(end.wait_status, end.stopped_by);
}

/// The only run of the job, or the first or second of the runs of a job that may start again.
enum class Start { only, first, second };

/// Runs the job once. `output` and `error_output` record what it prints, so that the second run
/// does not print it again. Returns the exit status; empty if the job starts again.
std::optional<int> run_once(const RunOptions &options, Environment environment, Start start,
                            Shown &output, Shown &error_output) {
    std::optional<HostChannel> channel;
    std::optional<HostHub> hub;
    if (on_other_hosts(options, environment))
        environment["CLDIST_HOST_PRESENCE"] = hub.emplace(hosts_of(options)).place();
    std::optional<ProgramCount> programs;
    if (is_central(environment) && !on_other_hosts(options, environment))
        environment[ProgramCount::variable] =
            programs.emplace(Descriptor(memfd_create("cldist-programs", MFD_CLOEXEC))).path();
    // With a central host only one process runs the program, so no answers are shared.
    if (const std::string wrap = host_wrap(environment); wrap != "off" && options.ranks != 1 &&
                                                         !is_central(environment) &&
                                                         !host_library().empty()) {
        if (on_other_hosts(options, environment)) {
            environment["CLDIST_HOST_HUB"] = hub->place();
        } else if (static_cast<std::size_t>(options.ranks) <= host::Channel::most_readers) {
            channel.emplace();
            (*channel)->readers = (*channel)->barriers =
                static_cast<std::uint32_t>(options.ranks - 1);
            environment["CLDIST_HOST_CHANNEL"] = channel->path();
        }
    }
    Program mpirun;
    mpirun.arguments = mpirun_command(options, open_mpi, CLDIST_MPIRUN,
                                      fs::read_symlink("/proc/self/exe").string(), environment);
    mpirun.environment = mpirun_environment(options, open_mpi, environment);
    // If mpirun reads from a terminal, it must be in the foreground group. Otherwise it gets its
    // own group, so that only this process sends it signals: after a second signal, Open MPI's
    // mpirun abandons its ranks.
    mpirun.own_group = tcgetpgrp(STDIN_FILENO) != getpgrp();
    mpirun.death_signal = SIGTERM;
    if (open_mpi) mpirun.interrupt_as = interrupt_carrier;
    // mpirun crashes if it can't write to its output.
    if (is_pipe(STDOUT_FILENO) || start != Start::only) mpirun.output = Program::Output::passed_on;
    LauncherText errors(CLDIST_MPIRUN);
    const auto show = [start](Shown &shown, std::string_view text) {
        if (start == Start::second) return shown.new_in(text);
        if (start == Start::first) shown.add(text);
        return std::string(text);
    };
    mpirun.passed = [&](std::string_view part) { return show(output, part); };
    mpirun.errors = [&](std::string_view part) {
        return show(error_output, open_mpi ? errors.pass(part) : std::string(part));
    };
    if (!open_mpi && start == Start::only) mpirun.errors = nullptr;
    const ProgramEnd end = run_program(mpirun);
    if (end.error != 0) return say_not_started(CLDIST_MPIRUN, end.error);
    if (end.cut_off) return 128 + SIGPIPE;
    if (start == Start::first && error_output.announces_new_start() &&
        exit_status(end.wait_status) == starts_again) {
        if (end.stopped_by == 0 && !end.interrupted) return std::nullopt;
        return 128 + (end.stopped_by != 0 ? end.stopped_by : SIGINT);
    }
    std::vector<std::string> lost = errors.lost_hosts();
    // A launch failure may be the end of the ssh connection to a lost host.
    if (lost.empty() && hub && !errors.launch_failure().empty() && !hub->lost_host().empty())
        lost.push_back(hub->lost_host());
    if (const std::string report = hosts_report(lost, errors.unreachable_hosts());
        !report.empty()) {
        std::fputs(report.c_str(), stderr);
        return job_failed;
    }
    std::fputs(errors.launch_failure().c_str(), stderr);
    if (WIFSIGNALED(end.wait_status) && end.stopped_by == 0)
        std::fprintf(stderr, "cldist run: %s was killed by %s\n", CLDIST_MPIRUN,
                     signal_name(WTERMSIG(end.wait_status)).c_str());
    return job_status(end.wait_status, end.stopped_by);
}

}  // namespace

int run_job(RunOptions options) {
    const FormerOption former = take_host(options);
    if (!former.warning.empty()) std::fprintf(stderr, "cldist: %s\n", former.warning.c_str());
    if (!former.refusal.empty()) {
        std::fprintf(stderr, "cldist run: %s\n", former.refusal.c_str());
        return wrong_usage;
    }
    Environment environment = this_environment();
    take_node_file(options, environment);
    if (!options.host_mode.empty()) environment["CLDIST_HOST_MODE"] = options.host_mode;
    if (!options.counts.empty()) environment["CLDIST_COUNTS"] = options.counts;
    if (!options.view.empty()) environment["CLDIST_VIEW"] = options.view;
    if (!options.simulate.empty()) {
        const int status = check_choice(environment, options.devices);
        return status != 0 ? status : run_simulated(options, environment);
    }
    if (options.ranks == 0 && !on_other_hosts(options, environment)) {
        std::fprintf(stderr,
                     "-n is required, because neither --hosts, --hostfile nor a batch system "
                     "provides hosts\nRun with --help for more information.\n");
        return wrong_usage;
    }
    std::string refusal = refusal_under_launcher(open_mpi, environment);
    if (refusal.empty()) refusal = refusal_of_library(host_library(), environment);
    if (refusal.empty() && open_mpi && geteuid() == 0)
        refusal = refusal_of_root(options, environment);
    if (!refusal.empty()) {
        std::fprintf(stderr, "cldist run: %s\n", refusal.c_str());
        return wrong_usage;
    }
    if (const int status = check_choice(environment, options.devices); status != 0) return status;
    // If ranks are on other hosts, the ranks check their hosts.
    if (!on_other_hosts(options, environment))
        if (const int status = check_cluster("", {0, 0, options.ranks}, options.devices);
            status != 0)
            return status;
    if (!options.stage.empty()) environment["CLDIST_HOST_STAGE"] = options.stage;
    options.no_terminal = isatty(STDOUT_FILENO) != 1;
    Shown output;
    Shown error_output;
    if (!may_start_again(environment) || options.ranks == 1)
        return run_once(options, environment, Start::only, output, error_output).value();
    if (const std::string reason = why_not_again(options, environment); !reason.empty())
        environment["CLDIST_NO_NEW_START"] = reason;
    if (const auto status = run_once(options, environment, Start::first, output, error_output))
        return *status;
    if (const int number = pending_stop(); number != 0) return 128 + number;
    environment["CLDIST_HOST_MODE"] = "central";
    return run_once(options, environment, Start::second, output, error_output).value();
}

namespace {

// The first file or folder of CLDIST_HOST_STAGE that does not exist; empty if all exist.
std::string missing_to_stage(const Environment &environment) {
    const auto entry = environment.find("CLDIST_HOST_STAGE");
    if (entry == environment.end()) return {};
    std::error_code ignored;
    for (const std::string_view path : split(entry->second, ':'))
        if (!path.empty() && !fs::exists(path, ignored)) return std::string(path);
    return {};
}

}  // namespace

int run_worker() {
    cl_platform_id platform = nullptr;
    void *function = nullptr;
    if (clGetPlatformIDs(1, &platform, nullptr) == CL_SUCCESS)
        function = clGetExtensionFunctionAddressForPlatform(platform, "cldistFollowHost");
    if (function == nullptr) {
        std::fprintf(
            stderr,
            "cldist worker: the first OpenCL platform is not the cluster platform; use `cldist run "
            "--host-mode central` to start workers\n");
        return 1;
    }
    const cl_int code = reinterpret_cast<cl_int(CL_API_CALL *)()>(function)();
    if (code == CL_SUCCESS) return 0;
    if (code == CL_INVALID_OPERATION)
        std::fprintf(stderr,
                     "cldist worker: this process must be rank 1 or higher of a job with "
                     "CLDIST_HOST_MODE=central\n");
    return 1;
}

int run_devices(RunOptions options) {
    if (options.ranks == 0 && !on_other_hosts(options, this_environment())) options.ranks = 1;
    options.host_mode = "replicated";  // every rank reports its devices
    options.program = {fs::read_symlink("/proc/self/exe").string(), "probe", "devices"};
    return run_job(options);
}

int run_rank(const RunOptions &options) {
    Environment environment = this_environment();
    const RankPlace place = place_of(environment);
    // Created first and destroyed last, so that the hub notices if this host is lost.
    const std::string hub = std::exchange(environment["CLDIST_HOST_PRESENCE"], {});
    environment.erase("CLDIST_HOST_PRESENCE");
    std::optional<HostPresence> presence(std::in_place, place.local_rank == 0 ? hub : "",
                                         place.rank, ranks_of(environment), host_name());
    if (options.check_devices && place.local_rank == 0) {
        const std::string where = fmt::format("rank {} (host {}): ", place.rank, host_name());
        if (const int status = check_cluster(where, place, options.devices); status != 0)
            return abort_job(environment, status);
    }
    if (const std::string missing = place.rank == 0 ? missing_to_stage(environment) : "";
        !missing.empty()) {
        std::fprintf(stderr, "cldist run: rank 0 (host %s): --stage %s: no such file or folder\n",
                     host_name().c_str(), missing.c_str());
        return abort_job(environment, wrong_usage);
    }
    std::optional<CoreShare> share;
    if (const std::vector<Processor> usable = processors_of(0);
        place.local_size > 0 && !usable.empty()) {
        const int of_launcher = static_cast<int>(processors_of(getppid()).size());
        const bool bind = !options.no_bind && has_room_for(place.local_size);
        share = share_of(usable, of_launcher, place, bind, allowed_processors());
        if (!share->processors.empty()) bind_to(share->processors);
    }
    Program program;
    const std::string self = fs::read_symlink("/proc/self/exe").string();
    program.arguments = rank_program(options, environment, place.rank, self);
    const bool is_host =
        place.rank == 0 && rank_program(options, environment, 1, self) != program.arguments;
    program.environment =
        rank_environment(environment, vendors(), options.devices, share ? &*share : nullptr);
    const RankReport report;
    program.environment["CLDIST_REPORT"] = program.environment["CLDIST_HOST_RANK_FILE"] =
        report.path();
    if (const auto launcher = environment.find("PMI_FD"); launcher != environment.end())
        if (struct stat state{}; fstat(std::atoi(launcher->second.c_str()), &state) == 0)
            program.environment["CLDIST_HOST_PMI_INODE"] = std::to_string(state.st_ino);
    std::optional<HostRank> answers(std::in_place, program.environment, place,
                                    ranks_of(environment), options.all_output);
    if (!answers->failure().empty()) {
        std::fprintf(stderr,
                     "cldist run: rank %d (host %s) %s, or set CLDIST_HOST_WRAP=off, with which "
                     "each process gets its own clocks, random numbers and files\n",
                     place.rank, host_name().c_str(), answers->failure().c_str());
        return abort_job(environment, job_failed);
    }
    program.parent_signals_group = true;
    program.death_signal = SIGKILL;
    // MPICH's mpirun never closes the standard input of ranks above 0.
    program.no_input = place.rank != 0 && environment.contains("MPI_LOCALRANKID");
    using Output = Program::Output;
    if (place.rank != 0 && !options.all_output)
        program.output = Output::kept;
    else if (options.no_terminal && isatty(STDOUT_FILENO) == 1)
        program.output = Output::passed_on;
    if (open_mpi) program.interrupted_by = interrupt_carrier;
    // A worker ignores SIGINT: it ends when rank 0's program has ended.
    program.is_interruptible = place.rank == 0 || !is_central(environment);
    // A daemon may join before this process notices its parent's end.
    program.may_leave_daemon = [&report] { return !report.has_joined() || report.is_joined(); };
    program.has_died = [&report] { return report.has_died(); };
    std::optional<ProgramCount> programs;
    if (const auto path = program.environment.find(ProgramCount::variable);
        path != program.environment.end())
        programs.emplace(Descriptor(open(path->second.c_str(), O_RDWR | O_CLOEXEC)));
    ProgramEnd end = run_program(program);
    const bool is_worker = place.rank != 0 && is_central(environment);
    for (std::uint32_t followed = 1;
         programs && is_worker && end.error == 0 && end.wait_status == 0 && end.stopped_by == 0 &&
         programs->wait_for_another(followed);
         ++followed)
        end = run_program(program);
    answers.reset();
    const std::string reported = report.text();
    if (reported.starts_with(new_start_announcement)) {
        // Rank 0 prints the announcement and ends the job. The other ranks wait to be stopped.
        if (place.rank == 0)
            std::fputs(reported.c_str(), stderr);
        else
            wait_for_stop();
        return abort_job(environment, starts_again);
    }
    if (!reported.empty()) std::fprintf(stderr, "cldist run: %s", reported.c_str());
    const bool has_succeeded = exit_status(end.wait_status) == 0 && end.stopped_by == 0;
    if (reported.empty() && end.error == 0 && (end.died || (has_succeeded && report.has_died()))) {
        std::fprintf(stderr,
                     "cldist run: rank %d (host %s): a program that had joined the job was killed, "
                     "ended with _exit and a status other than 0, or has closed all descriptors\n",
                     place.rank, host_name().c_str());
        return abort_job(environment, job_failed);
    }
    if (end.error != 0)
        return abort_job(environment, say_not_started(program.arguments.front(), end.error));
    // The program never joined the other ranks, so they wait. A worker in its place ends them.
    if (is_host && exit_status(end.wait_status) == 0 && !report.has_joined()) {
        program.arguments = {self, "worker"};
        run_program(program);
    }
    if (programs && place.rank == 0) programs->end();
    // A rank that was stopped on request has not failed.
    if (exit_status(end.wait_status) != 0 && end.stopped_by == 0) {
        const std::string failure =
            failure_report(place.rank, host_name(), end.wait_status, end.output);
        std::fwrite(failure.data(), 1, failure.size(), stderr);
        abort_job(environment, exit_status(end.wait_status));
    }
    presence.reset();
    return end_as(end.wait_status);
}

}  // namespace cldist::tool
