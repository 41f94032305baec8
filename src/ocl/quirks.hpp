/// Deviations of drivers from OpenCL for which the code has special cases. Other code uses what is
/// declared here and never tests which driver it has. docs/dev/drivers.md also lists properties
/// that the code respects on every driver.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <utility>

#include "ocl/query.hpp"

namespace cldist {

/// Found with PoCL 3.1. They apply to all versions of PoCL, because no other was tested.
struct Quirks {
    /// PoCL uses the events of a failed command for some time after their status is visible, and
    /// aborts if nobody else holds them. It reports an end before it processes the commands that
    /// wait for it. Reproducer: the program event-probe. Decision 5.
    bool uses_ended_events = false;
    /// In PoCL a command never ends if an event of its wait list failed before it was enqueued.
    /// PoCL aborts if one event of a wait list fails a command while another event of the list
    /// ends. Reproducer: tests/cluster/random.cpp, natively. Decision 5.
    bool loses_commands_behind_failures = false;
    /// NVIDIA's driver (580) never returns from the release of a context in which the wait list of
    /// a write failed. All drivers except PoCL are treated alike. On PoCL, copies back have no
    /// second event for the status, because of loses_commands_behind_failures. Decision 22.
    bool hangs_after_failed_writes = true;
    /// PoCL's markers and barriers in out-of-order queues wait for all earlier commands, whatever
    /// their wait lists. Migrations do not. Reproducer: a program that waits for a marker with a
    /// wait list before it sets another command's user event. Decisions 3 and 5.
    bool markers_wait_for_all = false;
    /// PoCL frees a sub-device although events of its queues exist. Its threads release a command's
    /// event only after the command's end is visible. Reproducer: tests/api/contexts.cpp, under
    /// AddressSanitizer.
    bool frees_sub_devices_early = false;
    /// A buffer on PoCL's CPU devices keeps one host address. Reproducer: map it twice.
    /// Decision 25.
    bool keeps_addresses = false;
    /// While a kernel of another queue of the context runs that was enqueued earlier, NVIDIA's
    /// driver (580) does not report the ends of kernels, markers and barriers. It reports those of
    /// reads. Reproducer: docs/dev/drivers.md.
    bool reports_markers_late = false;
};

/// CL_DEVICE_VENDOR_ID of NVIDIA's GPUs.
inline constexpr cl_uint nvidia = 0x10de;

inline Quirks quirks_of(cl_device_id device) {
    const bool pocl = is_pocl(device);
    return {
        .uses_ended_events = pocl,
        .loses_commands_behind_failures = pocl,
        .hangs_after_failed_writes = !pocl,
        .markers_wait_for_all = pocl,
        .frees_sub_devices_early = pocl,
        .keeps_addresses = pocl && is_cpu(device),
        .reports_markers_late = query<cl_uint>(device, CL_DEVICE_VENDOR_ID).value_or(0) == nvidia};
}

/// Whether the driver of a vendor (CL_DEVICE_VENDOR_ID) accepts more than it reports. NVIDIA's
/// driver reports a work-group size of 256 for every kernel but runs 1,024, and accepts sub-buffers
/// with any origin. Programs rely on both. Reproducer: clGetKernelWorkGroupInfo for a kernel that
/// requires 512. Decision 21.
constexpr bool exceeds_its_limits(cl_uint vendor) { return vendor == nvidia; }

/// Whether the library's kernels should use the buffer. NVIDIA's driver (580) may crash if a thread
/// creates or releases sub-buffers of a buffer that commands of other threads use, more often with
/// kernels than with copies. Reproducer: tests/stress, --sub-buffers 1. Decision 45.
inline bool is_safe_in_kernels(cl_mem buffer) { return parent_of(buffer) == nullptr; }

/// The buffer for clEnqueueCopyBufferRect, and the offset of `buffer` in it. PoCL 3.1 crashes if a
/// buffer is a sub-buffer. Reproducer: tests/mpi/rect.cpp with CLDIST_PATH=staged.
inline std::pair<cl_mem, std::size_t> for_rect_copies(cl_mem buffer) {
    return root_buffer_of(buffer);
}

/// Flushes a native queue and returns the result, except on NVIDIA's driver, which submits commands
/// without a flush. There, a flush takes 3 us. If a user event holds back a command of the queue, a
/// flush behind a command that waits for another queue also keeps the two queues from overlapping.
/// Reproducer: two in-order queues, docs/dev/drivers.md.
inline cl_int flush_if_needed(cl_command_queue queue) {
    const auto device = query<cl_device_id>(queue, CL_QUEUE_DEVICE).value_or(nullptr);
    const bool submits =
        device != nullptr && query<cl_uint>(device, CL_DEVICE_VENDOR_ID).value_or(0) == nvidia;
    return submits ? CL_SUCCESS : clFlush(queue);
}

/// How many channels the queues of this process share on the device. NVIDIA's driver (580) has 8,
/// or as many as CUDA_DEVICE_MAX_CONNECTIONS states when the driver starts, at most 32. A command
/// that waits for a kernel keeps its channel. If none is left, no command starts. Reproducer:
/// docs/dev/drivers.md. Decision 40.
inline std::size_t channels_of(cl_device_id device) {
    if (query<cl_uint>(device, CL_DEVICE_VENDOR_ID).value_or(0) != nvidia)
        return std::numeric_limits<std::size_t>::max();
    const char *const requested = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    const int number = requested == nullptr ? 8 : std::atoi(requested);
    return static_cast<std::size_t>(std::clamp(number, 1, 32));
}

/// NVIDIA's driver (580) removes a failed command from an in-order queue some time after the
/// failure is visible. Commands enqueued in between fail, too: reads failed in 20 to 70 of 100
/// rounds, and never 0.1 ms later. All drivers of devices that are no CPUs are treated alike.
/// Decision 5.
inline constexpr std::chrono::microseconds settling_time{500};

/// From this size on, NVIDIA's driver (580) copies pageable memory within the call, even a
/// non-blocking one, and holds a lock of the context meanwhile. It recognises memory that the
/// program has page-locked. Decision 28.
inline constexpr std::size_t pageable_copied_in_call = std::size_t{16} << 20U;
/// Up to these sizes, it copies pageable memory as fast as two copies would. Decision 28.
inline constexpr std::size_t largest_native_write = std::size_t{1} << 20U;
inline constexpr std::size_t largest_native_read = std::size_t{512} << 10U;

/// Whether this result of clGetDeviceIDs() for a valid type means that there are none. NVIDIA's
/// driver returns CL_INVALID_DEVICE_TYPE for CL_DEVICE_TYPE_CUSTOM. Reproducer: the call with that
/// type.
constexpr bool means_no_devices(cl_int code) {
    return code == CL_DEVICE_NOT_FOUND || code == CL_INVALID_DEVICE_TYPE;
}

}  // namespace cldist
