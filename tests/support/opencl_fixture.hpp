/// OpenCL objects of the tests: a device, queues, buffers with known bytes, waits with a limit.
///
/// Environment:
///   CLDIST_TEST_DEVICE   "cpu" or "gpu". By default a GPU, or a CPU device if there is no GPU. The
///                        ranks of a host use its devices of that type round robin.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <CL/cl_ext_dist.h>
#include <doctest/doctest.h>

#include "mpi_case.hpp"
#include "opencl_handles.hpp"

namespace cldist_test {

/// Queues whose commands do not wait for each other.
struct queue_set {
    std::string kind;                  ///< printed in messages
    std::vector<queue_handle> queues;  ///< a single queue is used for every index

    cl_command_queue operator[](std::size_t i) const {
        return queues.size() == 1 ? queues.front() : queues.at(i);
    }
};

/// A device with a context. A separate queue reads and writes buffers, so that these calls work
/// while other queues wait.
class opencl {
public:
    /// Creating a context for a GPU takes long, so cases share one unless they need their own. On
    /// CPU devices, they share one only with CLDIST_PATH=kernel.
    enum class of { any_context, its_own };
    explicit opencl(of context = of::any_context);

    queue_handle in_order_queue(
        cl_command_queue_properties properties = CL_QUEUE_PROFILING_ENABLE) const;
    /// Skips the case if the device has no out-of-order queue, or if such a queue stops at a
    /// command that waits for a user event.
    queue_handle out_of_order_queue() const;
    /// Two sets of queues for cases with several commands in flight; the case runs once with each
    /// set. The first set has `count` in-order queues. The second has one out-of-order queue, or
    /// in-order queues again if out_of_order_queue() would skip: all ranks must use the same number
    /// of sets, whatever their devices.
    std::vector<queue_set> independent_queues(std::size_t count) const;
    buffer_handle buffer(std::size_t size, cl_mem_flags flags = CL_MEM_READ_WRITE) const;
    buffer_handle sub_buffer(cl_mem parent, std::size_t origin, std::size_t size) const;
    event_handle user_event() const;
    /// A kernel of the test program: "add_one", with a buffer of bytes and one work-item per byte;
    /// or "compute", with any buffer, which takes long for many work-items and writes nothing.
    kernel_handle kernel(const char *name) const;

    void write(cl_mem buffer, std::size_t offset, const bytes &data) const;
    bytes read(cl_mem buffer, std::size_t offset, std::size_t size) const;
    /// Writes pattern(seed, size) at `offset`.
    void fill(cl_mem buffer, std::size_t offset, std::size_t size, std::uint64_t seed) const;
    /// A new buffer that contains pattern(seed, size).
    buffer_handle filled(std::size_t size, std::uint64_t seed) const;
    /// Checks that `size` bytes at `offset` are pattern(seed, skip + size) from byte `skip` on.
    void expect(cl_mem buffer, std::size_t offset, std::size_t size, std::uint64_t seed,
                std::size_t skip = 0) const;

    [[nodiscard]] bool is_cpu() const;

    cl_device_id device = nullptr;
    context_handle context;

private:
    /// The reason why out-of-order queues can't be used; empty if they can.
    [[nodiscard]] std::string out_of_order_fault() const;
    /// Whether an out-of-order queue continues past a command that waits for a user event.
    [[nodiscard]] bool passes_pending_commands() const;

    queue_handle host_queue;
};

/// Skips the case if the device does not allow a buffer of this size.
void need_memory(const opencl &cl, std::size_t largest_buffer);

/// Required alignment of a sub-buffer's origin, in bytes.
std::size_t sub_buffer_alignment(cl_device_id device);

inline constexpr std::chrono::milliseconds default_wait = std::chrono::seconds(30);

/// Waits for a command. Returns CL_COMPLETE or its error. Fails the case after `limit`.
cl_int wait_for(cl_event event, std::chrono::milliseconds limit = default_wait);

/// Like clFinish, with a time limit.
void finish(cl_command_queue queue, std::chrono::milliseconds limit = default_wait);

/// The event's current status, from clGetEventInfo.
cl_int status_of(cl_event event);

}  // namespace cldist_test
