#include "doctor_system.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "settings.hpp"
#include "sizes.hpp"

namespace cldist::tool {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> first_line(const fs::path &path) {
    std::ifstream in(path);
    std::string line;
    if (!std::getline(in, line)) return {};
    return line;
}

std::optional<std::uint64_t> limit_of(int resource) {
    rlimit limit{};
    if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY)
        return {};
    return limit.rlim_cur;
}

unsigned usable_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<unsigned>(CPU_COUNT(&set));
    return static_cast<unsigned>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

// The file contains "max 100000" or "200000 100000": microseconds of CPU time, and the period.
double quota_of_container() {
    std::istringstream line(first_line("/sys/fs/cgroup/cpu.max").value_or(""));
    double quota = 0;
    double period = 0;
    return line >> quota >> period && period > 0 ? quota / period : 0;
}

std::vector<std::string> governors() {
    std::set<std::string> names;
    std::error_code error;
    for (fs::directory_iterator at("/sys/devices/system/cpu", error), end; !error && at != end;
         at.increment(error))
        if (const auto governor = first_line(at->path() / "cpufreq/scaling_governor"))
            names.insert(*governor);
    return {names.begin(), names.end()};
}

bool reads_own_memory() {
    int from = 1;
    int to = 0;
    const iovec local{&to, sizeof to};
    const iovec remote{&from, sizeof from};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == sizeof to && to == from;
}

Finding judge_cores(const HostFacts &facts) {
    const std::string topic = "cores";
    const std::string fact = fmt::format("{} for {} on this host", counted(facts.cores, "core"),
                                         counted(facts.ranks, "rank"));
    if (facts.quota_cores > 0 && facts.quota_cores < facts.cores - 0.01)
        return note(
            topic,
            fmt::format("{}, but the container may use only the time of {:.1f} cores", fact,
                        facts.quota_cores),
            "the kernel stops threads when this time is used up, which delays messages by "
            "up to 100 ms: start fewer ranks and threads, or raise the limit (docker run --cpus)");
    if (facts.ranks > facts.cores)
        return note(topic, fact,
                    "waiting ranks take time from computing ranks: start fewer ranks, or let "
                    "waiting ranks yield (see \"idle ranks\")");
    return ok(topic, fact);
}

Finding judge_binding(const HostFacts &facts) {
    const std::string topic = "binding";
    if (facts.cores_of_a_rank > 1 || facts.cores == 1)
        return ok(topic, "each rank may run on " + counted(facts.cores_of_a_rank, "core"));
    return note(topic,
                "each rank is bound to one core, which the threads of the program, the library and "
                "the driver share",
                "use mpirun --bind-to none (Open MPI) or -bind-to none (MPICH), or bind each rank "
                "to several cores");
}

Finding judge_locked_memory(const HostFacts &facts) {
    const std::string topic = "locked memory";
    if (!facts.locked_memory) return ok(topic, "unlimited");
    const std::string fact =
        fmt::format("at most {} per process", bytes_text(*facts.locked_memory));
    if (!facts.rdma)
        return ok(topic, fact +
                             "; enough, because there is no InfiniBand card, and GPU drivers do "
                             "not need this limit");
    return problem(topic, fact + ", but transfers over the InfiniBand card need locked memory",
                   "run ulimit -l unlimited; to make this permanent, set memlock in "
                   "/etc/security/limits.conf; in a container, use docker run --ulimit memlock=-1");
}

Finding judge_shared_memory(const HostFacts &facts) {
    const std::string topic = "shared memory";
    if (!facts.shm_total || !facts.shm_free)
        return problem(topic, "there is no /dev/shm",
                       "MPI libraries need it for messages within a host: mount a tmpfs there");
    const std::uint64_t wanted = 16 * mib * std::max(facts.ranks, 1U);
    const std::string fact = fmt::format("/dev/shm has {}, {} of it free",
                                         bytes_text(*facts.shm_total), bytes_text(*facts.shm_free));
    if (*facts.shm_free < wanted)
        return problem(
            topic,
            fmt::format("{}; {} need {}", fact, counted(facts.ranks, "rank"), bytes_text(wanted)),
            "MPI fails at start, or dies with SIGBUS later: remove old files there, "
            "enlarge it with mount -o remount,size=1G /dev/shm, or use docker run --shm-size=1g");
    return ok(topic, fact);
}

