#include "run.hpp"

#include <mpi.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string_view>

#include <fmt/format.h>

#include "program.hpp"

namespace cldist::tool {
namespace {

namespace fs = std::filesystem;

#ifdef OPEN_MPI
constexpr bool open_mpi = true;
#else
constexpr bool open_mpi = false;
#endif

constexpr int wrong_usage = 2;
constexpr int drain_ms = 500;
// As a shell gives them.
constexpr int not_executable = 126;
constexpr int not_found = 127;

Environment this_environment() {
    Environment environment;
    for (char **entry = environ; *entry != nullptr; ++entry)
        if (const std::string_view text = *entry; text.find('=') != std::string_view::npos)
            environment.emplace(text.substr(0, text.find('=')), text.substr(text.find('=') + 1));
    return environment;
}

// The folder with nothing but cldist-cluster.icd: beside this program where it was built, in share/ where it was
// installed. Its name ends in a slash, without which the loader of CUDA finds nothing in it.
std::string vendors() {
    const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
    for (const char *relative : {"vendors", CLDIST_VENDORS})
        if (fs::exists(folder / relative / "cldist-cluster.icd")) return fs::canonical(folder / relative) / "";
    throw std::runtime_error(fmt::format("cldist-cluster.icd is not where it was installed, {}",
                                         (folder / CLDIST_VENDORS).lexically_normal().string()));
}

int say_not_started(const std::string &program, int error) {
    std::fprintf(stderr, "cldist run: can't start %s: %s\n", program.c_str(), std::strerror(error));
    return error == ENOENT ? not_found : not_executable;
}

std::string host_name() {
    std::array<char, HOST_NAME_MAX + 1> name{};
    gethostname(name.data(), name.size() - 1);
    return name.data();
}

std::string first_line(const fs::path &path) {
    std::string line;
    std::getline(std::ifstream(path), line);
    return line;
}

// What a process may run on, or nothing if the system does not tell.
std::vector<Processor> processors_of(pid_t process) {
    constexpr std::size_t most = 65536;
    std::vector<cpu_set_t> mask(CPU_ALLOC_SIZE(most) / sizeof(cpu_set_t));
    const std::size_t size = mask.size() * sizeof(cpu_set_t);
    std::vector<Processor> processors;
    if (sched_getaffinity(process, size, mask.data()) != 0) return processors;
    for (std::size_t number = 0; number < most; ++number) {
        if (!CPU_ISSET_S(number, size, mask.data())) continue;
        const fs::path topology = fmt::format("/sys/devices/system/cpu/cpu{}/topology", number);
        Processor processor{static_cast<int>(number), 0, first_line(topology / "thread_siblings_list")};
        if (processor.core.empty()) processor.core = std::to_string(number);
        std::ifstream(topology / "physical_package_id") >> processor.package;
        processors.push_back(processor);
    }
    return processors;
}

void bind_to(const std::vector<int> &processors) {
    std::vector<cpu_set_t> mask(1 + static_cast<std::size_t>(*std::ranges::max_element(processors)) / CPU_SETSIZE);
    const std::size_t size = mask.size() * sizeof(cpu_set_t);
    for (const int processor : processors) CPU_SET_S(static_cast<std::size_t>(processor), size, mask.data());
    if (sched_setaffinity(0, size, mask.data()) != 0)
        std::fprintf(stderr, "cldist run: can't bind a rank to its cores: %s\n", std::strerror(errno));
}

// What MPI_Abort says to MPICH's mpirun, in PMI's words. Else that would wait for the other ranks of a program without
// MPI, and where it ends them, take the status of any of them.
void abort_job(const Environment &environment, int status) {
    const auto connection = environment.find("PMI_FD");
    if (open_mpi || connection == environment.end()) return;
    // It drops what it has not read.
    for (const int output : {STDOUT_FILENO, STDERR_FILENO})
        for (int i = 0, left = 0; i < drain_ms && ioctl(output, FIONREAD, &left) == 0 && left > 0; ++i)
            poll(nullptr, 0, 1);
    const std::string text = fmt::format("cmd=abort exitcode={}\n", status);
    // After MPI_Finalize nobody listens.
    send(std::atoi(connection->second.c_str()), text.data(), text.size(), MSG_NOSIGNAL);
}

// For the launcher to see. Open MPI's names the signal; MPICH's would make its number an exit status.
int end_as(int wait_status) {
    if (open_mpi && WIFSIGNALED(wait_status)) {
        const int number = WTERMSIG(wait_status);
        prctl(PR_SET_DUMPABLE, 0);  // the program's core is the one of interest
        std::signal(number, SIG_DFL);
        sigset_t mask;
        sigemptyset(&mask);
        sigaddset(&mask, number);
        std::raise(number);
        sigprocmask(SIG_UNBLOCK, &mask, nullptr);
    }
    return exit_status(wait_status);
}

}  // namespace

int run_job(const RunOptions &options) {
    const Environment environment = this_environment();
    if (options.ranks == 0 && options.hostfile.empty() && options.hosts.empty() && !has_allocation(environment)) {
        std::fprintf(stderr,
                     "-n is required: no hosts are given, and no batch system gave any\n"
                     "Run with --help for more information.\n");
        return wrong_usage;
    }
    Program mpirun;
    mpirun.arguments =
        mpirun_command(options, open_mpi, CLDIST_MPIRUN, fs::read_symlink("/proc/self/exe").string(), environment);
    mpirun.environment = mpirun_environment(options, open_mpi, environment);
    // In a terminal it reads from, it must be in the foreground; else nobody but this process shall send it signals:
    // Open MPI's forgets its ranks on a second one.
    mpirun.own_group = tcgetpgrp(STDIN_FILENO) != getpgrp();
    mpirun.death_signal = SIGTERM;
    const ProgramEnd end = run_program(mpirun);
    if (end.error != 0) return say_not_started(CLDIST_MPIRUN, end.error);
    return job_status(end.wait_status, end.stopped_by);
}

int run_rank(const RunOptions &options) {
    const Environment environment = this_environment();
    const RankPlace place = place_of(environment);
    std::optional<CoreShare> share;
    if (const std::vector<Processor> usable = processors_of(0); place.local_size > 0 && !usable.empty()) {
        const int of_launcher = static_cast<int>(processors_of(getppid()).size());
        share = share_of(usable, of_launcher, place, !options.no_bind);
        if (!share->processors.empty()) bind_to(share->processors);
    }
    Program program;
    program.arguments = options.program;
    program.environment = rank_environment(environment, vendors(), options.devices, share ? &*share : nullptr);
    program.parent_signals_group = true;
    program.death_signal = SIGKILL;
    // MPICH's leaves it open without an end.
    program.no_input = place.rank != 0 && environment.contains("MPI_LOCALRANKID");
    program.keep_output = place.rank != 0 && !options.all_output;
    const ProgramEnd end = run_program(program);
    if (end.error != 0) {
        const int status = say_not_started(options.program.front(), end.error);
        abort_job(environment, status);
        return status;
    }
    // A rank that was told to stop has not failed.
    if (exit_status(end.wait_status) != 0 && end.stopped_by == 0) {
        const std::string report = failure_report(place.rank, host_name(), end.wait_status, end.output);
        std::fwrite(report.data(), 1, report.size(), stderr);
        abort_job(environment, exit_status(end.wait_status));
    }
    return end_as(end.wait_status);
}

}  // namespace cldist::tool
