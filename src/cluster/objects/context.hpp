#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "cluster/objects/device.hpp"
#include "cluster/objects/piece_kernels.hpp"
#include "events/bridge.hpp"
#include "ocl/quirks.hpp"
#include "pipeline/device_resources.hpp"
#include "pipeline/peer_memory.hpp"

namespace cldist::cluster {

/// Adds `native` unless it is in the list. Several devices may have one native device (DevicePart).
void add_once(std::vector<cl_device_id> &natives, cl_device_id native);

/// A native context of this process, for the devices of a ContextObject that share native buffers.
class Space {
public:
    /// `devices` are native devices of one platform. Throws an Error.
    Space(MemoryId memory, std::vector<cl_device_id> devices);

    const MemoryId memory;
    const std::vector<cl_device_id> devices;
    const Context context;

    /// A device's resources. They hold the native context. The library frees them after the space.
    [[nodiscard]] std::shared_ptr<DeviceResources> resources_of(cl_device_id device);
    /// The first device's resources, which transfers use. Created at the first use.
    [[nodiscard]] const std::shared_ptr<DeviceResources> &resources() {
        if (resources_ == nullptr) resources_ = resources_of(devices.front());
        return resources_;
    }
    /// A buffer of a few bytes, for calls that need any buffer of the context.
    [[nodiscard]] cl_mem small_buffer();
    /// For the first device. Built at the first use.
    [[nodiscard]] PieceKernels &piece_kernels() {
        if (piece_kernels_ == nullptr)
            piece_kernels_ = std::make_unique<PieceKernels>(context.get(), devices.front());
        return *piece_kernels_;
    }
    /// The shared queue for transfers. Out-of-order if the first device supports it, so that
    /// commands wait only for their wait lists.
    [[nodiscard]] const QueueInfo &transfer_queue();
    /// A queue for the commands of one transfer, reserved until the pointer is released. Devices
    /// with their own memory get a separate queue for each transfer, because a waiting command may
    /// hold up all commands behind it, also in out-of-order queues. Other devices share
    /// transfer_queue().
    [[nodiscard]] std::shared_ptr<const QueueInfo> queue_of_transfer();
    /// An in-order queue for the caller alone. It is reused after the pointer has been released.
    [[nodiscard]] std::shared_ptr<const QueueInfo> separate_queue();
    /// Whether all programs can be built with -cl-kernel-arg-info, also with a kernel without
    /// arguments. The first call makes a trial build.
    [[nodiscard]] bool always_tells_of_arguments();
    /// Memory of this space's device that the device of `source` can write. Null if they can't
    /// share memory. Created at the first use.
    [[nodiscard]] std::shared_ptr<PeerMemory> peer_memory(Space &source);
    const Quirks quirks;  ///< of the first device's driver

private:
    std::unique_ptr<PieceKernels> piece_kernels_;
    Mem buffer_;  ///< when it is released, the library frees the space's resources
    std::shared_ptr<DeviceResources> resources_;
    Queue queue_;
    QueueInfo info_;
    struct Idle {
        std::mutex mutex;
        std::vector<Queue> queues;
    };
    const std::shared_ptr<Idle> idle_ = std::make_shared<Idle>();
    std::optional<bool> tells_;
    std::map<const Space *, std::shared_ptr<PeerMemory>> peer_memory_;  ///< by source
};

struct Adaptation;

class ContextObject final : public Object<ContextObject, cl_context, Kind::context> {
public:
    /// Throws an Error.
    ContextObject(DeviceList devices_in, std::vector<cl_context_properties> properties_in,
                  Ref<DeviceObject> aggregate_in = {});
    ~ContextObject();

    [[nodiscard]] bool has(const DeviceObject &device) const;
    /// The devices with which the program created the context.
    [[nodiscard]] std::vector<cl_device_id> shown_devices() const { return shown(devices); }
    /// The handles of `of` for the program: only `aggregate`, unless that is null.
    [[nodiscard]] std::vector<cl_device_id> shown(const DeviceList &of) const;
    /// Null if the memory belongs to another process.
    [[nodiscard]] Space *space(MemoryId memory) const;

    const DeviceList devices;
    /// The single virtual device that the program sees instead of its members, `devices`; or null.
    const Ref<DeviceObject> aggregate;
    /// The largest CL_DEVICE_MAX_MEM_ALLOC_SIZE of the devices, in bytes.
    const cl_ulong largest_allocation;
    /// The devices' alignments for the origins of sub-buffers, in bytes, each value once.
    const std::vector<std::size_t> sub_buffer_alignments;
    /// Whether all devices share one memory.
    const bool has_one_memory;
    const std::vector<cl_context_properties> properties;
    std::vector<std::unique_ptr<Space>> spaces;
    Keeper<Space> *keeper = nullptr;
    /// Adapts the work distribution of split launches. Null if the distribution is fixed.
    std::shared_ptr<Adaptation> adaptation;
    std::atomic<unsigned> open_user_events = 0;  ///< user events that the program has not set
    std::atomic<bool> failed = false;            ///< a command or user event has failed
    /// Whether a command may fail because an event that it waits for fails.
    [[nodiscard]] bool is_careful() const { return open_user_events != 0 || failed; }
    EndCallbacks<cl_context> destructor_callbacks;
    /// The formats that all devices with image support have in common, by flags and type. An entry
    /// is added when the processes have exchanged their formats.
    mutable std::map<std::pair<cl_mem_flags, cl_mem_object_type>, std::vector<cl_image_format>>
        image_formats;
};

/// A sampler. Each space that uses it has a native sampler.
class SamplerObject final : public Object<SamplerObject, cl_sampler, Kind::sampler> {
public:
    explicit SamplerObject(ContextObject &context_in) : context(&context_in) {
        argument_objects().emplace(handle(), Kind::sampler);
    }
    ~SamplerObject() {
        argument_objects().erase(handle());
        for (const auto &[space, native] : natives) clReleaseSampler(native);
    }

    const Ref<ContextObject> context;
    cl_bool normalized = CL_TRUE;
    cl_addressing_mode addressing = CL_ADDRESS_CLAMP;
    cl_filter_mode filter = CL_FILTER_NEAREST;
    std::vector<cl_sampler_properties> properties;
    std::vector<std::pair<Space *, cl_sampler>> natives;
    const std::shared_ptr<const void> life = std::make_shared<char>();
};

}  // namespace cldist::cluster
