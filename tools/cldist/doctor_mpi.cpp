#include "doctor_mpi.hpp"

#include <sched.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <map>
#include <numeric>
#include <thread>
#include <utility>

#include <CL/cl_ext_dist.h>
#include <fmt/format.h>

#include "api/local_device.hpp"
#include "base/clock.hpp"
#include "cluster/world/device_choice.hpp"
#include "ocl/query.hpp"
#include "pipeline/profile_file.hpp"
#include "run_plan.hpp"

namespace cldist::tool {
namespace {

constexpr std::size_t most_pairs = 28;  // all pairs of 8 ranks
constexpr int trips = 200;
constexpr int large_trips = 4;
constexpr std::size_t large = 4U << 20U;

int number_in_environment(const char *name) {
    const char *const text = std::getenv(name);
    return text == nullptr ? 0 : std::atoi(text);
}

// A control variable of the MPI library; empty if it does not exist.
template <typename Value>
std::optional<Value> control_variable(const char *name) {
    int level = 0;
    if (MPI_T_init_thread(MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) return {};
    std::optional<Value> found;
    int index = 0;
    int count = 0;
    MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
    if (MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
        MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS) {
        if constexpr (std::is_same_v<Value, std::string>) {
            std::string text(static_cast<std::size_t>(std::max(count, 1)) + 1, '\0');
            if (MPI_T_cvar_read(handle, text.data()) == MPI_SUCCESS) found = text.c_str();
        } else if (Value value{}; count == 1 && MPI_T_cvar_read(handle, &value) == MPI_SUCCESS) {
            found = value;
        }
        MPI_T_cvar_handle_free(&handle);
    }
    MPI_T_finalize();
    return found;
}

bool is_openmpi() {
#ifdef OPEN_MPI
    return true;
#else
    return false;
#endif
}

// Identifies a device among the same list of devices as clDistLocalDevice.
RankDevice describe(cl_device_id device, cl_device_type type) {
    const auto platform = query<cl_platform_id>(device, CL_DEVICE_PLATFORM).value_or(nullptr);
    const std::vector<cl_platform_id> platforms = all_platforms();
    const std::vector<cl_device_id> devices = cluster::devices_of(platform);
    RankDevice found;
    found.name = fmt::format(
        "device {}.{}, {}", std::ranges::find(platforms, platform) - platforms.begin(),
        std::ranges::find(devices, device) - devices.begin(), query_string(device, CL_DEVICE_NAME));
    found.is_cpu = (query<cl_device_type>(device, CL_DEVICE_TYPE).value_or(CL_DEVICE_TYPE_CPU) &
                    CL_DEVICE_TYPE_CPU) != 0;
    std::vector<DeviceIdentity> identities;
    std::size_t mine = 0;
    for (const cl_device_id other : devices) {
        if ((cluster::type_of(other) & type) == 0) continue;
        if (other == device) mine = identities.size();
        identities.push_back(identity_of(other));
    }
    number_equal(identities);
    if (mine < identities.size()) found.identity = identities[mine];
    return found;
}

RankDevice choose_device() {
    bool gpu = false;
    for (const cl_platform_id platform : all_platforms())
        for (const cl_device_id device : cluster::devices_of(platform))
            gpu = gpu || (cluster::type_of(device) & CL_DEVICE_TYPE_GPU) != 0;
    const cl_device_type type = gpu ? CL_DEVICE_TYPE_GPU : CL_DEVICE_TYPE_ALL;
    cl_device_id device = nullptr;
    if (clDistLocalDevice(MPI_COMM_WORLD, nullptr, type, &device) != CL_SUCCESS) return {};
    return describe(device, type);
}

/// The measurements of one pair of ranks.
struct PairTimes {
    double latency_us = 0;
    double gigabytes_per_s = 0;
    /// whether one process may read the other's memory; a number, so that MPI can send it
    double reads_other = 0;
};

// Half of the shortest round trip in nanoseconds: disturbances only make round trips longer.
double half_trip(int other, bool first, std::vector<char> &data, int count) {
    const int bytes = static_cast<int>(data.size());
    std::uint64_t best = UINT64_MAX;
    for (int i = 0; i < count; ++i) {
        const std::uint64_t start = now_ns();
        if (first) MPI_Send(data.data(), bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
        MPI_Recv(data.data(), bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!first) MPI_Send(data.data(), bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
        best = std::min(best, now_ns() - start);
    }
    return static_cast<double>(best) / 2;
}

bool reads_memory_of(int other) {
    const std::uint64_t value = 0x636c64697374;
    const std::array<std::uint64_t, 2> mine{static_cast<std::uint64_t>(getpid()),
                                            std::bit_cast<std::uint64_t>(&value)};
    std::array<std::uint64_t, 2> theirs{};
    MPI_Sendrecv(mine.data(), 2, MPI_UINT64_T, other, 1, theirs.data(), 2, MPI_UINT64_T, other, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    std::uint64_t read = 0;
    const iovec local{&read, sizeof read};
    const iovec remote{std::bit_cast<void *>(theirs[1]), sizeof read};
    const bool well =
        process_vm_readv(static_cast<pid_t>(theirs[0]), &local, 1, &remote, 1, 0) == sizeof read;
    // The value must stay in memory until the other process has read it.
    MPI_Sendrecv(nullptr, 0, MPI_BYTE, other, 1, nullptr, 0, MPI_BYTE, other, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    return well && read == value;
}

PairTimes measure(int other, bool first, bool same_host) {
    PairTimes times;
    std::vector<char> data(8);
    times.latency_us = half_trip(other, first, data, trips) / 1e3;
    data.resize(large);
    times.gigabytes_per_s = static_cast<double>(large) / half_trip(other, first, data, large_trips);
    times.reads_other = same_host && reads_memory_of(other) ? 1 : 0;
    return times;
}

Finding describe_pair(const Pair &pair, bool same_host, const PairTimes &times,
                      const std::string &btl) {
    const std::string topic = fmt::format("ranks {} and {}", pair.a, pair.b);
    const std::string more =
        pair.of > 1 ? fmt::format(", for {} pairs of these hosts", pair.of) : "";
    const std::string speed = fmt::format("{:.1f} us one way, {:.2f} GB/s{}", times.latency_us,
                                          times.gigabytes_per_s, more);
    if (!same_host) return ok(topic, "on different hosts, over the network: " + speed);
    if (is_openmpi() && !leaves_shared_memory(btl))
        return note(
            topic,
            fmt::format("on one host, but Open MPI's setting btl={} excludes shared memory: {}",
                        btl, speed),
            "add vader (Open MPI 5: sm) to the setting, or remove it");
    return ok(
        topic,
        fmt::format("on one host, through shared memory if MPI chooses the transport{}: {}",
                    times.reads_other > 0 ? ", one copy is possible" : ", two copies are needed",
                    speed));
}

}  // namespace

Launch find_launch() {
    Launch launch;
    launch.by_openmpi = number_in_environment("OMPI_COMM_WORLD_SIZE") > 0;
    for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
        launch.size = std::max(launch.size, number_in_environment(name));
    for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK", "PMI_FD"})
        launch.by_launcher = launch.by_launcher || std::getenv(name) != nullptr;
    return launch;
}

std::vector<Pair> choose_pairs(const std::vector<int> &hosts, std::size_t most) {
    const int size = static_cast<int>(hosts.size());
    std::vector<Pair> pairs;
    if (hosts.size() * (hosts.size() - 1) / 2 <= most) {
        for (int a = 0; a < size; ++a)
            for (int b = a + 1; b < size; ++b) pairs.push_back({a, b});
        return pairs;
    }
    std::map<int, std::vector<int>> ranks;
    for (int rank = 0; rank < size; ++rank)
        ranks[hosts[static_cast<std::size_t>(rank)]].push_back(rank);
    for (auto one = ranks.begin(); one != ranks.end(); ++one) {
        const std::size_t n = one->second.size();
        if (n > 1) pairs.push_back({one->second[0], one->second[1], n * (n - 1) / 2});
        for (auto two = std::next(one); two != ranks.end(); ++two)
            pairs.push_back({one->second[0], two->second[0], n * two->second.size()});
    }
    if (pairs.size() > most) pairs.resize(most);
    return pairs;
}

bool leaves_shared_memory(std::string_view btl) {
    if (btl.empty()) return true;
    const bool excludes = btl.front() == '^';
    if (excludes) btl.remove_prefix(1);
    const bool named = std::ranges::any_of(
        split(btl, ','), [](std::string_view name) { return name == "vader" || name == "sm"; });
    return named != excludes;
}

Findings judge_ranks(const std::vector<RankDevice> &ranks) {
    std::map<std::pair<int, std::string>, std::vector<std::size_t>> users;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
        users[{ranks[rank].host_number, ranks[rank].identity}].push_back(rank);
    Findings findings;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        const RankDevice &device = ranks[rank];
        const std::string topic = fmt::format("rank {}", rank);
        const std::string fact = fmt::format("host {}, clDistLocalDevice gives {}", device.host,
                                             device.name.empty() ? "no device" : device.name);
        const auto &sharing = users[{device.host_number, device.identity}];
        if (device.name.empty())
            findings.push_back(problem(
                topic, fact,
                "see \"OpenCL loader\" of that host; a rank without a device can exchange only "
                "host memory, with MPI_CL_MEM"));
        else if (sharing.size() > 1 && !device.is_cpu)
            findings.push_back(
                warning(topic,
                        fmt::format("{}, shared by the ranks {}; no kernels move its messages",
                                    fact, fmt::join(sharing, ", ")),
                        "start no more ranks on a host than it has devices"));
        else
            findings.push_back(
                ok(topic, sharing.size() > 1
                              ? fmt::format("{}, the CPU that the ranks of this host share", fact)
                              : fact));
    }
    return findings;
}

Finding describe_mpi_library() {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    MPI_Get_library_version(text.data(), &length);
    std::string line(text.data());
    // MPICH returns its build configuration. The line "MPICH Device" contains its network.
    std::string device;
    if (const std::size_t at = line.find("MPICH Device:"); at != std::string::npos) {
        device = line.substr(at + 13, line.find('\n', at) - at - 13);
        std::erase_if(device, [](char c) { return c == ' ' || c == '\t'; });
        device = ", device " + device;
    }
    line = line.substr(0, line.find('\n'));
    std::ranges::replace(line, '\t', ' ');
    return ok("MPI library", line + device);
}

Finding judge_thread_level(bool multiple) {
    return multiple
               ? ok("MPI thread level", "MPI_THREAD_MULTIPLE")
               : problem("MPI thread level", "the MPI library does not provide MPI_THREAD_MULTIPLE",
                         "commands return CL_MPI_THREAD_LEVEL_TOO_LOW: use an MPI library with "
                         "thread support");
}

Findings mpi_findings_alone() {
    Findings findings{describe_mpi_library()};
    const Answer answer = ask("mpi");
    if (answer.value.is_null())
        findings.push_back(
            problem("MPI thread level",
                    fmt::format("a test of MPI_Init in a child process failed; the process {}",
                                answer.failure),
                    "run a small MPI program with and without mpirun, and read its messages"));
    else
        findings.push_back(judge_thread_level(answer.value.at("multiple").get<bool>()));
    if (is_openmpi() && geteuid() == 0 && std::getenv("OMPI_ALLOW_RUN_AS_ROOT") == nullptr)
        findings.push_back(
            note("root", "Open MPI's mpirun refuses to run as root",
                 "in containers, set OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"));
    return findings;
}

Job::Job() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host_);
    MPI_Comm_rank(host_, &host_rank_);
    // A host's number is its lowest rank.
    int lowest = rank_;
    MPI_Bcast(&lowest, 1, MPI_INT, 0, host_);
    hosts_.resize(static_cast<std::size_t>(size_));
    MPI_Allgather(&lowest, 1, MPI_INT, hosts_.data(), 1, MPI_INT, MPI_COMM_WORLD);
    host_names_ = gather(host_name());
    shared_memory_setting_ = control_variable<std::string>("btl").value_or("");
}

Job::~Job() {
    MPI_Comm_free(&host_);
    MPI_Finalize();
}

HostFacts Job::host_facts() const {
    int ranks = 0;
    MPI_Comm_size(host_, &ranks);
    HostFacts facts = tool::host_facts(static_cast<unsigned>(ranks));
    // Ranks may be bound to different numbers of cores.
    cpu_set_t cores;
    CPU_ZERO(&cores);
    sched_getaffinity(0, sizeof cores, &cores);
    int fewest = CPU_COUNT(&cores);
    MPI_Allreduce(MPI_IN_PLACE, &cores, sizeof cores, MPI_BYTE, MPI_BOR, host_);
    MPI_Allreduce(MPI_IN_PLACE, &fewest, 1, MPI_INT, MPI_MIN, host_);
    facts.cores = static_cast<unsigned>(std::max(CPU_COUNT(&cores), 1));
    facts.cores_of_a_rank = static_cast<unsigned>(std::max(fewest, 1));
    return facts;
}

Findings Job::job_findings(const Launch &launch) const {
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    Findings findings{describe_mpi_library(), judge_thread_level(level == MPI_THREAD_MULTIPLE)};
    if (launch.size > 1 && size_ == 1)
        findings.push_back(problem(
            "launcher",
            fmt::format("the launcher started {} processes, but each has its own MPI_COMM_WORLD",
                        launch.size),
            fmt::format("this program was built with {}: use that library's mpirun (Debian: "
                        "mpirun.openmpi, mpirun.mpich)",
                        is_openmpi() ? "Open MPI" : "MPICH")));
    else
        findings.push_back(ok("launcher", counted(static_cast<std::size_t>(size_), "rank")));
    return findings;
}

Finding Job::judge_idle(const HostFacts &facts) const {
    const std::string topic = "idle ranks";
    const std::string fact =
        fmt::format("{} on {}", counted(facts.ranks, "rank"), counted(facts.cores, "core"));
    if (facts.ranks <= facts.cores)
        return ok(topic, fact + ": waiting ranks take no time from others");
    if (!is_openmpi())
        return note(topic,
                    fact + ": ranks that wait in MPI calls spin and take time from the others",
                    "start fewer ranks, or wait for events instead of MPI calls");
    if (control_variable<int>("mpi_yield_when_idle").value_or(0) != 0)
        return ok(topic, fact + ", but waiting ranks yield (mpi_yield_when_idle)");
    return problem(topic,
                   fact + ": ranks that wait in MPI calls spin and take time from the others",
                   "use mpirun --mca mpi_yield_when_idle 1, or start fewer ranks");
}

Findings Job::rank_findings() const {
    const std::vector<std::string> texts = gather(nlohmann::json(choose_device()).dump());
    if (rank_ != 0) return {};
    std::vector<RankDevice> ranks;
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
        ranks.push_back(nlohmann::json::parse(texts[rank]).get<RankDevice>());
        ranks.back().host = host_names_[rank];
        ranks.back().host_number = hosts_[rank];
    }
    return judge_ranks(ranks);
}

Findings Job::pair_findings() const {
    const std::vector<Pair> pairs = choose_pairs(hosts_, most_pairs);
    Findings findings;
    for (const Pair &pair : pairs) {
        const bool same_host =
            hosts_[static_cast<std::size_t>(pair.a)] == hosts_[static_cast<std::size_t>(pair.b)];
        PairTimes times;
        if (rank_ == pair.a) times = measure(pair.b, true, same_host);
        if (rank_ == pair.b) times = measure(pair.a, false, same_host);
        wait_for_all();
        if (rank_ == pair.a && rank_ != 0) MPI_Send(&times, 3, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
        if (rank_ == 0 && pair.a != 0)
            MPI_Recv(&times, 3, MPI_DOUBLE, pair.a, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank_ == 0)
            findings.push_back(describe_pair(pair, same_host, times, shared_memory_setting_));
    }
    return findings;
}

void Job::wait_for_all() const {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    int done = 0;
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); done == 0;
         MPI_Test(&request, &done, MPI_STATUS_IGNORE))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::vector<std::string> Job::gather(const std::string &text) const {
    const int length = static_cast<int>(text.size());
    std::vector<int> lengths(static_cast<std::size_t>(size_));
    MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
    std::vector<int> starts(lengths.size());
    std::exclusive_scan(lengths.begin(), lengths.end(), starts.begin(), 0);
    std::string all(rank_ == 0 ? static_cast<std::size_t>(starts.back() + lengths.back()) : 0,
                    '\0');
    MPI_Gatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), starts.data(), MPI_CHAR,
                0, MPI_COMM_WORLD);
    std::vector<std::string> texts;
    for (std::size_t i = 0; rank_ == 0 && i < lengths.size(); ++i)
        texts.push_back(
            all.substr(static_cast<std::size_t>(starts[i]), static_cast<std::size_t>(lengths[i])));
    return texts;
}

}  // namespace cldist::tool
