#include "cluster/world/world.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "base/config.hpp"
#include "base/forks.hpp"
#include "base/log.hpp"
#include "cluster/objects/lock.hpp"
#include "cluster/world/device_choice.hpp"
#include "cluster/world/native_icds.hpp"
#include "events/failure_probe.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "ocl/query.hpp"
#include "pipeline/profile_file.hpp"

namespace cldist::cluster {
namespace {

MPI_Comm join_mpi() {
    // hwloc, in MPI, would ask this platform for its devices, which are not known yet.
    setenv("HWLOC_COMPONENTS", "-opencl", 0);
    int initialized = 0;
    PMPI_Initialized(&initialized);
    if (initialized == 0) {
        int provided = MPI_THREAD_SINGLE;
        check_mpi(PMPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
    }
    Runtime::begin();
    return MPI_COMM_WORLD;
}

// A number of this process among those of its host, how many they are, and the first one's rank, which names the host.
struct OnHost {
    int number = 0;
    int count = 1;
    int first = 0;
};

OnHost on_host() {
    MPI_Comm host = MPI_COMM_NULL;
    check_mpi(PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
              "MPI_Comm_split_type");
    OnHost place;
    PMPI_Comm_rank(host, &place.number);
    PMPI_Comm_size(host, &place.count);
    PMPI_Comm_rank(MPI_COMM_WORLD, &place.first);
    check_mpi(PMPI_Bcast(&place.first, 1, MPI_INT, 0, host), "MPI_Bcast");
    PMPI_Comm_free(&host);
    return place;
}

// The devices of each native platform that this process shall have.
std::vector<std::vector<cl_device_id>> find_native_devices(const OnHost &place) {
    const std::string &places = config().native_icds;
    probe_drivers(places.substr(0, places.find(':')), native_libraries(places));
    try {
        return choose_devices(open_native_icds(places), config().devices, static_cast<std::size_t>(place.number),
                              static_cast<std::size_t>(place.count));
    } catch (const Error &error) {
        if (place.number == 0) log_warning("{}", error.status().message);
        throw;
    }
}

// Of each native platform's devices those that shall share buffers. NVIDIA's driver moves 1.6 GB/s between two devices of one
// context.
std::vector<std::vector<cl_device_id>> by_memory(std::vector<std::vector<cl_device_id>> platforms) {
    const DeviceMemories choice = config().device_memories;
    std::vector<std::vector<cl_device_id>> groups;
    for (auto &devices : platforms) {
        const bool own_memory =
            query<cl_bool>(devices.front(), CL_DEVICE_HOST_UNIFIED_MEMORY).value_or(CL_FALSE) == CL_FALSE;
        if (choice == DeviceMemories::apart || (choice == DeviceMemories::automatic && own_memory))
            for (const cl_device_id device : devices) groups.push_back({device});
        else
            groups.push_back(std::move(devices));
    }
    return groups;
}

// Messages' alone: for files no process asks another.
constexpr std::array message_routes{Route::same_host, Route::other_host};

void pack(Packer &packer, const AdviceForRoutes &advice) {
    for (const Route route : message_routes) {
        const std::optional<Advice> &advised = advice.at(static_cast<std::size_t>(route));
        packer.put(advised.has_value());
        if (advised) packer.put(advised->without_envelopes());
    }
}

AdviceForRoutes unpack_advice(Unpacker &unpacker) {
    AdviceForRoutes advice;
    for (const Route route : message_routes)
        if (unpacker.get<bool>()) advice.at(static_cast<std::size_t>(route)) = unpacker.get<Advice>();
    return advice;
}

}  // namespace

bool World::is_wanted() {
    for (const char *const name : {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"})
        if (std::getenv(name) != nullptr) return true;
    return config().cluster == Switch::on;
}

World &World::join() {
    // Never destroyed: the program's objects may outlive it.
    static World &world = *new World;
    world_.store(&world, std::memory_order_release);
    return world;
}

World::World()
    : agreement_(join_mpi()),
      found_(find_devices(agreement_)),
      schedule_(Topology(found_.hosts, found_.processes), agreement_.self()),
      comm_(duplicate(MPI_COMM_WORLD)),
      executor_(schedule_, Runtime::current(), comm_, found_.memories) {
    if (!alone()) watch_ = std::make_unique<DivergenceWatch>(comm_, calls_);
    std::atexit([] {
        if (!in_forked_child()) World::get().end();
    });
}

World::Found World::find_devices(Agreement &agreement) {
    const OnHost place = on_host();
    const auto platforms = by_memory(find_native_devices(place));
    Packer mine;
    mine.put(place.first).put(platforms.size());
    for (const auto &devices : platforms) {
        mine.put(devices.size());
        for (const cl_device_id device : devices) pack(mine, device_infos(device, agreement.alone()));
        mine.put(query<cl_bool>(devices.front(), CL_DEVICE_HOST_UNIFIED_MEMORY).value_or(CL_FALSE) == CL_TRUE);
        pack(mine, find_advice(devices.front()));
    }
    Found found;
    Process process = 0;
    std::vector<Process> all(agreement.processes());
    std::iota(all.begin(), all.end(), Process{0});
    for (const Blob &blob : agreement.of({0, 0}, all, mine.take())) {
        Unpacker theirs(blob);
        found.hosts.push_back(static_cast<std::uint32_t>(theirs.get<int>()));
        const auto count = theirs.get<std::size_t>();
        for (std::size_t p = 0; p < count; ++p) {
            const auto memory = static_cast<Device>(found.memories.size());
            found.processes.push_back(process);
            const auto size = theirs.get<std::size_t>();
            for (std::size_t d = 0; d < size; ++d) {
                const cl_device_id native = process == agreement.self() ? platforms[p][d] : nullptr;
                auto *const device = new DeviceObject(process, memory, {native, unpack_device_infos(theirs)});
                device->number = found.devices.size() + 1;
                found.devices.emplace_back(device);
            }
            const bool host_memory = theirs.get<bool>();
            found.memories.push_back({host_memory, unpack_advice(theirs)});
        }
        ++process;
    }
    if (found.devices.empty() && agreement.self() == 0)
        log_warning("no process has a device of CLDIST_DEVICES={} from the drivers in {}; `cldist devices` tells more",
                    config().devices, config().native_icds);
    return found;
}

// What others still need of this process is done before MPI ends.
void World::end() {
    if (watch_ != nullptr) {
        calls_.record<program_end>();
        watch_->finish();
    }
    // What waits for a user event that the program has not set would never end.
    stop_callbacks();
    if (found_.memories.size() > 1) abandon_user_events();
    executor_.finish_all();
    int finalized = 0;
    PMPI_Finalized(&finalized);
    if (finalized == 0) PMPI_Finalize();
}

}  // namespace cldist::cluster
