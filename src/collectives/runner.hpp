#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "collectives/schedule.hpp"
#include "ocl/handle.hpp"

namespace cldist::collectives {

class Landing;

/// A buffer from `offset` on. `root` is its parent, or the buffer itself if it is no sub-buffer.
struct Memory {
    cl_mem buffer;
    std::size_t offset;  ///< bytes
    std::size_t size;    ///< bytes of the buffer
    cl_mem root;
    std::size_t origin;  ///< bytes before the buffer in `root`

    [[nodiscard]] std::size_t offset_in_root() const { return origin + offset; }
};

/// Enqueues the steps of one command. Each step waits for the steps that it depends on.
class Runner {
public:
    /// Enqueues the start of the command. `ordered`: the platform executes commands on the same
    /// bytes in the order of the calls, even in different queues, as the cluster platform does.
    /// `on_first`: the first queue gets all steps, unless the devices share memory. `wanted`: end()
    /// returns an event. All functions throw an Error.
    Runner(std::span<const cl_command_queue> queues, std::span<const cl_event> wait_list,
           bool ordered, bool on_first, bool wanted);

    /// Copies on `queue`. `from_queue` is the queue whose device has probably written `from`.
    void copy(std::size_t queue, const Memory &to, std::size_t from_queue, const Memory &from,
              std::size_t size);
    /// Combines elements. `combine` is a user-provided kernel (see the header) or an Operator's
    /// kernel. Offsets are multiples of `element`.
    void combine(std::size_t queue, cl_kernel combine, bool is_operator, std::size_t element,
                 const Memory &to, std::size_t from_queue, const Memory &from, std::size_t size);
    /// Enqueues the end of the command. Returns its event if `wanted`.
    Event end();

private:
    struct Access {
        cl_event event;
        bool writes;
    };
    struct Lane {
        cl_command_queue queue;
        cl_device_id device;
        bool in_order;
        bool is_cpu;
        std::vector<cl_event> left{};  ///< events that the end waits for
    };

    /// Null if the devices share no memory.
    [[nodiscard]] static std::shared_ptr<Landing> landing_of(const Lane &writer, const Lane &owner);
    [[nodiscard]] Lane &lane_of(std::size_t queue);
    /// Enqueues a step that also waits for `after`, unless that is null. Returns its event, or null
    /// if nothing waits for it. The bytes of a Memory without `root` are never waited for.
    template <typename Enqueue>
    cl_event enqueue(std::size_t queue, const Memory &to, const Memory &from, cl_event after,
                     const char *call, const Enqueue &step);
    cl_event enqueue_copy(std::size_t queue, const Memory &to, const Memory &from, std::size_t size,
                          cl_event after = nullptr);
    cl_event enqueue_combine(std::size_t queue, cl_kernel combine, bool is_operator,
                             std::size_t element, const Memory &to, const Memory &from,
                             std::size_t size, cl_event after = nullptr);
    /// Calls `use` for each piece of the bytes, with the position of the piece, its memory, its
    /// size and an event to wait for (or null). `use` returns its command's event. If the queues'
    /// devices share memory, the pieces have been copied to the device of `queue`. Otherwise all
    /// bytes are one piece.
    template <typename Use>
    void in_pieces(std::size_t queue, std::size_t from_queue, const Memory &from, std::size_t size,
                   std::size_t element, const Use &use);
    /// Adds the events that an access to `root` must wait for. Devices may only read a buffer at
    /// the same time. OpenCL does not allow simultaneous access with a write, even to different
    /// bytes.
    void wait_for(cl_mem root, bool write, std::vector<cl_event> &events);
    void note(cl_mem root, bool write, cl_event event);
    /// The kernel argument for `size` bytes of memory, which begin at its `offset`.
    Memory argument(const Memory &memory, std::size_t size);
    Memory aside(cl_context context, std::size_t size);
    [[nodiscard]] Event enqueue_marker(cl_command_queue queue, const std::vector<cl_event> &events);

    const std::span<const cl_command_queue> queues_;
    const bool ordered_;
    const bool wanted_;
    bool serial_ = false;  ///< one in-order queue gets all steps
    bool on_first_ = false;
    bool has_steps_ = false;
    std::size_t alignment_ = 1;  ///< bytes, alignment of sub-buffers on all devices
    /// Events that the first steps wait for: the wait list and markers.
    std::vector<cl_event> begun_;
    std::size_t waits_ = 0;  ///< number of events in the wait list
    std::vector<Lane> lanes_;
    std::map<cl_mem, std::vector<Access>> accesses_;  ///< by parent buffer
    std::vector<Event> events_;
    std::vector<Mem> memory_;  ///< sub-buffers and temporary buffers
};

}  // namespace cldist::collectives