Finding judge_single_copy(const HostFacts &facts) {
    const std::string topic = "single copy";
    if (!facts.reads_own_memory)
        return note(
            topic, "the container forbids process_vm_readv",
            "MPI copies large messages within the host twice: use docker run --cap-add SYS_PTRACE");
    const std::string scope = facts.ptrace_scope.value_or("0");
    if (scope == "0")
        return ok(topic, "processes of one user can read each other's memory (ptrace_scope 0)");
    if (scope == "1")
        return note(
            topic,
            "ptrace_scope is 1: a process can read another's memory only if that process allows it",
            "Open MPI's ranks allow this, but MPICH copies large messages within the host twice: "
            "run sysctl kernel.yama.ptrace_scope=0");
    return note(
        topic, fmt::format("ptrace_scope is {}: processes cannot read each other's memory", scope),
        "MPI copies large messages within the host twice: run sysctl kernel.yama.ptrace_scope=0");
}

Finding judge_open_files(const HostFacts &facts) {
    const std::string topic = "open files";
    if (!facts.open_files) return ok(topic, "unlimited");
    const std::string fact = fmt::format("at most {} per process", *facts.open_files);
    return *facts.open_files < 256
               ? problem(topic, fact,
                         "each connection, stream and device needs several: run ulimit -n 4096")
               : ok(topic, fact);
}

Finding judge_huge_pages(const HostFacts &facts) {
    const std::string topic = "huge pages";
    if (!facts.huge_pages) return ok(topic, "the kernel does not report them");
    const std::size_t open = facts.huge_pages->find('[');
    const std::size_t close = facts.huge_pages->find(']');
    if (open == std::string::npos || close == std::string::npos || close < open)
        return ok(topic, "the kernel reports \"" + *facts.huge_pages + "\"");
    const std::string chosen = facts.huge_pages->substr(open + 1, close - open - 1);
    if (chosen == "never")
        return note(topic, "transparent huge pages are off",
                    "copies of large host arrays are slower: run echo madvise > "
                    "/sys/kernel/mm/transparent_hugepage/enabled");
    return ok(topic, "transparent huge pages: " + chosen);
}

Finding judge_governor(const HostFacts &facts) {
    const std::string topic = "core frequency";
    if (facts.governors.empty())
        return ok(topic, "not reported (as usual in virtual machines and containers)");
    const std::string fact = fmt::format("governor {}", fmt::join(facts.governors, ", "));
    if (facts.governors == std::vector<std::string>{"performance"}) return ok(topic, fact);
    return note(topic, fact,
                "small messages are slower and times vary, because cores wake up slowly: run "
                "cpupower frequency-set -g performance");
}

// The section of troubleshooting.md about a finding, or nothing.
std::string_view section_of(const Finding &finding) {
    static constexpr std::string_view other = "other-findings-of-doctor";
    static constexpr std::pair<std::string_view, std::string_view> sections[] = {
        {"MPI thread level", "starting"},
        {"launcher", "starting"},
        {"root", "starting"},
        {"cores", "cores"},
        {"idle ranks", "idle-ranks"},
        {"binding", "binding"},
        {"PoCL threads", "pocl-threads"},
        {"shared memory", "shared-memory"},
        {"single copy", "single-copy"},
        {"user event, out-of-order queue", "user-event-out-of-order-queue"},
        {"pageable copies", "pageable-copies"},
        {"failed events", "the-job-ends-with-a-message-about-a-failed-command"},
        {"locked memory", other},
        {"open files", other},
        {"huge pages", other},
        {"core frequency", other},
        {"error codes", other},
        {"callbacks of failed events", other}};
    for (const auto &[topic, section] : sections)
        if (finding.topic == topic) return section;
    if (finding.topic == "OpenCL loader")
        return finding.advice.find("HWLOC_COMPONENTS") != std::string::npos
                   ? "platforms-are-missing-under-mpirun"
                   : "no-opencl-platform";
    return finding.topic.starts_with("rank") ? other : "";
}

}  // namespace

