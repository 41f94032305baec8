#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "events/bridge.hpp"
#include "events/operation.hpp"

namespace cldist {

/// Decides whether a failed command ends the job, because the platform would not survive a negative
/// event status (CLDIST_ON_ERROR). `device` is a device of this platform, and `account` is the
/// cause.
using FailurePolicy = void (*)(cl_device_id device, const std::string &account);

/// An enqueued command: one operation, or the two operations of a Sendrecv. The operations start
/// together. The command ends when all have ended, and its status is the first error.
class Command {
public:
    /// A blocking command without user-visible event has no bridge. Without `device`,
    /// failure_policy does not apply.
    Command(std::vector<std::unique_ptr<Operation>> operations, std::unique_ptr<Bridge> bridge,
            cl_device_id device);
    Command(const Command &) = delete;
    Command &operator=(const Command &) = delete;
    ~Command();

    /// Reports early that start events failed. The command will start with `gate`, but it takes its
    /// position in the message order and publishes its status now.
    void announce_failure(const Status &gate);
    /// See Operation::woken_by().
    void woken_by(const Waker &waker);
    /// If `gate` failed, the event gets its status at once, because no operation will use the
    /// buffer.
    void start(const Status &gate);
    Progress poll();
    [[nodiscard]] bool bytes_in_flight() const;
    /// Returns true if all unfinished operations wake their driver.
    [[nodiscard]] bool wakes() const;
    /// Ends the command with `status` although its operations have not ended.
    void abandon(const Status &status);

    [[nodiscard]] const Status &status() const { return status_; }
    [[nodiscard]] const Bridge *bridge() const { return bridge_.get(); }
    /// Hands over the bridge of a failed command. Returns null for other commands.
    std::unique_ptr<Bridge> take_failed_bridge();

    /// For the progress thread: the command starts after its call, when its start event is
    /// complete.
    bool starts_later = false;

    /// Set before the first command and never changed.
    static std::atomic<FailurePolicy> failure_policy;

private:
    void end(const Status &status);

    std::vector<std::unique_ptr<Operation>> operations_;
    std::vector<bool> done_;
    std::unique_ptr<Bridge> bridge_;
    cl_device_id device_;
    Status first_error_;  ///< of the finished operations
    Status status_;       ///< valid after the end
    bool ended_ = false;
};

}  // namespace cldist
