#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>

#include <mpi.h>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "events/bridge.hpp"
#include "events/record.hpp"
#include "mpi_interop/load_sample.hpp"
#include "mpi_interop/wire.hpp"
#include "ocl/query.hpp"
#include "pipeline/collective_kernels.hpp"
#include "pipeline/slot_kernels.hpp"
#include "pipeline/slot_pool.hpp"

namespace cldist {

class DeviceLinks;

/// Notices the failure of a kernel in a queue. A query of an event costs a few microseconds.
/// Therefore all kernels together make one query per millisecond.
class KernelFailure {
public:
    /// The kernel is one of `unfinished` kernels.
    void check_later(std::uint64_t now, std::size_t unfinished) {
        next_check_ns_ = now + period_ns * unfinished;
    }
    /// Returns true after check() or note(), if the kernel has failed.
    [[nodiscard]] bool found() const { return found_; }
    void note() { found_ = true; }
    /// Returns found(). If it is time, first queries the events, which may be null, and the number
    /// of unfinished kernels.
    template <typename CountUnfinished>
    bool check(std::initializer_list<cl_event> events, CountUnfinished &&unfinished) {
        const std::uint64_t now = now_ns();
        if (found_ || now < next_check_ns_) return found_;
        check_later(now, unfinished());
        return found_ = std::any_of(events.begin(), events.end(), [](cl_event event) {
                   return event != nullptr && execution_status(event) < 0;
               });
    }

private:
    static constexpr std::uint64_t period_ns = 1'000'000;

    bool found_ = false;
    std::uint64_t next_check_ns_ = 0;
};

/// A device-ordered command: a kernel in the program's queue moves the bytes. While a kernel waits
/// on the device, NVIDIA's driver (580) does not return from clReleaseMemObject, clBuildProgram and
/// other calls, and another process may depend on what the program does after them. Therefore the
/// kernel of a receive starts only after its message is known. Unless stated otherwise, methods are
/// for the thread that drives the command.
class OrderedCommand {
public:
    /// When a command takes its position in the message order.
    enum class Position {
        at_call,  ///< the kernel of the receive may wait on the device
        /// The receiver learns of the message when the send starts. The kernel of the receive waits
        /// behind an event until the bytes arrive, or at least the kernel of the send runs.
        at_start
    };
    /// `line`: the collective's line, or null.
    OrderedCommand(std::shared_ptr<DeviceLinks> links, Direction direction, std::size_t size,
                   Position position = Position::at_call, const void *line = nullptr);
    OrderedCommand(const OrderedCommand &) = delete;
    OrderedCommand &operator=(const OrderedCommand &) = delete;
    ~OrderedCommand();

    [[nodiscard]] Position position() const { return position_; }

    // For the calling thread.
    /// Reserves a slot and, for a send to `world_rank`, landing memory of the receiver. Returns
    /// false if none is free.
    bool reserve(int world_rank, cl_command_queue queue);
    /// Call it just before the kernel is enqueued. may_post() then considers the commands that are
    /// held back before this one.
    void follow();
    /// Receive or collective: holds back the kernel that is enqueued next, until grant(), go(),
    /// release() or fail().
    void hold(const QueueInfo &queue, std::span<const cl_event> wait_list);
    /// Enqueues the kernel. `event` may be null. Throws an Error.
    void enqueue(const SlotMove &move, std::span<const cl_event> wait_list, cl_event *event);
    /// Enqueues one kernel for a send and a granted receive.
    static void enqueue_both(OrderedCommand &send, OrderedCommand &recv, const SlotMove &sent,
                             const SlotMove &received, std::span<const cl_event> wait_list,
                             cl_event *event);
    /// Send: whether to measure how long the kernel waits for the device.
    [[nodiscard]] bool is_measured();
    /// Send: measure this. The kernel may run when `before` has ended.
    void measure(cl_event before) { sample_.measure(before); }
    /// Send: the kernel runs.
    void note_running();
    /// Send: not zero when the kernel runs.
    [[nodiscard]] const std::atomic<std::uint32_t> *running() const { return &slot().running; }
    /// The kernel's arguments. `strided`: the layout of the bytes from `offset` on, unless they are
    /// contiguous.
    [[nodiscard]] SlotMove move_of(cl_mem buffer, std::size_t offset,
                                   const std::optional<RectRegion> &strided = {}) const;
    /// Enqueues the kernel of a collective.
    void enqueue(const CollectiveWork &work, cl_kernel kernel, cl_mem in, cl_mem out,
                 std::span<const cl_event> wait_list, cl_event *event);

