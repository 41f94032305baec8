#include "run_plan.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/config.hpp"
#include "base/new_start.hpp"

namespace cldist::tool {
namespace {

constexpr const char *native_icds = "CLDIST_NATIVE_ICDS";
constexpr const char *all_groups = "random,time,identity,output,files";
constexpr const char *standard_vendors = "/etc/OpenCL/vendors";

std::string value_of(const Environment &environment, const char *name) {
    const auto entry = environment.find(name);
    return entry == environment.end() ? "" : entry->second;
}

std::optional<int> parse_number(std::string_view text) {
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return number;
}

std::optional<int> number_of(const Environment &environment, const char *name) {
    return parse_number(value_of(environment, name));
}

// The number of tasks on a node, from Slurm's list: in "2(x3),1", three nodes have 2, and one
// has 1.
std::optional<int> slurm_tasks(std::string_view list, int node) {
    int first = 0;
    for (const std::string_view entry : split(list, ',')) {
        const std::size_t times = entry.find("(x");
        int nodes = 1;
        if (times != std::string_view::npos && entry.back() == ')')
            nodes = parse_number(entry.substr(times + 2, entry.size() - times - 3)).value_or(1);
        if (node < first + nodes) return parse_number(entry.substr(0, times));
        first += nodes;
    }
    return std::nullopt;
}

// The cores, ordered by package, then by their first hardware thread.
std::vector<std::vector<int>> cores_of(std::vector<Processor> processors) {
    std::ranges::sort(processors, [](const Processor &a, const Processor &b) {
        return std::pair(a.package, a.number) < std::pair(b.package, b.number);
    });
    std::vector<std::vector<int>> cores;
    std::map<std::pair<int, std::string>, std::size_t> known;
    for (const Processor &processor : processors) {
        const auto [entry, is_new] =
            known.try_emplace({processor.package, processor.core}, cores.size());
        if (is_new) cores.emplace_back();
        cores[entry->second].push_back(processor.number);
    }
    return cores;
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    while (!text.empty()) {
        parts.push_back(text.substr(0, text.find(separator)));
        text.remove_prefix(std::min(text.size(), parts.back().size() + 1));
    }
    return parts;
}

bool has_allocation(const Environment &environment) {
    return std::ranges::any_of(std::array{"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE"},
                               [&](const char *name) { return environment.contains(name); });
}

void take_node_file(RunOptions &options, const Environment &environment) {
    if (options.hosts.empty() && options.hostfile.empty())
        options.hostfile = value_of(environment, "PBS_NODEFILE");
}

bool on_other_hosts(const RunOptions &options, const Environment &environment) {
    return !options.hostfile.empty() || !options.hosts.empty() || has_allocation(environment);
}

std::vector<std::string> host_names(std::string_view list, char separator) {
    std::vector<std::string> names;
    for (const std::string_view entry : split(list, separator))
        if (const std::string_view name = entry.substr(0, entry.find(':')); !name.empty())
            names.emplace_back(name);
    return names;
}

std::vector<std::string> mpirun_command(const RunOptions &options, bool open_mpi,
                                        const std::string &mpirun, const std::string &self,
                                        const Environment &environment) {
    std::vector<std::string> command{mpirun};
    const auto add = [&](std::initializer_list<std::string> more) {
        command.insert(command.end(), more);
    };
    if (options.ranks > 0) add({"-n", std::to_string(options.ranks)});
    if (!options.hostfile.empty()) add({open_mpi ? "--hostfile" : "-f", options.hostfile});
    if (!options.hosts.empty()) add({open_mpi ? "--host" : "-hosts", options.hosts});
    // MPICH's mpirun passes the whole environment to other hosts.
    if (open_mpi)
        for (const auto &[name, value] : environment)
            if (name.starts_with("CLDIST_")) add({"-x", name});
    command.insert(command.end(), options.mpirun_options.begin(), options.mpirun_options.end());
    add({self, "run", "--rank"});
    if (on_other_hosts(options, environment)) add({"--check-devices"});
    if (options.no_terminal) add({"--no-terminal"});
    if (options.all_output) add({"--all-output"});
    if (options.no_bind) add({"--no-bind"});
    if (!options.devices.empty()) add({"--devices", options.devices});
    add({"--"});
    command.insert(command.end(), options.program.begin(), options.program.end());
    return command;
}

Environment mpirun_environment(const RunOptions &options, bool open_mpi, Environment environment) {
    environment.emplace("HWLOC_COMPONENTS", "-opencl");
    if (!open_mpi) return environment;
    // OMPI_ is for Open MPI 4, PRTE_ for 5. These are no command-line options, because the user's
    // settings must override them.
    environment.emplace("OMPI_MCA_ess_base_forward_signals", "SIGURG");
    environment.emplace("PRTE_MCA_ess_base_forward_signals", "SIGURG");
    environment.emplace("OMPI_MCA_hwloc_base_binding_policy", "none");
    environment.emplace("PRTE_MCA_hwloc_default_binding_policy", "none");
    if (on_other_hosts(options, environment)) return environment;
    // Without ssh and rsh, Open MPI 4 starts no rank, not even on this host.
    environment.emplace("OMPI_MCA_plm_rsh_agent", "ssh:rsh:false");
    environment.emplace("OMPI_MCA_rmaps_base_oversubscribe", "1");
    environment.emplace("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    return environment;
}

RankPlace place_of(const Environment &environment) {
    RankPlace place;
    for (const char *name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
        if (const auto rank = number_of(environment, name)) {
            place.rank = *rank;
            break;
        }
    std::optional<int> rank;
    std::optional<int> size;
    constexpr std::array<std::pair<const char *, const char *>, 3> names{
        {{"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
         {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
         {"PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"}}};
    for (const auto &[rank_name, size_name] : names) {
        rank = number_of(environment, rank_name);
        size = number_of(environment, size_name);
        if (rank && size) break;
    }
    if (!rank || !size) {
        rank = number_of(environment, "SLURM_LOCALID");
        size = slurm_tasks(value_of(environment, "SLURM_STEP_TASKS_PER_NODE"),
                           number_of(environment, "SLURM_NODEID").value_or(0));
    }
    if (rank && size && *rank >= 0 && *rank < *size) {
        place.local_rank = *rank;
        place.local_size = *size;
    }
    return place;
}

int ranks_of(const Environment &environment) {
    for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"})
        if (const auto ranks = number_of(environment, name)) return *ranks;
    return 1;
}

std::string host_wrap(const Environment &environment) {
    const auto entry = environment.find("CLDIST_HOST_WRAP");
    return entry == environment.end() ? all_groups : entry->second;
}

std::string refusal_of_library(const std::string &path, const Environment &environment) {
    // They separate the paths in LD_PRELOAD.
    if (path.find_first_of(" \t\n:") == std::string::npos || host_wrap(environment) == "off")
        return {};
    return fmt::format(
        "it cannot preload {}, because its path contains a space or a colon; install cldist in a "
        "folder without them, or set CLDIST_HOST_WRAP=off, with which each process gets its own "
        "clocks, random numbers and files",
        path);
}

std::string wrong_group(std::string_view groups) {
    if (groups == "off") return {};
    while (!groups.empty()) {
        const std::string_view word = groups.substr(0, groups.find(','));
        groups.remove_prefix(std::min(groups.size(), word.size() + 1));
        if (std::ranges::none_of(std::array{"random", "time", "identity", "output", "files"},
                                 [&](const char *group) { return word == group; }))
            return std::string(word);
    }
    return {};
}

int running_besides(const std::vector<std::string> &looks) {
    int fewest = INT_MAX;
    for (const std::string &line : looks) {
        // "0.20 0.18 0.12 3/1024 4711": 3 of 1024 threads are running or runnable.
        const std::size_t slash = line.find('/');
        if (slash == std::string::npos) return 0;
        const std::size_t space = line.rfind(' ', slash);
        fewest = std::min(fewest,
                          std::atoi(line.c_str() + (space == std::string::npos ? 0 : space)) - 1);
    }
    return looks.empty() ? 0 : std::max(fewest, 0);
}

int processors_by_quota(const std::string &quota, const std::string &period) {
    const long of = std::atol(quota.c_str());
    const long by = std::atol(period.c_str());
    return of <= 0 || by <= 0 ? INT_MAX : static_cast<int>(std::clamp<long>(of / by, 1, INT_MAX));
}

CoreShare share_of(std::vector<Processor> usable, int launcher_processors, RankPlace place,
                   bool bind, int allowed) {
    const int processors = static_cast<int>(usable.size());
    const std::vector<std::vector<int>> cores = cores_of(std::move(usable));
    const auto size = static_cast<std::size_t>(place.local_size);
    CoreShare share;
    if (processors < launcher_processors) {
        share.threads = std::max(1, std::min(processors, launcher_processors / place.local_size));
        share.crowded = place.local_size > std::min(launcher_processors, allowed);
        return share;
    }
    share.crowded = size > cores.size() || place.local_size > allowed;
    share.threads = std::max(1, std::min(processors, allowed) / place.local_size);
    if (share.crowded || !bind || allowed < processors) return share;
    const auto rank = static_cast<std::size_t>(place.local_rank);
    for (std::size_t core = rank * cores.size() / size; core < (rank + 1) * cores.size() / size;
         ++core)
        share.processors.insert(share.processors.end(), cores[core].begin(), cores[core].end());
    share.threads = static_cast<int>(share.processors.size());
    return share;
}

FormerOption take_host(RunOptions &options) {
    const std::string value = std::exchange(options.host, {});
    if (value.empty()) return {};
    for (const std::string mode : {"central", "replicated"}) {
        if (value == mode) {
            options.host_mode = mode;
            return {fmt::format("--host {0} is now --host-mode {0}", mode), ""};
        }
        std::string lower = value;
        std::ranges::transform(lower, lower.begin(),
                               [](unsigned char letter) { return std::tolower(letter); });
        if (value.find_first_of(":,.") == std::string::npos && edit_distance(lower, mode) <= 2)
            return {"", fmt::format("--host {0}: did you mean --host-mode {1}? For a machine with "
                                    "that name, use --hosts {0}",
                                    value, mode)};
    }
    options.hosts = value;
    return {fmt::format("--host {0} is now --hosts {0}", value), ""};
}

std::string refusal_of_root(const RunOptions &options, const Environment &environment) {
    for (const std::string prefix : {"OMPI", "PRTE"})
        if (value_of(environment, (prefix + "_ALLOW_RUN_AS_ROOT").c_str()) == "1" &&
            value_of(environment, (prefix + "_ALLOW_RUN_AS_ROOT_CONFIRM").c_str()) == "1")
            return {};
    if (std::ranges::find(options.mpirun_options, "--allow-run-as-root") !=
        options.mpirun_options.end())
        return {};
    return "Open MPI does not run as root unless OMPI_ALLOW_RUN_AS_ROOT=1 and "
           "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 are set; set both, as in a container, or run as "
           "another user";
}

std::string refusal_under_launcher(bool open_mpi, const Environment &environment) {
    // Each task's mpirun would use the whole allocation and wait until the tasks end.
    if (const int tasks = number_of(environment, "SLURM_STEP_NUM_TASKS").value_or(1); tasks > 1)
        return fmt::format(
            "srun has started it {} times; start it once, without srun, in a job of sbatch or "
            "salloc; or let srun start the program: see docs/cluster.md#without-cldist-run",
            tasks);
    if (open_mpi && environment.contains("OMPI_COMM_WORLD_RANK"))
        return "it starts mpirun, so it cannot run under mpirun; start it directly";
    return {};
}

void Shown::add(std::string_view part) {
    size_ += part.size();
    kept_ += part.substr(0, limit - std::min(limit, kept_.size()));
    last_ += part;
    announced_ = announced_ || last_.find(new_start_announcement) != std::string::npos;
    last_.erase(0, last_.size() - std::min(last_.size(), new_start_announcement.size()));
}

std::string Shown::new_in(std::string_view part) {
    if (differs_ || at_ == size_) return std::string(part);
    const std::string_view rest = std::string_view(kept_).substr(std::min(at_, kept_.size()));
    const auto equal =
        static_cast<std::size_t>(std::ranges::mismatch(part, rest).in1 - part.begin());
    if (equal < std::min(part.size(), rest.size())) {
        differs_ = true;
        const std::size_t line =
            at_ + equal == 0 ? std::string::npos : kept_.rfind('\n', at_ + equal - 1);
        const std::size_t begin = line == std::string::npos ? 0 : line + 1;
        return kept_.substr(begin, at_ + equal - begin).append(part.substr(equal));
    }
    const std::size_t repeated = std::min(part.size(), size_ - at_);
    at_ += repeated;
    return std::string(part.substr(repeated));
}

bool may_start_again(const Environment &environment) {
    const std::string mode = value_of(environment, "CLDIST_HOST_MODE");
    // The platform uses the default for an invalid mode.
    return mode != "replicated" && mode != "central";
}

std::string why_not_again(const RunOptions &options, const Environment &environment) {
    if (options.all_output) return "runs with --all-output";
    if (value_of(environment, "CLDIST_VIEW") == "aggregate") return "runs with --view aggregate";
    return {};
}

bool is_central(const Environment &environment) {
    return value_of(environment, "CLDIST_HOST_MODE") == "central";
}

std::vector<std::string> rank_program(const RunOptions &options, const Environment &environment,
                                      int rank, const std::string &self) {
    if (is_central(environment) && rank != 0) return {self, "worker"};
    return options.program;
}

Environment rank_environment(Environment environment, const std::string &vendors,
                             const std::string &devices, const CoreShare *share) {
    if (!environment.contains(native_icds)) {
        // The rules of OpenCL loaders: the libraries of OCL_ICD_FILENAMES come first, and a folder
        // variable replaces the standard folder.
        std::string list = value_of(environment, "OCL_ICD_FILENAMES");
        std::string folder = value_of(environment, "OCL_ICD_VENDORS");
        if (folder.empty()) folder = value_of(environment, "OPENCL_VENDOR_PATH");
        if (folder.empty()) folder = standard_vendors;
        environment[native_icds] = list.empty() ? folder : list + ":" + folder;
    }
    environment["OCL_ICD_VENDORS"] = vendors;
    environment.erase("OCL_ICD_FILENAMES");
    environment.erase("OPENCL_VENDOR_PATH");
    environment.emplace("HWLOC_COMPONENTS", "-opencl");
    // With PMIx's default, the second program of a rank cannot initialise MPI.
    environment.emplace("PMIX_MCA_gds", "hash");
    if (!devices.empty()) environment["CLDIST_DEVICES"] = devices;
    if (share == nullptr) return environment;
    // for PoCL up to version 4
    environment.emplace("POCL_MAX_PTHREAD_COUNT", std::to_string(share->threads));
    environment.emplace("POCL_CPU_MAX_CU_COUNT", std::to_string(share->threads));
    if (share->crowded) environment.emplace("OMPI_MCA_mpi_yield_when_idle", "1");
    return environment;
}

void Tail::append(std::string_view part) {
    text_ += part;
    if (text_.size() > limit) text_.erase(0, text_.size() - limit);
}

std::string signal_name(int signal) {
    const char *name = sigabbrev_np(signal);
    return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

int exit_status(int wait_status) {
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

int job_status(int wait_status, int stopped_by) {
    return stopped_by != 0 ? 128 + stopped_by : exit_status(wait_status);
}

std::string hosts_report(const std::vector<std::string> &lost,
                         const std::vector<std::string> &unreachable) {
    std::string report;
    for (const std::string &host : lost)
        report += fmt::format(
            "cldist run: host {} is lost: the connection to it has ended, so the job has ended; "
            "check the host and its network\n",
            host);
    for (const std::string &host : unreachable)
        report += fmt::format(
            "cldist run: host {0} cannot be reached: no process started there; check that `ssh {0} "
            "true` works without a password\n",
            host);
    return report;
}

std::string failure_report(int rank, const std::string &host, int wait_status,
                           const std::string &tail) {
    std::string report = fmt::format("cldist run: rank {} (host {}) ", rank, host);
    report += WIFSIGNALED(wait_status)
                  ? fmt::format("was killed by {}\n", signal_name(WTERMSIG(wait_status)))
                  : fmt::format("exited with status {}\n", WEXITSTATUS(wait_status));
    if (tail.empty()) return report;
    report += "its last output:\n" + tail;
    if (report.back() != '\n') report += '\n';
    return report;
}

}  // namespace cldist::tool
