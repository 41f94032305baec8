#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "events/bridge.hpp"
#include "events/operation.hpp"

namespace cldist {

/// An enqueued command: one operation, or the two operations of a Sendrecv. The operations start
/// together. The command ends when all have ended, and its status is the first error.
class Command {
public:
    /// A blocking command without user-visible event has no bridge. Without `device`,
    /// failure_policy() does not apply.
    Command(Operations operations, std::unique_ptr<Bridge> bridge, cl_device_id device);
    Command(const Command &) = delete;
    Command &operator=(const Command &) = delete;
    ~Command();

    /// Publishes the status of a command whose start event has failed. It starts later, with
    /// `gate`.
    void publish_failure(const Status &gate);
    /// Takes the position in the message order before the command starts.
    void take_position();
    /// See Operation::woken_by().
    void woken_by(const Waker &waker);
    /// Starts all operations. If `gate` failed, the event gets its status at once, because no
    /// operation will use the buffer.
    void start(const Status &gate);
    Progress poll();
    [[nodiscard]] bool bytes_in_flight() const;
    /// Returns true if all unfinished operations wake their driver.
    [[nodiscard]] bool wakes() const;
    /// Ends the command with `status` although its operations have not ended.
    void abandon(const Status &status);

    [[nodiscard]] const Status &status() const { return status_; }
    [[nodiscard]] const Bridge *bridge() const { return bridge_.get(); }
    /// Passes on the bridge of a failed command. Returns null for other commands.
    std::unique_ptr<Bridge> take_failed_bridge();

    // Used by the progress thread.
    bool starts_later = false;             ///< the command was enqueued with start_when_ready()
    std::function<void()> before_failure;  ///< called before the event fails; may be empty

private:
    void end(const Status &status);
    [[nodiscard]] bool unused() const;
    void finish_in_queue();

    Operations operations_;
    std::vector<bool> done_;
    std::unique_ptr<Bridge> bridge_;
    cl_device_id device_;
    Status first_error_;  ///< the first error of a finished operation
    Status status_;       ///< valid after the end
    bool ended_ = false;
};

}  // namespace cldist
