/// What the tests need of OpenCL: a device, queues, buffers with known bytes, waits with a limit.
///
/// Environment:
///   CLDIST_TEST_DEVICE  "cpu" or "gpu"; the default is the GPU with the rank's number on its host if there is any GPU,
///                       else the CPU.
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
    std::string kind;                  ///< for messages
    std::vector<queue_handle> queues;  ///< a single one stands in every place

    cl_command_queue operator[](std::size_t i) const { return queues.size() == 1 ? queues.front() : queues.at(i); }
};

/// A device with a context. Reads and writes of the host use a queue of its own, so that they work while others wait.
class opencl {
public:
    /// A GPU's driver takes long to make a context: one serves all cases that need none of their own.
    enum class of { any_context, its_own };
    explicit opencl(of context = of::any_context);

    queue_handle in_order_queue(cl_command_queue_properties properties = CL_QUEUE_PROFILING_ENABLE) const;
    /// For cases about such queues. Skips the case where the device has none, or none that goes on past a command that
    /// waits for a user event, as a pending transfer does.
    queue_handle out_of_order_queue() const;
    /// For cases with several commands in flight, to be gone through with one set after the other: `count` in-order
    /// queues; then, in each place, one out-of-order queue, or in-order queues again where out_of_order_queue() skips.
    /// So all ranks go through as many sets, whatever their devices.
    std::vector<queue_set> independent_queues(std::size_t count) const;
    buffer_handle buffer(std::size_t size, cl_mem_flags flags = CL_MEM_READ_WRITE) const;
    buffer_handle sub_buffer(cl_mem parent, std::size_t origin, std::size_t size) const;
    event_handle user_event() const;
    /// The kernel `name` of the test program: `add_one(global uchar *data)`, one work-item per byte.
    kernel_handle kernel(const char *name) const;

    void write(cl_mem buffer, std::size_t offset, const bytes &data) const;
    bytes read(cl_mem buffer, std::size_t offset, std::size_t size) const;
    /// Writes pattern(seed, size) at `offset`.
    void fill(cl_mem buffer, std::size_t offset, std::size_t size, std::uint64_t seed) const;
    /// A new buffer that holds pattern(seed, size).
    buffer_handle filled(std::size_t size, std::uint64_t seed) const;
    /// Checks that `size` bytes at `offset` are those of pattern(seed, size) from its byte `skip` on.
    void expect(cl_mem buffer, std::size_t offset, std::size_t size, std::uint64_t seed, std::size_t skip = 0) const;

    [[nodiscard]] bool is_processor() const;

    cl_device_id device = nullptr;
    context_handle context;

private:
    /// Why no out-of-order queue is of use; nothing where one is.
    [[nodiscard]] std::string out_of_order_fault() const;
    /// Whether an out-of-order queue goes on past a command that waits for a user event.
    [[nodiscard]] bool passes_pending_commands() const;

    queue_handle host_queue;
};

/// Skips the case where the device has not the memory for buffers of `size` bytes, or is not to be asked for it.
void need_memory(const opencl &cl, std::size_t largest_buffer);

/// Bytes to which the origin of a sub-buffer must be aligned.
std::size_t sub_buffer_alignment(cl_device_id device);

inline constexpr std::chrono::milliseconds default_wait = std::chrono::seconds(30);

/// Waits for the command of `event` and returns CL_COMPLETE or its error. Fails the case after `limit`.
cl_int wait_for(cl_event event, std::chrono::milliseconds limit = default_wait);

/// As clFinish, with a limit: waits for what was enqueued up to now.
void finish(cl_command_queue queue, std::chrono::milliseconds limit = default_wait);

/// The status that OpenCL tells now.
cl_int status_of(cl_event event);

}  // namespace cldist_test
