#include "cluster/world/world.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "base/config.hpp"
#include "base/forks.hpp"
#include "base/log.hpp"
#include "cluster/calls/opencl_call.hpp"
#include "cluster/objects/lock.hpp"
#include "cluster/world/account.hpp"
#include "cluster/world/alone_job.hpp"
#include "cluster/world/device_choice.hpp"
#include "cluster/world/mpi_job.hpp"
#include "cluster/world/native_icds.hpp"
#include "cluster/world/simulated_job.hpp"
#include "events/failure_probe.hpp"
#include "ocl/query.hpp"
#include "pipeline/profile_file.hpp"

namespace cldist::cluster {
namespace {

// Returns the devices that this process brings into the cluster platform, by native platform.
std::vector<std::vector<cl_device_id>> find_native_devices(const Job::Place &place) {
    const std::string &places = config().native_icds;
    probe_drivers(places.substr(0, places.find(':')), native_libraries(places));
    try {
        return choose_devices(open_native_icds(places), config().devices, place.number,
                              place.count);
    } catch (const Error &error) {
        if (place.number == 0) log_warning("{}", error.status().message);
        throw;
    }
}

// Groups each native platform's devices. The devices of a group share buffers. By default, a device
// with its own memory is a group by itself, because copies within a context may be slow.
std::vector<std::vector<cl_device_id>> by_memory(std::vector<std::vector<cl_device_id>> platforms) {
    const DeviceMemories choice = config().device_memories;
    std::vector<std::vector<cl_device_id>> groups;
    for (auto &devices : platforms) {
        const bool own_memory =
            query<cl_bool>(devices.front(), CL_DEVICE_HOST_UNIFIED_MEMORY).value_or(CL_FALSE) ==
            CL_FALSE;
        if (choice == DeviceMemories::apart || (choice == DeviceMemories::automatic && own_memory))
            for (const cl_device_id device : devices) groups.push_back({device});
        else
            groups.push_back(std::move(devices));
    }
    return groups;
}

// Other processes need the advice for messages only, not that for files.
constexpr std::array message_routes{Route::same_host, Route::other_host};

void pack(Packer &packer, const AdviceForRoutes &advice) {
    for (const Route route : message_routes) {
        const std::optional<Advice> &advised = advice.at(static_cast<std::size_t>(route));
        packer.put(advised.has_value());
        if (advised) packer.put(advised->without_headers());
    }
}

// Null if there is no profile, because the object takes some KiB.
std::shared_ptr<const AdviceForRoutes> unpack_advice(Unpacker &unpacker) {
    std::shared_ptr<AdviceForRoutes> advice;
    for (const Route route : message_routes) {
        if (!unpacker.get<bool>()) continue;
        if (advice == nullptr) advice = std::make_shared<AdviceForRoutes>();
        advice->at(static_cast<std::size_t>(route)) = unpacker.get<Advice>();
    }
    return advice;
}

// A buffer that only one device uses is bound to it after so many commands.
constexpr std::uint32_t attach_after = 16;

// After this time, blocked calls of other threads fail: the program's exit may wait for them.
constexpr std::chrono::seconds patience_with_end{5};

// CL_DEVICE_MAX_CLOCK_FREQUENCY is not compared: some drivers of CPU devices report the current
// frequency.
bool are_alike(const std::vector<Ref<DeviceObject>> &devices) {
    constexpr std::array<cl_device_info, 4> params{CL_DEVICE_NAME, CL_DEVICE_VENDOR,
                                                   CL_DRIVER_VERSION, CL_DEVICE_MAX_COMPUTE_UNITS};
    const auto info = [](const DeviceObject &device, cl_device_info param) {
        const auto at = device.infos.find(param);
        return at != device.infos.end() ? at->second : Blob();
    };
    const auto is_like_first = [&](const Ref<DeviceObject> &device) {
        return std::ranges::all_of(params, [&](cl_device_info param) {
            return info(*device, param) == info(*devices.front(), param);
        });
    };
    return std::ranges::all_of(devices, is_like_first);
}

World::Shares shares_of(const std::vector<Ref<DeviceObject>> &devices, const cldist::Shares &wanted,
                        bool speaks) {
    World::Shares shares{std::vector<double>(devices.size(), 1), false};
    switch (wanted.by) {
        case cldist::Shares::By::equal: break;
        case cldist::Shares::By::automatic: shares.adapts = !are_alike(devices); break;
        case cldist::Shares::By::measured: shares.adapts = devices.size() > 1; break;
        case cldist::Shares::By::weights:
            if (wanted.weights.size() == devices.size())
                shares.first = wanted.weights;
            else if (speaks)
                log_warning(
                    "CLDIST_SHARES has {} weights, but the job has {} devices; all devices get "
                    "equal sub-ranges",
                    wanted.weights.size(), devices.size());
            break;
    }
    return shares;
}

// The number of a compiler's first builds that may create static objects (World::note_build).
constexpr unsigned builds_that_make_objects = 8;

#ifdef OPEN_MPI
constexpr bool mpi_starts_again = true;  // in a rank's next program, as `cldist run` sets it up
#else
constexpr bool mpi_starts_again = false;
#endif

// Only rank 0 logs messages that apply to the whole job.
bool speaks_for_job() {
    for (const char *const name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
        if (const char *const rank = std::getenv(name); rank != nullptr)
            return std::atoi(rank) == 0;
    return true;
}

// The number of programs that have joined, in memory shared with `cldist run`, which starts workers
// for each. Null unless a central host's job runs on one host.
std::atomic<std::uint32_t> *programs_begun() {
    using Word = std::atomic<std::uint32_t>;
    const char *const path = std::getenv("CLDIST_HOST_PROGRAMS");
    const int file = path != nullptr ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return nullptr;
    void *const memory = mmap(nullptr, sizeof(Word), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return memory == MAP_FAILED ? nullptr : static_cast<Word *>(memory);
}

void note_program() {
    std::atomic<std::uint32_t> *const count = programs_begun();
    if (count == nullptr) return;
    ++*count;
    syscall(SYS_futex, count, FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0);
}

// MPICH's launcher passes each rank a socket, whose file descriptor is in PMI_FD. Without the
// socket, MPI_Init ends the program. A child may have opened another file with the same descriptor,
// so `cldist run` also passes the socket's inode.
bool has_lost_launcher(const char *descriptor) {
    struct stat state {};
    if (fstat(std::atoi(descriptor), &state) != 0 || !S_ISSOCK(state.st_mode)) return true;
    const char *const inode = std::getenv("CLDIST_HOST_PMI_INODE");
    return inode != nullptr && std::to_string(state.st_ino) != inode;
}

// Open MPI 4 sets this variable to "pmi" in MPI_Init. Its launchers do not.
bool has_mpi_parent() {
    int initialized = 0;
    PMPI_Initialized(&initialized);
    const char *const component = std::getenv("OMPI_MCA_ess");
    return initialized == 0 && component != nullptr && std::strcmp(component, "pmi") == 0;
}

bool has_joined = false;

// The descriptor of why_apart() may belong to another file by now, because some programs close all
// descriptors. The new one stays open, because closing it would unlock the file.
void note_end() {
    const char *const path = std::getenv("CLDIST_HOST_RANK_FILE");
    const int file =
        has_joined && path != nullptr ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
    if (file >= 0 && write(file, "\1", 1) != 1) log_info("the rank's file cannot be written");
}

// Empty if this process may join the job for its rank, otherwise the reason why not.
std::string why_apart() {
    if (const std::string &reason = config().apart; !reason.empty())
        return "CLDIST_APART is set: " + reason;
    if (has_mpi_parent()) return "a process that started this one has called MPI_Init";
    if (const char *const launcher = std::getenv("PMI_FD");
        !mpi_starts_again && launcher != nullptr && has_lost_launcher(launcher))
        return fmt::format(
            "a parent process has closed the file descriptor {} (PMI_FD), which MPICH needs to "
            "join the job (Python's subprocess keeps it open with pass_fds=[{}])",
            launcher, launcher);
    // `cldist run` passes one file to all processes of a rank. A process that joins appends a zero
    // byte and locks the file until it ends. Child processes do not inherit the lock. When its
    // platform has ended, it appends a one. Otherwise `cldist run` ends the job.
    const char *const path = std::getenv("CLDIST_HOST_RANK_FILE");
    const int file = path != nullptr ? open(path, O_RDWR | O_APPEND | O_CLOEXEC) : -1;
    if (file < 0) return {};
    struct stat state {};
    std::string reason;
    const bool is_central = config().host_mode == cldist::HostMode::central;
    struct flock whole {};
    whole.l_type = F_WRLCK;
    if (fcntl(file, F_SETLK, &whole) != 0)
        reason = "another process of the rank has joined the job";
    else if (fstat(file, &state) == 0 && state.st_size != 0 && !mpi_starts_again)
        reason =
            "with MPICH only the first program of a rank can join the job, and an earlier program "
            "has ended";
    else if (state.st_size != 0 && is_central && programs_begun() == nullptr)
        reason =
            "with a central host only the first program can join the job, and an earlier program "
            "has ended";
    if (reason.empty() && (has_joined || write(file, "", 1) == 1)) {
        has_joined = true;
        if (is_central && speaks_for_job()) note_program();
        return {};
    }
    close(file);
    return reason;
}

bool is_simulated() { return config().simulate.processes != 0; }
bool is_counted() { return is_simulated() || !config().counts.empty(); }

}  // namespace

bool World::is_wanted() {
    for (const char *const name : {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"})
        if (std::getenv(name) != nullptr) return true;
    if (config().cluster == Switch::on || is_simulated()) return true;
    // Without a connection by srun, each process would start a separate job.
    const char *const tasks = std::getenv("SLURM_STEP_NUM_TASKS");
    const char *const task = std::getenv("SLURM_PROCID");
    if (static bool said = false; tasks != nullptr && std::atoi(tasks) > 1 && task != nullptr &&
                                  std::atoi(task) == 0 && !std::exchange(said, true))
        log_warning(
            "the cluster platform has no devices: srun has started {} processes that it did not "
            "connect; use srun --mpi=pmix (with MPICH: --mpi=pmi2)",
            tasks);
    return false;
}

World &World::join() {
    static World &world = []() -> World & {
        if (is_simulated()) return begin(*new SimulatedJob(config().simulate));
        if (const std::string reason = why_apart(); !reason.empty()) {
            if (speaks_for_job())
                log_warning("{}; this program finds only the OpenCL devices of its own process",
                            reason);
            return begin(*new AloneJob);
        }
        auto &job = *new MpiJob;
        setenv("CLDIST_APART", "a process that started this one has joined the job", 1);
        World &joined = begin(job);
        job.call_at_finalize([] { world_.load()->end(); });
        return joined;
    }();
    return world;
}

// Never destroyed: the program may use its objects until the process ends.
World &World::begin(Job &job) {
    auto *const world = new World(job);
    world_.store(world, std::memory_order_release);
    return *world;
}

World::World(Job &job)
    : job_(job),
      agreement_(job_.agreement()),
      counters_(is_counted() ? std::make_unique<Counters>(job_) : nullptr),
      central_(begin_central()),
      found_(find_devices(job_)),
      // With a central host, buffers are not bound: no process could skip calls (decision 35).
      schedule_(Topology(found_.hosts, found_.processes), self(),
                found_.attaches && central_ == nullptr ? attach_after : 0,
                central_ != nullptr ? Hosts::first : Hosts::all),
      executor_(schedule_, self(), counters_ != nullptr ? counters_->transport : job_.transport(),
                found_.memories, host_mode_of(role()), central_.get()) {
    last_number_ = found_.devices.size();
    if (counters_ != nullptr) {
        executor_.objects().count_memory();
        calls_.count_asides();
    }
    if (!alone()) job_.compare(calls_);
    register_end();
    std::at_quick_exit(end_without_exit);
    // _exit and exec, which only a preloaded library (libcldist-host) can intercept.
    if (void *const before_end = dlsym(RTLD_DEFAULT, "cldistBeforeEnd"))
        reinterpret_cast<void (*)(void (*)())>(before_end)(end_without_exit);
}

// If this thread holds the lock, a signal handler has interrupted an OpenCL call, which cannot
// finish before the end.
void World::end_without_exit() {
    if (!in_forked_child() && !api_mutex().held_here()) World::get().end();
}

void World::register_end() {
    std::atexit([] {
        if (in_forked_child()) return;
        std::fflush(stdout);  // if the calls differ, end() does not return
        World::get().end();
    });
}

void World::note_build() {
    if (builds_ == builds_that_make_objects) return;
    ++builds_;
    register_end();
}

std::unique_ptr<World::Central> World::begin_central() {
    if (config().host_mode != cldist::HostMode::central || alone()) return nullptr;
    CallStream &stream = job_.call_stream();
    if (counters_ != nullptr) stream.count(counters_->traffic);
    auto central = std::make_unique<Central>(stream);
    if (self() == 0)
        central->stream.begin(central->recorder);
    else
        objects_by_number = &central->numbers;
    return central;
}

// In a simulation, this process's devices also provide the properties of absent processes' devices.
World::Found World::find_devices(Job &job) {
    const Agreement &agreement = job.agreement();
    const Job::Place place = job.place_of(agreement.self());
    const auto platforms = by_memory(find_native_devices(place));
    Packer mine;
    mine.put(platforms.size());
    for (const auto &devices : platforms) {
        mine.put(devices.size());
        for (const cl_device_id device : devices)
            pack(mine, device_infos(device, agreement.alone()));
        mine.put(
            query<cl_bool>(devices.front(), CL_DEVICE_HOST_UNIFIED_MEMORY).value_or(CL_FALSE) ==
            CL_TRUE);
        pack(mine, find_advice(devices.front()));
    }
    const Blob devices_here = mine.take();
    std::vector<Process> all(agreement.processes());
    std::iota(all.begin(), all.end(), Process{0});
    std::vector<Blob> said(all.size());
    for (const Process process : all) {
        if (!agreement.speaks_for(process)) continue;
        const std::uint32_t host =
            process == agreement.self() ? place.host : job.place_of(process).host;
        said[process] = Packer()
                            .put(host)
                            .put(config().attach)
                            .put(config().shares.by)
                            .put_bytes(std::as_bytes(std::span(config().shares.weights)))
                            .put_bytes(devices_here)
                            .take();
    }
    Found found;
    cldist::Shares wanted;  // rank 0's
    Process process = 0;
    for (const Blob &blob : agreement.of({0, 0}, all, std::move(said))) {
        Unpacker told(blob);
        found.hosts.push_back(told.get<std::uint32_t>());
        const bool attaches = told.get<Attach>() == Attach::automatic && !agreement.alone();
        const auto by = told.get<cldist::Shares::By>();
        const Blob weights = told.get_bytes();
        if (process == 0) {
            found.attaches = attaches;
            wanted.by = by;
            wanted.weights.resize(weights.size() / sizeof(double));
            if (!weights.empty())
                std::memcpy(wanted.weights.data(), weights.data(), weights.size());
        }
        const Blob devices_there = told.get_bytes();
        Unpacker theirs(devices_there);
        const auto count = theirs.get<std::size_t>();
        for (std::size_t p = 0; p < count; ++p) {
            const auto memory = static_cast<MemoryId>(found.memories.size());
            found.processes.push_back(process);
            const bool answers = agreement.speaks_for(process);
            // In a simulation, all processes have the same number of memories.
            const auto like = answers && process != agreement.self()
                                  ? static_cast<MemoryId>(agreement.self() * count + p)
                                  : memory;
            const auto size = theirs.get<std::size_t>();
            for (std::size_t d = 0; d < size; ++d) {
                const cl_device_id native = answers ? platforms[p][d] : nullptr;
                auto *const device = new DeviceObject(
                    process, memory, {native, unpack_device_infos(theirs)}, {}, like);
                device->set_number(found.devices.size() + 1);
                found.devices.emplace_back(device);
            }
            const bool host_memory = theirs.get<bool>();
            found.memories.push_back({host_memory, unpack_advice(theirs)});
        }
        ++process;
    }
    if (found.devices.empty() && agreement.self() == 0)
        log_warning(
            "no process has a device of CLDIST_DEVICES={} from the drivers in {}; run `cldist "
            "devices` for details",
            config().devices, config().native_icds);
    const bool aggregate = config().view == View::aggregate;
    if (aggregate && config().host_mode == cldist::HostMode::central && agreement.self() == 0)
        log_warning(
            "CLDIST_VIEW=aggregate is not available with CLDIST_HOST_MODE=central; the program "
            "finds all devices");
    if (aggregate && config().host_mode != cldist::HostMode::central && !found.devices.empty()) {
        found.shares = shares_of(found.devices, wanted, agreement.self() == 0);
        auto *const all = new DeviceObject(std::move(found.devices));
        all->set_number(1);
        found.devices.clear();
        found.devices.emplace_back(all);
    }
    return found;
}

// Completes everything that other processes need from this one, then finalises MPI.
void World::end() {
    if (std::exchange(end_has_begun_, true)) return;
    // libcldist-host sees an OpenCL call: other processes don't wait for clock reads of this one.
    const OpenclCall opencl_call(true);
    const std::uint64_t calls = calls_.last().number;
    if (central_ != nullptr) {
        end_calls();
    } else if (!alone()) {
        calls_.record<program_end>();
    }
    if (!alone()) job_.finish_comparison();
    // Commands that wait for user events that the program has not set would never end.
    stop_callbacks();
    if (found_.memories.size() > 1 || central_ != nullptr) abandon_user_events();
    if (is_host()) wait_for_calls();
    executor_.finish_all();
    if (counters_ != nullptr) write_account(calls);
    job_.end();
    note_end();
    executor_.ends().outlive_progress_thread();
    if (is_host()) central_->is_over = true;
}

// Other threads of the program may be in OpenCL calls.
void World::end_calls() {
    // Before taking the lock, which threads that call continuously could keep from this thread.
    if (is_host()) central_->ended_by = std::this_thread::get_id();
    {
        const Locked lock;
        calls_.record<program_end>();
        if (is_host()) {
            RecordWriter end;
            end.number(end_of_calls);
            append(end.record());
            central_->recorder.close();
        }
    }
    central_->stream.finish();
}

// Waits for the blocking calls of other threads, which may need MPI.
void World::wait_for_calls() {
    for (;;) {
        unsigned waiting = 0;
        {
            const Locked lock;
            waiting = waiting_calls;
        }
        if (waiting == 0) return;
        waiting_calls.wait(waiting);
    }
}

void World::append(std::span<const std::byte> record) { central_->recorder.append(record); }

void World::tell_user_events_over(std::uint64_t queue) {
    if (central_->ended_by.load() != std::thread::id()) return;
    RecordWriter over;
    over.number(user_events_over);
    over.number(queue);
    append(over.record());
}

bool World::has_ended() {
    const std::thread::id ended_by = central_->ended_by;
    if (ended_by == std::thread::id()) return false;
    if (ended_by == std::this_thread::get_id()) return true;
    api_mutex().unlock();
    while (!central_->is_over) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::this_thread::sleep_for(patience_with_end);
    api_mutex().lock();
    throw Error(
        CL_OUT_OF_RESOURCES,
        "the program is ending, because another thread has returned from main or called exit");
}

// ---- A central host's calls

namespace {

// The bytes of records that may wait to be sent. A host that is further ahead waits.
constexpr std::size_t most_recorded = std::size_t{1} << 20U;

}  // namespace

World::Central::Central(CallStream &the_stream) : recorder(most_recorded), stream(the_stream) {}

void World::Central::give(unsigned kind, std::span<const std::byte> bytes) {
    writer_.clear();
    writer_.number(kind);
    writer_.number(bytes.size());
    writer_.bytes(bytes.data(), bytes.size());
    recorder.append(writer_.record());
}

HostLink::Given World::Central::take() {
    RecordReader &from = records();
    const auto kind = static_cast<unsigned>(from.number());
    return {kind, from.bytes(from.number())};
}

RecordReader &World::Central::records() {
    if (reader_.empty()) reader_ = RecordReader(stream.next());
    return reader_;
}

void World::write_account(std::uint64_t calls) const {
    constexpr std::array kinds{"platforms", "devices",  "contexts", "queues", "memory",
                               "samplers",  "programs", "kernels",  "events"};
    Account account{self(),
                    agreement_.processes(),
                    is_simulated(),
                    calls + calls_.asides(),
                    executor_.commands(),
                    calls_.asides() - executor_.commands().aside,
                    counters_->traffic.peers(),
                    static_cast<double>(now_ns() - counters_->begin_ns) * 1e-9,
                    static_cast<double>(std::clock() - counters_->begin_clock) / CLOCKS_PER_SEC,
                    {}};
    {
        const Locked lock;
        for (std::size_t kind = 0; kind < kinds.size(); ++kind)
            account.objects.emplace_back(kinds.at(kind), object_counts.at(kind));
    }
    const std::string text = text_of(account);
    const std::string &name = config().counts;
    const bool to_file = !name.empty() && name != "-";
    // Append: other processes write to the same file.
    const int file = to_file ? open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)
                             : STDERR_FILENO;
    if (file < 0 || write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        log_error("CLDIST_COUNTS={}: {}", name, std::strerror(errno));
    if (to_file && file >= 0) close(file);
}

}  // namespace cldist::cluster
