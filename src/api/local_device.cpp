#include "api/local_device.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <sstream>

#include <CL/cl_ext.h>

#include "api/boundary.hpp"
#include "api/peer.hpp"
#include "mpi_interop/communicator.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/runtime.hpp"
#include "ocl/query.hpp"
#include "ocl/quirks.hpp"

namespace cldist {
namespace {

/// The arguments of one process. Errors in them are reported after the collective part.
struct Request {
    cl_platform_id platform;
    cl_device_type type;
    cl_device_id *device;
};

/// The devices of one process and their identities.
struct Devices {
    std::vector<cl_device_id> ids;
    std::vector<DeviceIdentity> identities;
};

// Finds the platforms to search. clGetDeviceIDs would dereference an invalid handle.
std::vector<cl_platform_id> platforms_asked_for(cl_platform_id platform) {
    std::vector<cl_platform_id> all = all_platforms();
    if (platform == nullptr) return all;
    if (std::find(all.begin(), all.end(), platform) == all.end())
        throw Error(CL_INVALID_PLATFORM,
                    "the platform is neither NULL nor a platform that clGetPlatformIDs returns");
    return {platform};
}

void check_type(cl_device_type type) {
    if (!is_device_type(type))
        throw Error(CL_INVALID_DEVICE_TYPE,
                    fmt::format("the device type 0x{:x} is neither CL_DEVICE_TYPE_ALL nor a "
                                "combination of the other types",
                                type));
}

std::vector<cl_device_id> devices_of(cl_platform_id platform, cl_device_type type) {
    cl_uint count = 0;
    const cl_int code = clGetDeviceIDs(platform, type, 0, nullptr, &count);
    if (means_no_devices(code)) return {};
    check(code, "clGetDeviceIDs");
    std::vector<cl_device_id> devices(count);
    if (count != 0)
        check(clGetDeviceIDs(platform, type, count, devices.data(), nullptr), "clGetDeviceIDs");
    return devices;
}

Devices list_devices(const Request &request) {
    const std::vector<cl_platform_id> platforms = platforms_asked_for(request.platform);
    check_type(request.type);
    if (request.device == nullptr) throw Error(CL_INVALID_VALUE, "device is NULL");
    Devices found;
    for (const cl_platform_id platform : platforms) {
        found.ids = devices_of(platform, request.type);
        if (!found.ids.empty()) break;
    }
    if (found.ids.empty())
        throw Error(
            CL_DEVICE_NOT_FOUND,
            fmt::format("{} has no device of type 0x{:x}",
                        request.platform == nullptr ? "the system" : "the platform", request.type));
    for (const cl_device_id device : found.ids) found.identities.push_back(identity_of(device));
    number_equal(found.identities);
    return found;
}

/// The communicator of this host's processes, in the order of their ranks.
struct HostComm {
    explicit HostComm(MPI_Comm all) {
        check_mpi(PMPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm),
                  "MPI_Comm_split_type");
    }
    HostComm(const HostComm &) = delete;
    HostComm &operator=(const HostComm &) = delete;
    ~HostComm() {
        if (comm != MPI_COMM_NULL) PMPI_Comm_free(&comm);
    }

