#pragma once

#include <functional>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "events/record.hpp"

namespace cldist {

enum class Progress { idle, moved, done };

/// Requests another poll. Any thread may call it at any time, even after the polled object was
/// destroyed.
using Waker = std::function<void()>;

/// Work in flight, with its status. One thread drives it: it calls start() once and then poll()
/// until poll() returns done. poll() does not wait for another party.
class Operation {
public:
    explicit Operation(std::shared_ptr<Record> record) : record_(std::move(record)) {}
    Operation(const Operation &) = delete;
    Operation &operator=(const Operation &) = delete;
    virtual ~Operation() = default;

    /// Takes the operation's position in the message order now instead of in start(). For
    /// operations that another thread starts later. Any thread. At most once, before start().
    virtual void announce() {}
    /// Sets the function that the operation calls when the next poll makes sense (see wakes()). The
    /// driving thread calls it before start(). A driver without waker must keep polling.
    virtual void woken_by(const Waker & /*waker*/) {}
    /// `gate` is the result of the wait list. If it failed, the operation does not touch the
    /// buffer, but it still sends or receives what the far end needs, so that the far end does not
    /// wait forever.
    virtual void start(const Status &gate) = 0;
    virtual Progress poll() = 0;
    /// Ends the operation with CL_TRANSFER_CANCELLED if it has not matched its far end and can be
    /// abandoned. Otherwise it has no effect. The driving thread calls it between start() and the
    /// end.
    virtual void cancel() {}
    /// Called if nobody will drive the operation to its end. `status` is the result for the
    /// program.
    virtual void abandon(const Status & /*status*/) {}
    /// After the command's end: returns true if its queue does not use memory of the operation any
    /// more. The driving thread calls it until it returns true.
    [[nodiscard]] virtual bool unused() { return true; }
    /// After a successful end: returns true if a kernel in the command's queue still moves the
    /// bytes. The record then ends after unused() has returned true.
    [[nodiscard]] virtual bool ends_in_queue() const { return false; }
    /// Returns true if bytes are moving, false if the operation waits for another party.
    [[nodiscard]] virtual bool bytes_in_flight() const = 0;
    /// Returns true if the operation calls its waker when the next poll after an idle poll makes
    /// sense. Earlier polls are harmless.
    [[nodiscard]] virtual bool wakes() const { return false; }

    /// The first error, or success. Final after poll() has returned done.
    [[nodiscard]] const Status &status() const { return status_; }
    [[nodiscard]] const std::shared_ptr<Record> &record() const { return record_; }

protected:
    /// Keeps the first error. Success has no effect.
    void fail(Status status) {
        if (status_.ok()) status_ = std::move(status);
    }
    /// Calls `body` and keeps the error that it throws, as fail() does. Returns true if it threw
    /// nothing.
    template <typename Body>
    bool attempt(Body &&body) {
        try {
            body();
            return true;
        } catch (const Error &error) {
            fail(error.status());
        } catch (const std::bad_alloc &) {
            fail(Status::failure(CL_OUT_OF_HOST_MEMORY,
                                 "cannot allocate host memory for the transfer"));
        }
        return false;
    }

private:
    std::shared_ptr<Record> record_;
    Status status_;
};

/// The operations of a command.
using Operations = std::vector<std::unique_ptr<Operation>>;

/// The operations of a command that has only one.
inline Operations only(std::unique_ptr<Operation> operation) {
    Operations operations;
    operations.push_back(std::move(operation));
    return operations;
}

}  // namespace cldist
