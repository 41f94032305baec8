#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "collectives/schedule.hpp"
#include "ocl/handle.hpp"

namespace cldist::collectives {

/// A buffer from `offset` on, and what it is a part of: itself, if it is no sub-buffer.
struct Memory {
    cl_mem buffer;
    std::size_t offset;  ///< bytes
    std::size_t size;    ///< of the buffer, bytes
    cl_mem whole;
    std::size_t origin;  ///< of the buffer in `whole`, bytes

    [[nodiscard]] std::size_t offset_in_whole() const { return origin + offset; }
};

/// Enqueues the steps of one command, each behind those that it must not pass.
class Runner {
public:
    /// Puts the beginning of the command into the queues. `ordered`: the platform does what uses the same bytes in the order of
    /// the calls, whatever the queues, as the cluster's does. `on_first`: the first queue gets all steps. `wanted`: the
    /// command's event. Throws an Error, as all that follows.
    Runner(std::span<const cl_command_queue> queues, std::span<const cl_event> wait_list, bool ordered, bool on_first,
           bool wanted);

    void copy(std::size_t queue, const Memory &to, const Memory &from, std::size_t size);
    /// Of elements; `combine` as the header says, or an Operator's. Offsets are multiples of `element`.
    void combine(std::size_t queue, cl_kernel combine, bool is_operator, std::size_t element, const Memory &to,
                 const Memory &from, std::size_t size);
    /// Puts the end into the queues. The command's event; nothing if none is wanted.
    Event end();

private:
    struct Access {
        cl_event event;
        bool writes;
    };
    struct Lane {
        cl_command_queue queue;
        bool in_order;
        bool processor;
        std::vector<cl_event> left{};  ///< what the end waits for
    };

    [[nodiscard]] Lane &lane_of(std::size_t queue);
    template <typename Enqueue>
    void enqueue(std::size_t queue, const Memory &to, const Memory &from, const char *call, const Enqueue &step);
    /// Devices use a buffer at the same time only to read it: OpenCL promises no more, whatever the bytes.
    void wait_for(cl_mem whole, bool write, std::vector<cl_event> &events);
    void note(cl_mem whole, bool write, cl_event event);
    /// What a kernel is given for `size` bytes of memory: where in that they begin is its offset.
    Memory argument(const Memory &memory, std::size_t size);
    Memory aside(cl_context context, std::size_t size);
    [[nodiscard]] Event enqueue_marker(cl_command_queue queue, const std::vector<cl_event> &events);

    const std::span<const cl_command_queue> queues_;
    const bool ordered_;
    const bool wanted_;
    bool serial_ = false;  ///< all are in one in-order queue
    bool on_first_ = false;
    std::size_t alignment_ = 1;    ///< bytes, of sub-buffers on all devices
    std::vector<cl_event> begun_;  ///< what the first steps wait for: the wait list, and markers
    std::size_t waits_ = 0;        ///< events of the wait list
    std::vector<Lane> lanes_;
    std::map<cl_mem, std::vector<Access>> accesses_;  ///< of buffers that are no sub-buffers
    std::vector<Event> events_;
    std::vector<Mem> memory_;  ///< sub-buffers, and what was put aside
};

}  // namespace cldist::collectives