    MPI_Comm comm = MPI_COMM_NULL;
};

/// The processes of a communicator on this host.
struct HostProcesses {
    std::size_t mine;                ///< the position of this process
    std::vector<std::string> ranks;  ///< in the communicator
    std::vector<std::vector<DeviceIdentity>> lists;
};

HostProcesses gather(MPI_Comm comm, const std::vector<DeviceIdentity> &mine) {
    int rank = 0;
    check_mpi(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
    const HostComm host(comm);
    HostProcesses all{static_cast<std::size_t>(rank_in(host.comm)), {}, {}};
    for (const std::string &text :
         gather_texts(fmt::format("{}\n{}", rank, fmt::join(mine, "\n")), host.comm)) {
        std::istringstream lines(text);
        std::getline(lines, all.ranks.emplace_back());
        std::vector<DeviceIdentity> &list = all.lists.emplace_back();
        for (std::string line; std::getline(lines, line);) list.push_back(line);
    }
    return all;
}

// Only the lowest rank logs the warning. CPU devices are skipped, because processes always share
// the host's CPUs.
void warn_of_sharing(const HostProcesses &host, const std::vector<std::size_t> &sharing,
                     const Devices &mine, std::size_t position) {
    if (sharing.size() < 2 || sharing.front() != host.mine || is_cpu(mine.ids[position])) return;
    std::vector<std::string> ranks;
    for (const std::size_t process : sharing) ranks.push_back(host.ranks[process]);
    log_warning(
        "clDistLocalDevice: ranks {} of the communicator are on one host and share the device {} "
        "({}); start no more ranks on a host than it has devices",
        fmt::join(ranks, ", "), query_string(mine.ids[position], CL_DEVICE_NAME),
        mine.identities[position]);
}

cl_device_id choose(MPI_Comm comm, const Request &request) {
    Runtime::check_mpi_runs();
    Communicators::check(comm);
    check_intra(comm);
    // A process with invalid arguments or without device takes part with an empty list.
    Devices mine;
    std::exception_ptr wrong;
    try {
        mine = list_devices(request);
    } catch (...) {
        wrong = std::current_exception();
    }
    const HostProcesses host = gather(comm, mine.identities);
    if (wrong) std::rethrow_exception(wrong);
    const std::vector<std::optional<std::size_t>> chosen = choose_devices(host.lists);
    const std::size_t position = chosen[host.mine].value_or(0);
    warn_of_sharing(host, processes_sharing(host.lists, chosen, host.mine), mine, position);
    return mine.ids[position];
}

}  // namespace

DeviceIdentity identity_of(cl_device_id device) {
    using Uuid = std::array<unsigned char, CL_UUID_SIZE_KHR>;
    const auto uuid = query<Uuid>(device, CL_DEVICE_UUID_KHR).value_or(Uuid{});
    if (uuid != Uuid{}) return fmt::format("uuid {:02x}", fmt::join(uuid, ""));
    if (const auto at = query<cl_device_pci_bus_info_khr>(device, CL_DEVICE_PCI_BUS_INFO_KHR))
        return fmt::format("pci {:04x}:{:02x}:{:02x}.{:x}", at->pci_domain, at->pci_bus,
                           at->pci_device, at->pci_function);
    return fmt::format("{}, {}", query_string(device, CL_DEVICE_VENDOR),
                       query_string(device, CL_DEVICE_NAME));
}

void number_equal(std::vector<DeviceIdentity> &list) {
    std::map<DeviceIdentity, int> met;
    for (DeviceIdentity &identity : list) identity += fmt::format(" #{}", met[identity]++);
}

std::vector<std::optional<std::size_t>> choose_devices(
    const std::vector<std::vector<DeviceIdentity>> &lists) {
    std::map<DeviceIdentity, int> taken;
    std::vector<std::optional<std::size_t>> chosen;
    for (const std::vector<DeviceIdentity> &list : lists) {
        const auto least =
            std::min_element(list.begin(), list.end(),
                             [&](const auto &a, const auto &b) { return taken[a] < taken[b]; });
        if (least == list.end()) {
            chosen.emplace_back();
            continue;
        }
        ++taken[*least];
        chosen.emplace_back(static_cast<std::size_t>(least - list.begin()));
    }
    return chosen;
}

std::vector<std::size_t> processes_sharing(const std::vector<std::vector<DeviceIdentity>> &lists,
                                           const std::vector<std::optional<std::size_t>> &chosen,
                                           std::size_t process) {
    std::vector<std::size_t> sharing;
    for (std::size_t i = 0; i < lists.size(); ++i)
        if (chosen[i] && chosen[process] &&
            lists[i][*chosen[i]] == lists[process][*chosen[process]])
            sharing.push_back(i);
    return sharing;
}

}  // namespace cldist

using namespace cldist;

extern "C" {

cl_int clDistLocalDevice(MPI_Comm comm, cl_platform_id platform, cl_device_type type,
                         cl_device_id *device) {
    return at_boundary("clDistLocalDevice", [&] {
        const cl_device_id chosen = choose(comm, {platform, type, device});
        *device = chosen;
    });
}

}  // extern "C"
