/// The behaviour that depends on where the program runs: one object per host mode, chosen once.
#pragma once

#include <optional>
#include <span>

#include "cluster/calls/call_log.hpp"
#include "cluster/execution/host_link.hpp"
#include "cluster/objects/event.hpp"
#include "cluster/objects/memory.hpp"
#include "cluster/objects/packing.hpp"

namespace cldist::cluster {

/// How a new memory object is made natively in this process.
struct GivenContents {
    cl_mem_flags flags;
    void *host_ptr;     ///< of the native object
    void *program_ptr;  ///< that the program gave, if the program is here
    bool made_at_once;  ///< it has the contents that the program gives, `host_ptr`
    Blob bytes{};       ///< where these are if they came from a central host
};

/// Serves the program in this process. Its functions are called under the lock. The defaults are
/// those of a process that runs the program.
class HostMode {
public:
    /// Whether the program runs in this process.
    [[nodiscard]] virtual bool has_program() const { return true; }
    /// Whether all processes make all calls in one order, whatever threads the program calls from.
    [[nodiscard]] virtual bool orders_calls() const { return true; }

    // ---- Ends of commands ----
    /// Waits, in a call, until the program may know how all the events end. Returns the least
    /// status of them, or nothing if this process does not wait.
    [[nodiscard]] virtual std::optional<cl_int> wait(
        const CallHash &call, std::span<const Ref<EventObject>> events) const = 0;
    /// Whether the result of a command arrives in this process, so that it need not wait().
    [[nodiscard]] virtual bool gets_result(const EventObject &event) const = 0;
    /// The status that clGetEventInfo returns.
    [[nodiscard]] virtual cl_int status(EventObject &event) const = 0;
    /// The times that clGetEventProfilingInfo returns; zeros if the command has not ended.
    [[nodiscard]] virtual Times times(EventObject &event) const = 0;
    /// Waits, in clFinish, until the queue's commands have ended.
    virtual void finish(const Ref<QueueObject> &queue) const = 0;
    /// After clFinish: no command of the queue waits for user events.
    virtual void forget_user_events(QueueObject &queue) const { queue.user_events = {}; }
    /// Sends the event's end to all processes that run the program, or receives it. All processes
    /// call it.
    virtual void tell_end(EventObject &event) const = 0;
    /// Whether another process's program may have set user events that this process's program has
    /// not.
    [[nodiscard]] virtual bool others_may_be_ahead() const { return false; }

    // ---- The program's memory ----
    /// The device that has the contents which the program gives a new object of the context; null
    /// if all have.
    [[nodiscard]] virtual const DeviceObject *first_holder(const ContextObject &context) const = 0;
    /// The contents of a new object with these flags, and the `size` bytes at `host_ptr`, which may
    /// be null. With a central host these go to one process, from where others get them. Called by
    /// all; throws an Error.
    [[nodiscard]] virtual GivenContents given_contents(const ContextObject &context,
                                                       cl_mem_flags flags, void *host_ptr,
                                                       std::size_t size) const = 0;
    /// Whether the queue's results need not go to another process.
    [[nodiscard]] virtual bool keeps_results(const QueueObject &queue) const = 0;
    /// Whether later commands need the end of every command that writes the program's memory.
    [[nodiscard]] virtual bool tracks_results() const { return false; }
    /// Whether the program gets native mappings of buffers of the context.
    [[nodiscard]] virtual bool maps_natively(const ContextObject &) const { return true; }
    /// Whether a mapping's memory must last until this process knows that the commands which use it
    /// have ended.
    [[nodiscard]] virtual bool keeps_mapped_memory() const { return false; }
    /// Gives a mapping that is not native its memory.
    virtual void give_memory(QueueObject &queue, MemObject &object, Mapped &mapped) const = 0;
    /// The program has a mapping, or has it no longer.
    virtual void begin_mapping(const Mapped &mapped) const { mapped_memory().add(mapped); }
    virtual void end_mapping(const Mapped &mapped) const { mapped_memory().remove(mapped); }

    /// A compiler has run (World::note_build).
    virtual void note_build() const {}

protected:
    ~HostMode() = default;
};

const HostMode &host_mode_of(HostRole role);

}  // namespace cldist::cluster