Findings with_sections(Findings findings) {
    for (Finding &finding : findings)
        if (const std::string_view section = section_of(finding);
            !finding.advice.empty() && !section.empty())
            finding.advice += fmt::format("; see {}#{}", document("troubleshooting.md"), section);
    return findings;
}

std::string document(const char *name) {
    std::error_code error;
    const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
    const fs::path installed = fs::weakly_canonical(folder / CLDIST_DOCUMENTS / name, error);
    return fs::exists(installed, error) ? installed.string() : fmt::format("docs/{}", name);
}

std::string bytes_text(std::uint64_t bytes) {
    constexpr std::array<const char *, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
    double value = static_cast<double>(bytes);
    std::size_t unit = 0;
    for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
    return value == std::floor(value) ? fmt::format("{:.0f} {}", value, units[unit])
                                      : fmt::format("{:.1f} {}", value, units[unit]);
}

HostFacts host_facts(unsigned ranks) {
    HostFacts facts;
    facts.ranks = ranks;
    facts.cores = usable_cores();
    facts.cores_of_a_rank = facts.cores;
    facts.quota_cores = quota_of_container();
    std::error_code error;
    facts.rdma = fs::is_directory("/sys/class/infiniband", error) &&
                 !fs::is_empty("/sys/class/infiniband", error);
    facts.locked_memory = limit_of(RLIMIT_MEMLOCK);
    facts.open_files = limit_of(RLIMIT_NOFILE);
    struct statvfs shm {};
    if (statvfs("/dev/shm", &shm) == 0) {
        facts.shm_total = shm.f_blocks * shm.f_frsize;
        facts.shm_free = shm.f_bavail * shm.f_frsize;
    }
    facts.ptrace_scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
    facts.reads_own_memory = reads_own_memory();
    facts.huge_pages = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
    facts.governors = governors();
    return facts;
}

Findings judge_host(const HostFacts &facts) {
    return {judge_cores(facts),         judge_binding(facts),     judge_locked_memory(facts),
            judge_shared_memory(facts), judge_single_copy(facts), judge_open_files(facts),
            judge_huge_pages(facts),    judge_governor(facts)};
}

Findings judge_settings(const std::vector<std::string_view> &environment) {
    const std::string topic = "settings";
    std::vector<std::string> complaints;
    read_settings(environment, complaints);
    std::vector<std::string> known;
    for (const std::string_view entry : environment) {
        const std::string_view name = entry.substr(0, entry.find('='));
#define CLDIST_SETTING(type, field, setting, default_value, comment) \
    if (name == (setting)) known.emplace_back(entry);
#include "base/config.def"
#undef CLDIST_SETTING
    }
    std::ranges::sort(known);
    Findings findings;
    findings.push_back(
        ok(topic, known.empty() ? "no CLDIST_ variable is set; all settings have their defaults"
                                : fmt::format("{}", fmt::join(known, " "))));
    for (const std::string &complaint : complaints)
        findings.push_back(problem(
            topic, complaint,
            fmt::format("correct it; {} lists the settings", document("configuration.md"))));
    return findings;
}

unsigned cores_per_rank(const HostFacts &facts) {
    unsigned cores = facts.cores;
    if (facts.quota_cores > 0)
        cores = std::min(cores, static_cast<unsigned>(std::ceil(facts.quota_cores)));
    return std::max(1U, cores / std::max(1U, facts.ranks));
}

}  // namespace cldist::tool
