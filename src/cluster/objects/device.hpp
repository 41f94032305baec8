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

/// What clGetDeviceInfo returns for a device, by parameter.
using DeviceInfos = std::map<cl_device_info, Blob>;

struct DevicePart;
/// The partitions of a device: its sub-devices, by the partition properties up to the first 0.
using DeviceParts = std::map<std::vector<cl_device_partition_property>, std::vector<DevicePart>>;

/// The native device, the infos and the partitions of a device. If a program repeats
/// clCreateSubDevices with equal properties, the new sub-devices have the same DevicePart.
struct DevicePart {
    /// Null if another process answers queries for the device. Never released, because the driver
    /// may use it long after its last command has ended (Quirks::frees_sub_devices_early).
    cl_device_id native;
    DeviceInfos infos;
    std::shared_ptr<DeviceParts> parts = std::make_shared<DeviceParts>();
};

/// A device of any process. Every process has an object for it.
class DeviceObject final : public Object<DeviceObject, cl_device_id, Kind::device> {
public:
    /// `like`: the memory of this process's device that answers queries for a device of an absent
    /// process; `memory_in` if the device answers itself.
    DeviceObject(Process process_in, MemoryId memory_in, DevicePart as,
                 Ref<DeviceObject> parent_in = {}, std::optional<MemoryId> like = {});
    /// A single virtual device (CLDIST_VIEW=aggregate) for at least one member.
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

    /// Empty except for a single virtual device, which has no process, memory or native device.
    const std::vector<Ref<DeviceObject>> members;
    const Process process;
    const MemoryId memory;      ///< number of the memory in the schedule
    const cl_device_id native;  ///< null in other processes
    /// The native device of this process that answers queries: the device itself, or a similar
    /// device if the device's process is absent (see Agreement). Otherwise null.
    const cl_device_id answering;
    const MemoryId answering_memory;  ///< the memory of `answering`
    const DeviceInfos &infos;
    const std::shared_ptr<DeviceParts> parts;
    const std::uint32_t type;        ///< equal for devices with equal infos
    const Ref<DeviceObject> parent;  ///< of a sub-device; otherwise null
    /// A small number that identifies the object in this process; reused after the object is freed.
    const std::uint32_t serial;
    // Copies of infos that every launch needs:
    const std::vector<std::size_t> work_item_sizes;  ///< CL_DEVICE_MAX_WORK_ITEM_SIZES
    const bool non_uniform_groups;
    /// Whether the device enforces the limits that it reports for work-group sizes and for the
    /// alignment of sub-buffers (see exceeds_its_limits()).
    const bool enforces_limits;
    /// The origin of a sub-buffer must be a multiple of this, in bytes.
    const std::size_t sub_buffer_alignment;
};

/// An ordered list of devices, with lookup in constant time.
class DeviceList {
public:
    void add(DeviceObject &device);

    [[nodiscard]] bool contains(const DeviceObject &device) const {
        return position(device) != nowhere;
    }
    /// The index of the device's first entry; `nowhere` if there is none.
    [[nodiscard]] std::size_t position(const DeviceObject &device) const {
        return device.serial < positions_.size() ? positions_[device.serial] : nowhere;
    }
    static constexpr std::uint32_t nowhere = ~std::uint32_t{0};

    [[nodiscard]] std::size_t size() const { return devices_.size(); }
    /// The allocated bytes.
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

/// The processes of the devices, in ascending order, each once.
[[nodiscard]] std::vector<Process> processes_of(const DeviceList &devices);

/// The infos of a native device, corrected for the cluster platform: optional features that the
/// platform lacks are reported as absent. Unless the process is `alone`, the device does not report
/// unified host memory, because it shares the memory of only one process.
DeviceInfos device_infos(cl_device_id native, bool alone);

void pack(Packer &packer, const DeviceInfos &infos);
DeviceInfos unpack_device_infos(Unpacker &unpacker);

}  // namespace cldist::cluster
