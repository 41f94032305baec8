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

struct CallArguments;

/// How to create a new memory object in this process.
struct GivenContents {
    cl_mem_flags flags;
    void *host_ptr;     ///< for the native object
    void *program_ptr;  ///< the program's host_ptr; null if the program is in another process
    bool made_at_once;  ///< create native objects now, with the contents at `host_ptr`
    Blob bytes{};       ///< owns the contents if they came from a central host
};

/// A host mode. Its functions are called under the lock; wait() and finish() release it while they
/// wait. The default implementations apply to a process that runs the program.
class HostMode {
public:
    /// Whether the program runs in this process.
    [[nodiscard]] virtual bool has_program() const { return true; }
    /// Whether all processes make all calls in one order, whatever threads the program calls from.
    [[nodiscard]] virtual bool orders_calls() const { return true; }

    /// Records a call of the program for other processes, before it takes effect.
    virtual void note_call(const CallArguments &arguments) const = 0;

    // ---- Ends of commands ----
    /// Waits, during `call`, until all events have ended and the results that they promise have
    /// arrived. Returns the lowest status, or nothing if this process does not wait.
    [[nodiscard]] virtual std::optional<cl_int> wait(
        const CallHash &call, std::span<const Ref<EventObject>> events) const = 0;
    /// Whether this process learns the command's end without wait(), for example with its result.
    [[nodiscard]] virtual bool gets_result(const EventObject &event) const = 0;
    /// The status that clGetEventInfo returns.
    [[nodiscard]] virtual cl_int status(EventObject &event) const = 0;
    /// The times that clGetEventProfilingInfo returns; zeros if the command has not ended.
    [[nodiscard]] virtual Times times(EventObject &event) const = 0;
    /// Waits, in clFinish, until the queue's commands have ended.
    virtual void finish(const Ref<QueueObject> &queue) const = 0;
    /// Called after clFinish, when no command of the queue waits for user events.
    virtual void forget_user_events(QueueObject &queue) const { queue.user_events = {}; }
    /// Sends the event's end to the processes that run the program, or receives it. All call it.
    virtual void tell_end(EventObject &event) const = 0;
    /// Whether another process's program may set a user event earlier than this process's program.
    [[nodiscard]] virtual bool others_may_be_ahead() const { return false; }

    // ---- The program's memory ----
    /// The device that first gets the contents which the program passes for a new object of the
    /// context; null if all devices get them.
    [[nodiscard]] virtual const DeviceObject *first_holder(const ContextObject &context) const = 0;
    /// Returns how to create an object with these flags and the `size` bytes at `host_ptr`, which
    /// may be null. A central host sends the bytes to the process of first_holder(). All processes
    /// call it. Throws an Error.
    [[nodiscard]] virtual GivenContents given_contents(const ContextObject &context,
                                                       cl_mem_flags flags, void *host_ptr,
                                                       std::size_t size) const = 0;
    /// Whether no other process needs the queue's results.
    [[nodiscard]] virtual bool keeps_results(const QueueObject &queue) const = 0;
    /// Whether later commands need the end of every command that writes the program's memory.
    [[nodiscard]] virtual bool tracks_results() const { return false; }
    /// Whether the program gets native mappings of buffers of the context.
    [[nodiscard]] virtual bool maps_natively(const ContextObject &) const { return true; }
    /// Whether a mapping's memory must last until this process knows that the commands which use it
    /// have ended.
    [[nodiscard]] virtual bool keeps_mapped_memory() const { return false; }
    /// Allocates the memory of a mapping that is not native.
    virtual void give_memory(QueueObject &queue, MemObject &object, Mapped &mapped) const = 0;
    /// Records that the program gets a mapping, or returns it.
    virtual void begin_mapping(const Mapped &mapped) const { mapped_memory().add(mapped); }
    virtual void end_mapping(const Mapped &mapped) const { mapped_memory().remove(mapped); }

    /// Called after a native compiler has run (World::note_build).
    virtual void note_build() const {}

protected:
    ~HostMode() = default;
};

const HostMode &host_mode_of(HostRole role);

}  // namespace cldist::cluster