    /// Returns true if no earlier command of the queue is held back, except for collectives of the
    /// same line. Only then may other processes learn of a send or collective.
    [[nodiscard]] bool may_post() const;
    /// Send: writes the slot and the position in landing memory to the header.
    void describe(MessageHeader &header) const;
    /// Receive: lets the kernel take the bytes of the message. Returns false if it can't. The host
    /// must then receive them.
    bool grant(int world_rank, const MessageHeader &header);
    [[nodiscard]] bool granted() const { return peer_.world_rank != MPI_UNDEFINED; }
    /// Receive: returns true if the kernel may wait for the message on the device, because the
    /// sender's kernel runs and few kernels wait like this.
    bool may_join(int world_rank, const MessageHeader &header);

    /// Receive or collective: returns true if the queue has reached the command. The host may then
    /// use the buffer.
    [[nodiscard]] bool started() const {
        return !hold_.reached || execution_status(hold_.reached.get()) == CL_COMPLETE;
    }
    /// Receive or collective: the host has moved the bytes.
    void release() { give_order(SlotOrder::leave); }
    /// Receive: fails the kernel, which is held back, with `code`.
    void fail(cl_int code);
    /// Send: reports to the receiver that the kernel has failed.
    void spoil();
    /// Send: the message was not sent. Its slot and landing memory become free after the kernel.
    void withdraw() { slot().taken.store(1, std::memory_order_release); }
    /// Collective: lets the kernel do its work.
    void go() { give_order(SlotOrder::move); }
    /// Returns true if the kernel has ended (its event may be incomplete) or will never start.
    [[nodiscard]] bool ended();
    /// Receive: after the end of a granted kernel, returns true if the sender's kernel has failed.
    [[nodiscard]] bool spoiled() const { return spoiled_; }
    /// Returns true if the kernel will never start, because its wait list or an earlier command of
    /// the queue has failed, or if the device has failed the kernel. Notices this after a
    /// millisecond or more.
    [[nodiscard]] bool failed();
    /// The status of such a command.
    [[nodiscard]] static Status failure() {
        return Status::failure(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
                               "an event of the wait list or an earlier command of the in-order "
                               "queue failed, or the device has failed the kernel");
    }

private:
    [[nodiscard]] TransferSlot &slot() const;
    template <typename EnqueueKernel>
    void enqueue_with(EnqueueKernel enqueue_kernel, std::span<const cl_event> wait_list,
                      cl_event *event);
    void give_order(SlotOrder order, cl_int status = CL_COMPLETE);
    void note_enqueued();
    void stop_joining();

    enum class Stage { nothing, reserved, enqueued, ended };

    const std::shared_ptr<DeviceLinks> links_;
    const Direction direction_;
    const Position position_;
    Stage stage_ = Stage::nothing;
    /// The slot and the size. Send: also the offset in the receiver's landing memory.
    LandingPlace place_;
    cl_command_queue queue_ = nullptr;
    LoadSample sample_;
    /// Holds back the kernel of a receive or collective.
    struct Hold {
        const void *line;          ///< the collective's, or null
        Event reached{};           ///< the queue has reached the kernel
        Event until{};             ///< a user event; null if the kernel is not held back
        std::uint64_t number = 0;  ///< of this command if held, else of the next held one
    } hold_;
    Event event_;  ///< the kernel's; null if the other half of an exchange has it
    KernelFailure failure_;
    /// Send: the receiver. Receive: the sender, after grant().
    struct {
        int world_rank = MPI_UNDEFINED;
        std::uint32_t slot = 0;  ///< receive: the sender's
    } peer_;
    bool joins_ = false;
    bool spoiled_ = false;
};

}  // namespace cldist
