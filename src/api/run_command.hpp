#pragma once

#include <memory>
#include <span>

#include "api/arguments.hpp"
#include "events/progress_thread.hpp"
#include "pipeline/device_resources.hpp"

namespace cldist {

/// The thread that drives a command's operations.
enum class Drives {
    progress_thread,
    caller,          ///< blocking command with an event
    caller_in_queue  ///< blocking command without an event; copies use the command's queue
};

/// A call whose arguments were checked. Each family of commands derives a class from it.
class CheckedCall {
public:
    CheckedCall() = default;
    CheckedCall(const CheckedCall &) = delete;
    CheckedCall &operator=(const CheckedCall &) = delete;
    virtual ~CheckedCall() = default;

    /// The thread for non-blocking commands.
    [[nodiscard]] virtual ProgressThread &progress_thread() const = 0;
    /// Chooses the command's mappings. They must stay valid until the end of the call.
    virtual std::span<Mapping> make_mappings(Drives driver) = 0;
    /// Creates the operations. Called after the mappings were enqueued and got their memory.
    [[nodiscard]] virtual Operations make_operations(Drives driver) const = 0;
    /// Starts the command and drives it on the calling thread.
    virtual void drive_here(Command &command, const Status &gate) const = 0;
    /// Returns true if a blocking command without event must wait for its wait list and queue
    /// before its operations start. Otherwise it waits only for its mappings.
    [[nodiscard]] virtual bool needs_gate(bool has_mappings) const = 0;
    /// Returns true if a command whose wait list failed may have to wait long for its far end. Then
    /// the progress thread drives it, and the call returns.
    [[nodiscard]] virtual bool leaves_failures() const { return false; }
    /// Returns true if the command writes the buffer.
    [[nodiscard]] virtual bool writes() const = 0;

    CommandArguments arguments{};
    QueueInfo queue;
    std::shared_ptr<DeviceResources> resources;
};

/// Submits the command to the progress thread and sets the call's event. `bridge` is the call's.
void start_when_ready(const CheckedCall &call, Operations operations,
                      std::unique_ptr<Bridge> bridge);

/// Enqueues the command. If it is blocking, runs it to its end and returns its status.
[[nodiscard]] Status run_command(CheckedCall &call);

}  // namespace cldist
