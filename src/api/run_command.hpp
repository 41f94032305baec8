#pragma once

#include <memory>
#include <span>
#include <vector>

#include "api/arguments.hpp"
#include "events/progress_thread.hpp"
#include "pipeline/device_resources.hpp"

namespace cldist {

using Operations = std::vector<std::unique_ptr<Operation>>;

std::vector<std::shared_ptr<Record>> records_of(const Operations &operations);

/// The driver of a command's operations.
enum class Drives {
    progress_thread,
    caller,  ///< of a blocking command with an event
    /// Of a blocking command without an event; the command's queue makes its copies.
    caller_in_queue
};

/// A checked call. Each family of commands derives a class from it.
class CheckedCall {
public:
    CheckedCall() = default;
    CheckedCall(const CheckedCall &) = delete;
    CheckedCall &operator=(const CheckedCall &) = delete;
    virtual ~CheckedCall() = default;

    /// For commands that are not blocking.
    [[nodiscard]] virtual ProgressThread &progress_thread() const = 0;
    /// Chooses the command's mappings. They must stay valid as long as the call.
    virtual std::span<Mapping> make_mappings(Drives driver) = 0;
    /// The mappings have their memory.
    [[nodiscard]] virtual Operations make_operations(Drives driver) const = 0;
    /// Starts the command and drives it on the calling thread.
    virtual void drive_here(Command &command, const Status &gate) const = 0;
    /// Returns true if a blocking command without event must wait for its turn before its
    /// operations start. Otherwise it waits only for its mappings.
    [[nodiscard]] virtual bool needs_gate(bool has_mappings) const = 0;
    /// Returns true if the far end may keep a command whose wait list failed from ending soon. The
    /// progress thread then drives this command, and the call returns.
    [[nodiscard]] virtual bool leaves_failures() const { return false; }
    /// Returns true if the command writes the buffer.
    [[nodiscard]] virtual bool writes() const = 0;

    CommandArguments arguments{};
    QueueInfo queue;
    std::shared_ptr<DeviceResources> resources;
};

/// Lets the progress thread start the command, whose bridge was made for the call. Sets the call's
/// event.
void start_when_ready(const CheckedCall &call, Operations operations,
                      std::unique_ptr<Bridge> bridge);

/// Enqueues the command. If it is blocking, runs it to its end and returns its status.
[[nodiscard]] Status run_command(CheckedCall &call);

}  // namespace cldist
