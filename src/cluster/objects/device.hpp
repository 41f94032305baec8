#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/objects/object.hpp"
#include "cluster/objects/packing.hpp"
#include "cluster/schedule/topology.hpp"

namespace cldist::cluster {

/// What a device answers to clGetDeviceInfo, by parameter.
using DeviceInfos = std::map<cl_device_info, Blob>;

struct DevicePart;
/// How a device was partitioned: its parts, by the properties up to the first 0.
using DeviceParts = std::map<std::vector<cl_device_partition_property>, std::vector<DevicePart>>;

/// Shared by sub-devices that are created alike, one after the other.
struct DevicePart {
    /// Null where another process answers for them. It is never released: PoCL 3.1 uses it when its
    /// last command is long over.
    cl_device_id native;
    DeviceInfos infos;
    std::shared_ptr<DeviceParts> parts = std::make_shared<DeviceParts>();
};

/// A device of some process, as all processes know it.
class DeviceObject final : public Object<DeviceObject, cl_device_id, Kind::device> {
public:
    /// `like`: the memory of this process's device that answers for it, if it is another's.
    DeviceObject(Process process_in, MemoryId memory_in, DevicePart as,
                 Ref<DeviceObject> parent_in = {}, std::optional<MemoryId> like = {});
    /// One in front of devices, at least one, which it holds (CLDIST_VIEW=aggregate).
    explicit DeviceObject(std::vector<Ref<DeviceObject>> members_in);
    ~DeviceObject();

    [[nodiscard]] bool is_aggregate() const { return !members.empty(); }

    /// A value of fixed size; zero if the device does not report it.
    template <typename T>
    [[nodiscard]] T info(cl_device_info param) const {
        T value{};
        if (const auto at = infos.find(param);
            at != infos.end() && at->second.size() == sizeof value)
            std::memcpy(&value, at->second.data(), sizeof value);
        return value;
    }

    /// A text; empty if the device does not report it.
    [[nodiscard]] std::string text(cl_device_info param) const;

    const std::vector<Ref<DeviceObject>> members;  ///< of an aggregate device; else none. It has no
                                                   ///< process, memory or native device.
    const Process process;
    const MemoryId memory;      ///< its number for the schedule
    const cl_device_id native;  ///< null in other processes
    /// The native device that answers queries in this process: the device itself, or a similar one
    /// if its process is absent (see Agreement). Otherwise null.
    const cl_device_id answering;
    const MemoryId answering_memory;  ///< that one's
    const DeviceInfos &infos;
    const std::shared_ptr<DeviceParts> parts;
    const std::uint32_t type;        ///< devices with the same infos have the same
    const Ref<DeviceObject> parent;  ///< of a sub-device
    /// A small number among the devices in this process's memory. It is reused after the device has
    /// been freed.
    const std::uint32_t serial;
    // Infos that every launch needs:
    const std::vector<std::size_t> work_item_sizes;  ///< the largest, for each dimension
    const bool non_uniform_groups;
    /// Whether its reported limits of kernels' work-groups and of sub-buffers' alignment apply
    /// (exceeds_its_limits()).
    const bool enforces_limits;
    /// The origin of a sub-buffer must be a multiple of this, in bytes.
    const std::size_t sub_buffer_alignment;
};

/// Devices in an order, each found at once however many they are.
class DeviceList {
public:
    void add(DeviceObject &device);

    [[nodiscard]] bool contains(const DeviceObject &device) const {
        return position(device) != nowhere;
    }
    /// The place of the first equal entry; `nowhere` if there is none.
    [[nodiscard]] std::size_t position(const DeviceObject &device) const {
        return device.serial < positions_.size() ? positions_[device.serial] : nowhere;
    }
    static constexpr std::uint32_t nowhere = ~std::uint32_t{0};

    [[nodiscard]] std::size_t size() const { return devices_.size(); }
    /// What it has allocated.
    [[nodiscard]] std::size_t bytes() const {
        return devices_.capacity() * sizeof(devices_[0]) +
               positions_.capacity() * sizeof(positions_[0]);
    }
    [[nodiscard]] bool empty() const { return devices_.empty(); }
    [[nodiscard]] auto begin() const { return devices_.begin(); }
    [[nodiscard]] auto end() const { return devices_.end(); }
    [[nodiscard]] const Ref<DeviceObject> &front() const { return devices_.front(); }
    [[nodiscard]] const Ref<DeviceObject> &operator[](std::size_t index) const {
        return devices_[index];
    }

private:
    std::vector<Ref<DeviceObject>> devices_;
    std::vector<std::uint32_t> positions_;  // by serial
};

/// The processes of these devices, in order, each once.
[[nodiscard]] std::vector<Process> processes_of(const DeviceList &devices);

/// The infos of a native device, corrected for the platform: optional features that the platform
/// lacks are absent. Unless the process is `alone`, no device shares the host's memory, because it
/// shares only one process's, and CLDIST_REMOTE_TYPE is its type.
DeviceInfos device_infos(cl_device_id native, bool alone);

void pack(Packer &packer, const DeviceInfos &infos);
DeviceInfos unpack_device_infos(Unpacker &unpacker);

}  // namespace cldist::cluster
