#pragma once

#include <map>
#include <string>
#include <vector>

#include "cluster/object.hpp"
#include "cluster/packing.hpp"
#include "cluster/topology.hpp"

namespace cldist::cluster {

/// What a device answers to clGetDeviceInfo, by parameter.
using DeviceInfos = std::map<cl_device_info, Blob>;

/// A device of some process, as all processes know it.
class DeviceObject final : public Object<DeviceObject, cl_device_id, Kind::device> {
public:
    DeviceObject(Process process_in, Device memory_in, cl_device_id native_in, DeviceInfos infos_in,
                 Ref<DeviceObject> parent_in = {});

    /// A value of fixed size; zero if the device has none.
    template <typename T>
    [[nodiscard]] T info(cl_device_info param) const {
        T value{};
        if (const auto at = infos.find(param); at != infos.end() && at->second.size() == sizeof value)
            std::memcpy(&value, at->second.data(), sizeof value);
        return value;
    }

    const Process process;
    const Device memory;  ///< its number for the schedule
    /// Null in other processes. A sub-device is never released: PoCL 3.1 uses it when its last command is long over.
    const cl_device_id native;
    const DeviceInfos infos;
    const Ref<DeviceObject> parent;  ///< of a sub-device
    // Of the infos, what every launch asks:
    const std::vector<std::size_t> work_item_sizes;  ///< the largest, for each dimension
    const bool non_uniform_groups;
    /// Whether it keeps to what it says of kernels' work-groups and of sub-buffers' alignment. NVIDIA's driver (580) says
    /// 256 of every kernel, also of those that require 512, and runs them with 1024; it takes a sub-buffer of any origin.
    /// Programs rely on both.
    const bool enforces_limits;
    /// What the origin of a sub-buffer must be a multiple of, in bytes.
    const std::size_t sub_buffer_alignment;
};

[[nodiscard]] bool contains(const std::vector<Ref<DeviceObject>> &devices, const DeviceObject &device);

/// What a native device answers, but for what would be wrong here: optional features that the platform lacks are absent.
DeviceInfos device_infos(cl_device_id native);

void pack(Packer &packer, const DeviceInfos &infos);
DeviceInfos unpack_device_infos(Unpacker &unpacker);

}  // namespace cldist::cluster
