#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "collectives/schedule.hpp"
#include "ocl/handle.hpp"

namespace cldist::collectives {

/// A buffer from `offset` on.
struct Memory {
    cl_mem buffer;
    std::size_t offset;  ///< bytes
};

/// Whether the queue's device is one of the cluster platform, where devices have processes of their own.
[[nodiscard]] bool on_cluster(cl_command_queue queue);

/// Enqueues the steps of one command, each behind those that it must not pass.
class Runner {
public:
    /// Puts the beginning of the command into the queues. Throws an Error, as all that follows.
    Runner(std::span<const cl_command_queue> queues, std::span<const cl_event> wait_list);

    void copy(std::size_t queue, const Memory &to, const Memory &from, std::size_t size);
    /// Of elements; `combine` as the header says. Offsets are multiples of `element`.
    void combine(std::size_t queue, cl_kernel combine, std::size_t element, const Memory &to, const Memory &from,
                 std::size_t size);
    /// Puts the end into the queues. The command's event; nothing if none is wanted.
    Event end(bool wanted);

private:
    struct Access {
        cl_event event;
        bool writes;
    };
    /// What a kernel is given for bytes of a buffer, and where in that they begin.
    struct Argument {
        cl_mem buffer;
        std::size_t offset;
    };
    struct Lane {
        cl_command_queue queue;
        bool in_order;
        std::vector<cl_event> left;  ///< of an in-order queue the last event
    };

    [[nodiscard]] Lane &lane_of(cl_command_queue queue);
    /// Devices use a buffer at the same time only to read it: OpenCL promises no more, whatever the bytes.
    void wait_for(cl_mem whole, bool write, std::vector<cl_event> &events);
    void note(cl_mem whole, bool write, cl_event event);
    Argument argument(const Memory &memory, std::size_t size);
    void ended(std::size_t queue, Event event);

    const std::span<const cl_command_queue> queues_;
    /// The cluster platform does what uses the same bytes in the order of the calls, so nothing has to wait for it.
    const bool ordered_;
    std::size_t alignment_ = 1;    ///< bytes, of sub-buffers on all devices
    std::vector<cl_event> begun_;  ///< what the first steps wait for
    std::vector<Lane> lanes_;
    std::map<cl_mem, std::vector<Access>> accesses_;  ///< of buffers that are no sub-buffers
    std::vector<Event> events_;
    std::vector<Mem> sub_buffers_;
};

/// The same bytes in the buffer that is no sub-buffer.
[[nodiscard]] Memory in_whole(const Memory &memory);

}  // namespace cldist::collectives
