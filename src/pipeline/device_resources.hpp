#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "ocl/handle.hpp"
#include "pipeline/profile.hpp"
#include "pipeline/rect_kernels.hpp"
#include "pipeline/refinement.hpp"
#include "pipeline/ring.hpp"
#include "pipeline/scratch.hpp"
#include "pipeline/staging.hpp"

namespace cldist {

struct QueueInfo;

/// The memory that internal commands use on devices whose markers do not suffice.
class MarkerMemory {
public:
    MarkerMemory(cl_context context, cl_device_id device, cl_command_queue queue);
    /// Sets the members of QueueInfo that refer to the memory.
    void describe(QueueInfo &queue) const;

private:
    Mem placeholder_;
    Mem start_source_;
    std::shared_ptr<std::byte> start_target_;
};

/// The library's resources on one device of one context: page-locked memory, and a private queue
/// per direction, so that staging copies overlap with the kernels in the user's queues.
class DeviceResources {
public:
    DeviceResources(cl_context context, cl_device_id device);
    ~DeviceResources();

    /// Returns the resources of (context, device) for a command that uses `buffers`. They are
    /// created at the first use. Throws an Error if the platform refuses. Thread-safe.
    static std::shared_ptr<DeviceResources> of(cl_context context, cl_device_id device,
                                               std::span<const cl_mem> buffers);
    /// Frees resources that were idle for `idle_seconds`, with the library's reference to the
    /// context. Also frees the resources of a context after the program has released all buffers
    /// that commands used there, because the program may be about to release the context.
    static void release_unused(double idle_seconds);

    [[nodiscard]] cl_command_queue read_queue() const { return read_queue_.get(); }
    [[nodiscard]] cl_command_queue write_queue() const { return write_queue_.get(); }
    [[nodiscard]] StagingPool &staging() const { return *staging_; }
    /// See ExportedMemory::possible().
    [[nodiscard]] bool exports() const { return traits_.exports; }
    [[nodiscard]] cl_context context() const { return context_; }
    [[nodiscard]] cl_device_id device() const { return device_.get(); }
    /// Page-locks a ring for the context. Throws an Error.
    void lock_pages(Ring &ring) const { ring.lock_pages(context_, write_queue_.get()); }
    [[nodiscard]] ScratchPool &scratch() const { return *scratch_; }
    /// Builds the kernels at the first call, which compiles them.
    RectKernels &rect_kernels();
    /// Sets the members of QueueInfo that are equal for all queues of the device.
    void describe(QueueInfo &queue) const;
    /// Returns true if the device's memory is host memory, so that mapping copies nothing.
    [[nodiscard]] bool host_memory() const { return traits_.host_memory; }
    /// Returns true if this process has used a device with its own memory.
    [[nodiscard]] static bool some_have_own_memory();

    /// Returns true for a CPU device, which sees the host's writes without an unmapping.
    [[nodiscard]] bool is_cpu() const { return traits_.is_cpu; }
    /// The advice of the device's profile for a route. Null if there is none.
    [[nodiscard]] const Advice *advice(Route route) const {
        const auto &advice = advice_.at(static_cast<std::size_t>(route));
        return advice ? &*advice : nullptr;
    }
    /// Replaces the advice, for measurements of it: kernels then move no messages. No transfer may
    /// be in flight.
    void advise(const AdviceForRoutes &advice) {
        advice_ = advice;
        measures_advice_ = true;
    }
    [[nodiscard]] bool measures_advice() const { return measures_advice_; }
    [[nodiscard]] Refinements &refinements() { return refinements_; }

private:
    struct Traits {
        bool host_memory;
        bool exports;
        bool is_cpu;
        bool addresses_persist;
    };

    const cl_context context_;  ///< not retained; the queues below keep it alive
    Device device_;             ///< held because of Quirks::frees_sub_devices_early
    Queue read_queue_;
    Queue write_queue_;
    std::shared_ptr<StagingPool> staging_;
    MarkerMemory marker_memory_;
    std::shared_ptr<ScratchPool> scratch_;
    std::once_flag rect_kernels_once_;
    std::unique_ptr<RectKernels> rect_kernels_;
    const Traits traits_;
    AdviceForRoutes advice_;
    bool measures_advice_ = false;
    Refinements refinements_;
};

}  // namespace cldist
