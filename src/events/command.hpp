#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "events/bridge.hpp"
#include "events/operation.hpp"

namespace cldist {

/// Whether any error of a command is to end the job, because the platform would not survive a negative status
/// (CLDIST_ON_ERROR). Called with the device whose platform is concerned and the cause.
using FailurePolicy = void (*)(cl_device_id device, const std::string &account);

/// What was enqueued: one operation or, of a Sendrecv, two, that start together. Ends when all have ended; the first
/// error wins.
class Command {
public:
    /// A blocking command whose event nobody asked for has no bridge. Without a `device` its failure is an event's in any case.
    Command(std::vector<std::unique_ptr<Operation>> operations, std::unique_ptr<Bridge> bridge, cl_device_id device);
    Command(const Command &) = delete;
    Command &operator=(const Command &) = delete;
    ~Command();

    /// Start events failed: the command will start with `gate`, but takes its place among the messages, and tells its
    /// status, now.
    void announce_failure(const Status &gate);
    /// See Operation.
    void woken_by(const Waker &waker);
    /// If `gate` failed, the event is given its status at once: no part will touch the buffer.
    void start(const Status &gate);
    Progress poll();
    [[nodiscard]] bool bytes_in_flight() const;
    /// Whether all operations that are not done wake their driver.
    [[nodiscard]] bool wakes() const;
    /// Ends the command without its operations.
    void abandon(const Status &status);

    [[nodiscard]] const Status &status() const { return status_; }
    [[nodiscard]] const Bridge *bridge() const { return bridge_.get(); }
    /// Gives up the bridge of a command that ended with a failure; null otherwise.
    std::unique_ptr<Bridge> take_failed_bridge();

    /// Set before the first command; always the same.
    static std::atomic<FailurePolicy> failure_policy;

private:
    void end(const Status &status);

    std::vector<std::unique_ptr<Operation>> operations_;
    std::vector<bool> done_;
    std::unique_ptr<Bridge> bridge_;
    cl_device_id device_;
    Status first_error_;  ///< of the operations done so far
    Status status_;       ///< once ended
    bool ended_ = false;
};

}  // namespace cldist
