#include "cluster/world.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include "base/config.hpp"
#include "base/log.hpp"
#include "cluster/device_choice.hpp"
#include "cluster/native_icds.hpp"
#include "events/failure_probe.hpp"
#include "mpi_interop/mpi_status.hpp"
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

std::vector<cl_device_id> devices_of(cl_platform_id platform) {
    cl_uint count = 0;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS || count == 0) return {};
    std::vector<cl_device_id> devices(count);
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr) != CL_SUCCESS) return {};
    return devices;
}

cl_device_type type_of(cl_device_id device) {
    cl_device_type type = 0;
    clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, nullptr);
    return type;
}

// The devices of each native platform that this process shall have. GPUs are shared out among the processes of a host; all
// have its processor.
std::vector<std::vector<cl_device_id>> choose_devices(const OnHost &place) {
    std::vector<std::vector<cl_device_id>> platforms;
    bool some_gpu = false;
    const std::string &places = config().native_icds;
    probe_drivers(places.substr(0, places.find(':')), native_libraries(places));
    for (const cl_platform_id platform : open_native_icds(places)) {
        std::vector<cl_device_id> mine;
        std::vector<cl_device_id> others = devices_of(platform);
        for (const cl_device_id device : others)
            if ((type_of(device) & CL_DEVICE_TYPE_CPU) != 0) mine.push_back(device);
        std::erase_if(others, [](cl_device_id d) { return (type_of(d) & CL_DEVICE_TYPE_CPU) != 0; });
        const auto [begin, end] =
            share_of(others.size(), static_cast<std::size_t>(place.number), static_cast<std::size_t>(place.count));
        some_gpu = some_gpu || end > begin;
        mine.insert(mine.end(), others.begin() + static_cast<std::ptrdiff_t>(begin),
                    others.begin() + static_cast<std::ptrdiff_t>(end));
        platforms.push_back(std::move(mine));
    }
    auto choices = config().devices == "auto" ? parse_device_choice(some_gpu ? "gpu,accelerator" : "cpu")
                                              : parse_device_choice(config().devices);
    for (auto &devices : platforms) {
        std::erase_if(devices, [&](cl_device_id device) {
            for (DeviceChoice &choice : choices) {
                if ((choice.type & type_of(device)) == 0 || choice.most == 0) continue;
                --choice.most;
                return false;
            }
            return true;
        });
    }
    std::erase_if(platforms, [](const auto &devices) { return devices.empty(); });
    return platforms;
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

std::mutex &api_mutex() {
    static auto &mutex = *new std::mutex;
    return mutex;
}

bool World::is_wanted() {
    for (const char *const name : {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"})
        if (std::getenv(name) != nullptr) return true;
    return config().cluster == Switch::on;
}

World &World::get() {
    // Never destroyed: the program's objects may outlive it.
    static World &world = *new World;
    return world;
}

World::World()
    : agreement_(join_mpi()),
      found_(find_devices(agreement_)),
      schedule_(Topology(found_.hosts, found_.processes), agreement_.self()),
      comm_(duplicate(MPI_COMM_WORLD)),
      executor_(schedule_, Runtime::current(), comm_, found_.memories) {
    if (!alone()) watch_ = std::make_unique<DivergenceWatch>(comm_, calls_);
    std::atexit([] { World::get().end(); });
}

World::Found World::find_devices(Agreement &agreement) {
    const OnHost place = on_host();
    const auto platforms = choose_devices(place);
    Packer mine;
    mine.put(place.first).put(platforms.size());
    for (const auto &devices : platforms) {
        mine.put(devices.size());
        for (const cl_device_id device : devices) pack(mine, device_infos(device));
        pack(mine, find_advice(devices.front()));
    }
    Found found;
    Process process = 0;
    for (const Blob &blob : agreement.of_all(mine.take())) {
        Unpacker theirs(blob);
        found.hosts.push_back(static_cast<std::uint32_t>(theirs.get<int>()));
        const auto count = theirs.get<std::size_t>();
        for (std::size_t p = 0; p < count; ++p) {
            const auto memory = static_cast<Device>(found.memories.size());
            found.processes.push_back(process);
            const auto size = theirs.get<std::size_t>();
            for (std::size_t d = 0; d < size; ++d) {
                const cl_device_id native = process == agreement.self() ? platforms[p][d] : nullptr;
                auto *const device = new DeviceObject(process, memory, native, unpack_device_infos(theirs));
                device->number = found.devices.size() + 1;
                found.devices.emplace_back(device);
            }
            const DeviceObject &first = *found.devices[found.devices.size() - size];
            found.memories.push_back(
                {first.info<cl_bool>(CL_DEVICE_HOST_UNIFIED_MEMORY) == CL_TRUE, unpack_advice(theirs)});
        }
        ++process;
    }
    return found;
}

// What others still need of this process is done before MPI ends.
void World::end() {
    if (watch_ != nullptr) {
        calls_.record<program_end>();
        watch_->finish();
    }
    executor_.finish_all();
    int finalized = 0;
    PMPI_Finalized(&finalized);
    if (finalized == 0) PMPI_Finalize();
}

}  // namespace cldist::cluster
