/// Helpers for operations of the progress thread.
#pragma once

#include <memory>
#include <span>

#include "cluster/execution/transport.hpp"
#include "events/bridge.hpp"

namespace cldist::cluster {

/// Flushes the queue of the event's command.
void flush_producer(cl_event event);

std::unique_ptr<Command> command_of(std::unique_ptr<Operation> operation,
                                    std::unique_ptr<Bridge> bridge = nullptr,
                                    cl_device_id device = nullptr);

/// Makes a start that waits for all of `waits`, and for no other command of the queue.
cldist::Start start_behind(const QueueInfo &queue, std::span<const cl_event> waits);

/// An operation that delegates to `carrier`. before() runs at the start, unless the wait list
/// failed. after() runs at the end, also after a failure.
class Carried : public Operation {
public:
    explicit Carried(std::unique_ptr<Operation> carrier)
        : Operation(carrier->record()), carrier_(std::move(carrier)) {}

    void woken_by(const Waker &waker) final { carrier_->woken_by(waker); }
    void start(const Status &gate) final {
        if (gate.ok()) before();
        carrier_->start(gate);
    }
    Progress poll() final {
        const Progress progress = carrier_->poll();
        if (progress != Progress::done) return progress;
        if (!carrier_->status().ok()) fail(carrier_->status());
        after();
        return Progress::done;
    }
    [[nodiscard]] bool bytes_in_flight() const final { return carrier_->bytes_in_flight(); }
    [[nodiscard]] bool wakes() const final { return carrier_->wakes(); }

private:
    virtual void before() = 0;
    virtual void after() = 0;

    const std::unique_ptr<Operation> carrier_;
};

}  // namespace cldist::cluster
