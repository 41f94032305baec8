#include "cluster/icd/platform.hpp"

#include <algorithm>

#include <CL/cl_ext.h>
#include <CL/cl_ext_collective.h>

#include "base/error_code.hpp"
#include "cluster/api/answers.hpp"
#include "cluster/api/checks.hpp"
#include "cluster/api/enqueueing.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/handles.hpp"
#include "cluster/api/record.hpp"
#include "cluster/world/exchange.hpp"
#include "ocl/query.hpp"

namespace cldist::cluster {
namespace {

_cl_platform_id the_platform{{&dispatch_table, Kind::platform}};

void check_platform(cl_platform_id platform) {
    require(platform == nullptr || platform == &the_platform, CL_INVALID_PLATFORM,
            "the platform is not the cluster platform");
}

// Whether this thread is initialising the platform. Then MPI starts, and hwloc may query devices.
thread_local bool joining = false;

World &join() {
    if (joining) throw Error(CL_DEVICE_NOT_FOUND, "the cluster platform is still initialising");
    joining = true;
    const struct Joined {
        ~Joined() { joining = false; }
    } at_return;
    return World::get();
}

void give_device_info(const DeviceObject &device, cl_device_info param, const Answer &answer) {
    switch (param) {
        case CL_DEVICE_PLATFORM: return answer.give(static_cast<cl_platform_id>(&the_platform));
        case CL_DEVICE_PARENT_DEVICE:
            return answer.give(device.parent ? device.parent->handle()
                                             : static_cast<cl_device_id>(nullptr));
        case CL_DEVICE_REFERENCE_COUNT:
            return answer.give(device.parent ? device.references() : cl_uint{1});
        case CL_DEVICE_RANK_DIST:
        case CL_DEVICE_HOST_DIST: {
            World &world = World::get();
            if (world.alone()) no_such_param(param);
            const Process process = device.process;
            return answer.give(cl_uint{param == CL_DEVICE_RANK_DIST
                                           ? process
                                           : world.executor().topology().host_of(process)});
        }
        default: break;
    }
    const auto at = device.infos.find(param);
    if (at == device.infos.end()) no_such_param(param);
    answer.bytes(at->second.data(), at->second.size());
}

// Returns the sub-devices for these properties. Keeps the answer of the device's process for later
// calls. Throws an Error.
const std::vector<DevicePart> &parts_of(const DeviceObject &device,
                                        const cl_device_partition_property *properties) {
    const cl_device_partition_property *end = properties;
    while (*end != 0) ++end;
    std::vector<cl_device_partition_property> list(properties, end);
    if (const auto known = device.parts->find(list); known != device.parts->end())
        return known->second;
    std::vector<cl_device_id> natives;
    Packer mine;
    if (device.answering != nullptr) {
        cl_uint count = 0;
        cl_int code = clCreateSubDevices(device.answering, properties, 0, nullptr, &count);
        natives.resize(count);
        if (code == CL_SUCCESS)
            code = clCreateSubDevices(device.answering, properties, count, natives.data(), nullptr);
        if (code != CL_SUCCESS) natives.clear();
        mine.put(code).put(natives.size());
        for (const cl_device_id native : natives)
            pack(mine, device_infos(native, World::get().alone()));
    }
    const Blob told = Exchange().from(device.process, mine.take());
    Unpacker theirs(told);
    if (const auto code = theirs.get<cl_int>(); code != CL_SUCCESS)
        fail(code, "the device's driver rejected the partition: {}", code_text(code));
    std::vector<DevicePart> parts(theirs.get<std::size_t>());
    for (std::size_t i = 0; i < parts.size(); ++i) {
        parts[i].native = natives.empty() ? nullptr : natives[i];
        parts[i].infos = unpack_device_infos(theirs);
    }
    return device.parts->try_emplace(std::move(list), std::move(parts)).first->second;
}

}  // namespace

cl_int CL_API_CALL get_platform_ids(cl_uint num_entries, cl_platform_id *platforms,
                                    cl_uint *num_platforms) {
    if ((num_entries == 0 && platforms != nullptr) ||
        (platforms == nullptr && num_platforms == nullptr))
        return CL_INVALID_VALUE;
    const bool wanted = World::is_wanted();
    if (num_platforms != nullptr) *num_platforms = wanted ? 1 : 0;
    if (!wanted) return CL_PLATFORM_NOT_FOUND_KHR;
    if (platforms != nullptr) *platforms = &the_platform;
    return CL_SUCCESS;
}

// Takes no lock, because loaders call it while they initialise.
cl_int CL_API_CALL get_platform_info(cl_platform_id platform, cl_platform_info param, size_t size,
                                     void *value, size_t *size_ret) {
    const Answer answer{size, value, size_ret};
    try {
        check_platform(platform);
        switch (param) {
            case CL_PLATFORM_PROFILE: answer.text("FULL_PROFILE"); break;
            case CL_PLATFORM_VERSION: answer.text("OpenCL 3.0 cldist " CLDIST_VERSION); break;
            case CL_PLATFORM_NUMERIC_VERSION:
                answer.give(cl_version{CL_MAKE_VERSION(3, 0, 0)});
                break;
            case CL_PLATFORM_NAME:
            case CL_PLATFORM_VENDOR: answer.text("cldist"); break;
            case CL_PLATFORM_EXTENSIONS: answer.text("cl_khr_icd"); break;
            case CL_PLATFORM_EXTENSIONS_WITH_VERSION:
                answer.give(cl_name_version{CL_MAKE_VERSION(1, 0, 0), "cl_khr_icd"});
                break;
            case CL_PLATFORM_ICD_SUFFIX_KHR: answer.text("DIST"); break;
            case CL_PLATFORM_HOST_TIMER_RESOLUTION: answer.give(cl_ulong{0}); break;
            default: no_such_param(param);
        }
    } catch (const Error &error) {
        return error.status().code;
    }
    return CL_SUCCESS;
}

void get_device_ids(cl_platform_id platform, cl_device_type type, cl_uint num_entries,
                    cl_device_id *devices, cl_uint *num_devices) {
    check_platform(platform);
    require(is_device_type(type), CL_INVALID_DEVICE_TYPE, "device_type {:#x} is not a device type",
            type);
    require(num_entries > 0 || devices == nullptr, CL_INVALID_VALUE,
            "num_entries is 0 and devices is not NULL");
    require(devices != nullptr || num_devices != nullptr, CL_INVALID_VALUE,
            "both devices and num_devices are NULL");
    std::vector<cl_device_id> found;
    for (const auto &device : join().devices()) {
        // The first device is the default.
        const cl_device_type is =
            device->info<cl_device_type>(CL_DEVICE_TYPE) & ~cl_device_type{CL_DEVICE_TYPE_DEFAULT};
        const bool is_default =
            found.empty() && (type & CL_DEVICE_TYPE_DEFAULT) != 0 && type != CL_DEVICE_TYPE_ALL;
        if ((is & type) != 0 || is_default) found.push_back(device->handle());
        if (type == CL_DEVICE_TYPE_DEFAULT && !found.empty()) break;
    }
    require(!found.empty(), CL_DEVICE_NOT_FOUND, "no device has the type {:#x}", type);
    if (devices != nullptr)
        std::copy_n(found.begin(), std::min<std::size_t>(num_entries, found.size()), devices);
    if (num_devices != nullptr) *num_devices = static_cast<cl_uint>(found.size());
}

void get_device_info(cl_device_id device, cl_device_info param, size_t size, void *value,
                     size_t *size_ret) {
    give_device_info(device_of(device), param, {size, value, size_ret});
}

void create_sub_devices(cl_device_id in_device, const cl_device_partition_property *properties,
                        cl_uint num_entries, cl_device_id *out_devices, cl_uint *num_devices) {
    const Ref<DeviceObject> parent(&device_of(in_device));
    require(properties != nullptr, CL_INVALID_VALUE, "properties is NULL");
    require(!parent->is_aggregate(), CL_INVALID_VALUE,
            "the single virtual device (CLDIST_VIEW=aggregate) cannot be partitioned");
    const std::vector<DevicePart> &parts = parts_of(*parent, properties);
    if (out_devices != nullptr && num_entries < parts.size())
        fail(CL_INVALID_VALUE, "num_entries is {}, but the partition has {} devices", num_entries,
             parts.size());
    for (std::size_t i = 0; out_devices != nullptr && i < parts.size(); ++i)
        out_devices[i] = make<DeviceObject>(parent->process, parent->memory, parts[i], parent,
                                            parent->answering_memory)
                             ->handle();
    if (num_devices != nullptr) *num_devices = static_cast<cl_uint>(parts.size());
}

// OpenCL counts references only of sub-devices.
void retain_device(cl_device_id device) {
    if (DeviceObject &object = device_of(device); object.parent) object.retain();
}

void release_device(cl_device_id device) {
    if (DeviceObject &object = device_of(device); object.parent) object.release();
}

void *CL_API_CALL get_extension_function_address(const char *name) {
    return function_address(name);
}

void *CL_API_CALL get_extension_function_address_for_platform(cl_platform_id platform,
                                                              const char *name) {
    return platform == &the_platform ? function_address(name) : nullptr;
}

cl_int CL_API_CALL unload_compiler() { return CL_SUCCESS; }

void unload_platform_compiler(cl_platform_id platform) {
    require(platform == &the_platform, CL_INVALID_PLATFORM,
            "the platform is not the cluster platform");
}

// CL_PLATFORM_HOST_TIMER_RESOLUTION is 0: timers are not supported.
void get_device_and_host_timer(cl_device_id device, cl_ulong *, cl_ulong *) {
    device_of(device);
    fail(CL_INVALID_OPERATION, "device timers are not supported");
}
void get_host_timer(cl_device_id device, cl_ulong *) {
    device_of(device);
    fail(CL_INVALID_OPERATION, "device timers are not supported");
}

}  // namespace cldist::cluster
