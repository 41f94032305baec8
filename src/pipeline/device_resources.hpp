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

/// What the library owns on one device of one context: a private queue per direction, so that staging copies need no
/// queue of the user's and overlap its kernels, and page-locked memory.
class DeviceResources {
public:
    DeviceResources(cl_context context, cl_device_id device);
    DeviceResources(const DeviceResources &) = delete;
    DeviceResources &operator=(const DeviceResources &) = delete;
    ~DeviceResources();

    /// Those of (context, device), made on first use for a command that uses `buffers`, and kept for the next one. Throws an
    /// Error if the platform refuses. Thread-safe.
    static std::shared_ptr<DeviceResources> of(cl_context context, cl_device_id device,
                                               std::span<const cl_mem> buffers);
    /// Lets go of what such commands left that nobody used for `idle_seconds`, and of what is on contexts of which the
    /// program has released all buffers that such commands used: it has let go of the context, or may do so at any time.
    /// With it goes the library's hold on the context.
    static void release_unused(double idle_seconds);

    [[nodiscard]] cl_command_queue read_queue() const { return read_queue_.get(); }
    [[nodiscard]] cl_command_queue write_queue() const { return write_queue_.get(); }
    [[nodiscard]] StagingPool &staging() const { return *staging_; }
    /// See ExportedMemory::possible().
    [[nodiscard]] bool exports() const { return exports_; }
    [[nodiscard]] cl_context context() const { return context_; }
    [[nodiscard]] cl_device_id device() const { return device_.get(); }
    /// Page-locks a ring for the context. Throws an Error.
    void lock_pages(Ring &ring) const { ring.lock_pages(context_, write_queue_.get()); }
    [[nodiscard]] ScratchPool &scratch() const { return *scratch_; }
    /// Built on first use, which takes a compiler's time.
    RectKernels &rect_kernels();
    /// See QueueInfo.
    [[nodiscard]] cl_mem placeholder() const { return placeholder_.get(); }
    /// Whether the device's memory is the host's, so that mapping copies nothing.
    [[nodiscard]] bool host_memory() const { return host_memory_; }
    /// Whether commands of this process have used a device with memory of its own.
    [[nodiscard]] static bool some_have_own_memory();

    /// Whether the device is the host's processor itself, which needs no unmapping to see what the host wrote.
    [[nodiscard]] bool processor() const { return processor_; }
    /// See HostAddresses::last().
    [[nodiscard]] bool addresses_last() const { return addresses_last_; }
    /// What the device's profile says of a route; null if there is none.
    [[nodiscard]] const Advice *advice(Route route) const {
        const auto &advice = advice_.at(static_cast<std::size_t>(route));
        return advice ? &*advice : nullptr;
    }
    /// Replaces that. Nothing may be in flight.
    void advise(const AdviceForRoutes &advice) { advice_ = advice; }
    [[nodiscard]] Refinements &refinements() { return refinements_; }

private:
    const cl_context context_;  ///< lives as long as its queues
    Device device_;             ///< PoCL 3.1 frees a sub-device although it has queues
    Queue read_queue_;
    Queue write_queue_;
    Mem placeholder_;
    std::shared_ptr<StagingPool> staging_;
    std::shared_ptr<ScratchPool> scratch_;
    std::once_flag rect_kernels_once_;
    std::unique_ptr<RectKernels> rect_kernels_;
    bool host_memory_;
    bool exports_;
    bool processor_;
    bool addresses_last_;
    AdviceForRoutes advice_;
    Refinements refinements_;
};

}  // namespace cldist
