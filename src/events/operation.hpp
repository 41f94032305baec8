#pragma once

#include <functional>
#include <memory>
#include <new>
#include <utility>

#include "base/status.hpp"
#include "events/record.hpp"

namespace cldist {

enum class Progress { idle, moved, done };

/// Has something polled again; may be called by any thread, at any time, also when that is gone.
using Waker = std::function<void()>;

/// Work in flight that can be asked "done? with what status?". Driven by one thread, which calls start() once and then
/// poll() until it says done. poll() never blocks and, after done, is not called again.
class Operation {
public:
    explicit Operation(std::shared_ptr<Record> record) : record_(std::move(record)) {}
    Operation(const Operation &) = delete;
    Operation &operator=(const Operation &) = delete;
    virtual ~Operation() = default;

    /// Takes its place among the messages of the process now, where start() would: for a command whose order is that of the
    /// calls, but which another thread starts. Any thread; at most once, before start().
    virtual void announce() {}
    /// What to call when there is something to poll for, from where it `wakes()`. By the driving thread, before start(); a
    /// driver that gives none polls on.
    virtual void woken_by(const Waker & /*waker*/) {}
    /// `gate` is how the wait list ended. After a failure nothing touches the buffer any more, but the operation still
    /// does what the far end needs in order not to wait for ever.
    virtual void start(const Status &gate) = 0;
    virtual Progress poll() = 0;
    /// Ends with CL_TRANSFER_CANCELLED if it has not met its far end and can be given up; else goes on as if nothing was
    /// said. Between start() and done, by the driving thread.
    virtual void cancel() {}
    /// Whether bytes are moving, rather than the operation waiting for somebody.
    [[nodiscard]] virtual bool bytes_in_flight() const = 0;
    /// Whether, after a poll that was idle, it calls its waker when there is something to poll for again. Polling it
    /// before does no harm.
    [[nodiscard]] virtual bool wakes() const { return false; }

    /// The first error, or success. Final once poll() said done.
    [[nodiscard]] const Status &status() const { return status_; }
    [[nodiscard]] const std::shared_ptr<Record> &record() const { return record_; }

protected:
    /// Keeps the first error.
    void fail(Status status) {
        if (status_.ok()) status_ = std::move(status);
    }
    /// Does `body`; what it throws is kept as by fail(). Whether it threw nothing.
    template <typename Body>
    bool attempt(Body &&body) {
        try {
            body();
            return true;
        } catch (const Error &error) {
            fail(error.status());
        } catch (const std::bad_alloc &) {
            fail(Status::failure(CL_OUT_OF_HOST_MEMORY, "no memory for the transfer"));
        }
        return false;
    }

private:
    std::shared_ptr<Record> record_;
    Status status_;
};

}  // namespace cldist
