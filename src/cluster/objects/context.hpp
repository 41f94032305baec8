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

namespace cldist::cluster {

/// Adds it unless it is there: sub-devices that were made alike are one natively.
void add_once(std::vector<cl_device_id> &natives, cl_device_id native);

/// The part of a context that is native to this process: those of its devices that share native
/// buffers.
class Space {
public:
    /// `devices` are native ones of one platform. Throws an Error.
    Space(MemoryId memory, std::vector<cl_device_id> devices);

    const MemoryId memory;
    const std::vector<cl_device_id> devices;
    const Context context;

    /// A device's resources. The library releases them, and with them the context, when the space
    /// has ended.
    [[nodiscard]] std::shared_ptr<DeviceResources> resources_of(cl_device_id device);
    /// Those for transfers; of the first one. Made on first use.
    [[nodiscard]] const std::shared_ptr<DeviceResources> &resources() {
        if (resources_ == nullptr) resources_ = resources_of(devices.front());
        return resources_;
    }
    [[nodiscard]] cl_mem small_buffer();  ///< for what needs one
    /// For the first device. Built on first use.
    [[nodiscard]] PieceKernels &piece_kernels() {
        if (piece_kernels_ == nullptr)
            piece_kernels_ = std::make_unique<PieceKernels>(context.get(), devices.front());
        return *piece_kernels_;
    }
    /// A queue in which no command waits for another without need.
    [[nodiscard]] const QueueInfo &transfer_queue();
    /// The queue of one transfer's commands, until it is released. Devices with their own memory
    /// use a separate queue for each transfer. In NVIDIA's driver (580) a waiting command
    /// holds up all commands behind it, also in out-of-order queues.
    [[nodiscard]] std::shared_ptr<const QueueInfo> queue_of_transfer();
    /// An in-order queue for the caller alone, until it is released.
    [[nodiscard]] std::shared_ptr<const QueueInfo> separate_queue();
    /// Whether programs can be built with -cl-kernel-arg-info whatever their kernels are. NVIDIA's
    /// compiler (580) fails then at kernels without arguments.
    [[nodiscard]] bool always_tells_of_arguments();
    const Quirks quirks;  ///< of the first device's driver

private:
    std::unique_ptr<PieceKernels> piece_kernels_;
    Mem buffer_;  ///< its end tells the library of the space's
    std::shared_ptr<DeviceResources> resources_;
    Queue queue_;
    QueueInfo info_;
    struct Idle {
        std::mutex mutex;
        std::vector<Queue> queues;
    };
    const std::shared_ptr<Idle> idle_ = std::make_shared<Idle>();
    std::optional<bool> tells_;
};

/// Keeps account of commands in spaces. Under the lock.
class SpaceKeeper {
public:
    /// The space is about to be gone.
    virtual void forget(Space &space) = 0;

protected:
    ~SpaceKeeper() = default;
};

struct Adaptation;

class ContextObject final : public Object<ContextObject, cl_context, Kind::context> {
public:
    /// Throws an Error.
    ContextObject(DeviceList devices_in, std::vector<cl_context_properties> properties_in,
                  Ref<DeviceObject> aggregate_in = {});
    ~ContextObject();

    [[nodiscard]] bool has(const DeviceObject &device) const;
    /// The devices that the program gave.
    [[nodiscard]] std::vector<cl_device_id> shown_devices() const { return shown(devices); }
    /// Those among `of` that the program knows of.
    [[nodiscard]] std::vector<cl_device_id> shown(const DeviceList &of) const;
    /// Null if the memory is not this process's.
    [[nodiscard]] Space *space(MemoryId memory) const;

    const DeviceList devices;
    /// That the program sees in front of `devices`, its members; null: it sees them themselves.
    const Ref<DeviceObject> aggregate;
    /// The largest allocation on any of the devices, in bytes.
    const cl_ulong largest_allocation;
    /// The alignments of the devices for the origins of sub-buffers, every value once.
    const std::vector<std::size_t> sub_buffer_alignments;
    /// All of them, of all processes, share one memory.
    const bool has_one_memory;
    const std::vector<cl_context_properties> properties;
    std::vector<std::unique_ptr<Space>> spaces;
    SpaceKeeper *keeper = nullptr;
    /// Of shares of split launches; null where these stay as they are.
    std::shared_ptr<Adaptation> adaptation;
    std::atomic<unsigned> open_user_events = 0;  ///< that the program has not set
    std::atomic<bool> failed = false;            ///< some command or user event has
    /// Whether commands may fail because of others.
    [[nodiscard]] bool is_careful() const { return open_user_events != 0 || failed; }
    EndCallbacks<cl_context> destructor_callbacks;
    /// What all devices with images support, by flags and type, once the processes have told each
    /// other.
    mutable std::map<std::pair<cl_mem_flags, cl_mem_object_type>, std::vector<cl_image_format>>
        image_formats;
};

/// A sampler is the same everywhere; natively there is one for each space.
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
