#include "cluster/execution/command_ends.hpp"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <mpi.h>

#include "cluster/execution/operations.hpp"
#include "ocl/query.hpp"

namespace cldist::cluster {
namespace {

// Ends `ending` with the status of its command's wait list. An operation that is destroyed before
// its start ends it with CL_TRANSFER_ABANDONED.
class Notice final : public Operation {
public:
    explicit Notice(std::shared_ptr<Ending> ending)
        : Operation(std::make_shared<Record>(Direction::event, MPI_UNDEFINED, MPI_UNDEFINED,
                                             MPI_ANY_TAG, 0)),
          ending_(std::move(ending)) {}
    ~Notice() override { ending_->set(CL_TRANSFER_ABANDONED); }

    void start(const Status &gate) override { ending_->set(gate.code); }
    Progress poll() override { return Progress::done; }
    [[nodiscard]] bool bytes_in_flight() const override { return false; }

private:
    const std::shared_ptr<Ending> ending_;
};

}  // namespace

TimesOfCommand times_of_command(const EventObject &event) {
    if ((event.queue->properties & CL_QUEUE_PROFILING_ENABLE) == 0) return {};
    const NativeCommand *const native = event.native();
    if (native == nullptr) return std::function<Times()>();
    return [held = std::make_shared<const Event>(Event::share(native->event.get())),
            own = native->own_times] { return times_of(held->get(), own); };
}

std::shared_ptr<Ending> CommandEnds::ending_of_all(std::span<const cl_event> events) {
    std::vector<std::shared_ptr<Ending>> endings;
    for (std::size_t i = 0; i < events.size(); ++i) endings.push_back(std::make_shared<Ending>());
    auto all = all_of(endings);
    for (std::size_t i = 0; i < events.size(); ++i) end_with(events[i], endings[i]);
    return all;
}

void CommandEnds::send(EventObject &event, const Message &message) {
    auto operation = transport_.send_status(message, times_of_command(event));
    if (const NativeCommand *const native = event.native())
        submit(std::move(operation), native->event.get());
    else
        // The command failed here, without a native event. If it has a result, ending() is open
        // until the failure has been forwarded in place of the result.
        event.ending()->then(
            [this, held = std::make_shared<std::unique_ptr<Operation>>(std::move(operation))](
                cl_int status) { submit_now(std::move(*held), status); });
}

std::shared_ptr<Ending> CommandEnds::receive(const Message &message) {
    auto received = std::make_shared<Ending>();
    submit_now(transport_.receive_status(message, received), CL_COMPLETE);
    return received;
}

void CommandEnds::send_when_finished(EventObject &marker, const Message &message) {
    const auto tell = [this, message] {
        submit_now(transport_.send_status(message, std::nullopt), CL_COMPLETE);
    };
    auto queue = std::make_shared<const Queue>(Queue::share(marker.queue->native.get()));
    ending_of(marker)->then([this, tell, queue = std::move(queue)](cl_int status) {
        if (status == CL_COMPLETE) {
            tell();
            return;
        }
        ++finishing_;
        std::thread([this, tell, queue]() mutable {
            clFinish(queue->get());
            queue.reset();  // before tell(), after which the process may end
            tell();
            if (--finishing_ == 0) finishing_.notify_all();
        }).detach();
    });
}

// The sub-ranges' statuses go along a tree to its root. The command's status, with the times of the
// longest sub-range, goes back from the root to all processes. The callbacks of an ending hold it,
// because they may run after all other owners have released it.
void CommandEnds::tell_all_of_joint(EventObject &event, JointState &joint) {
    struct Sum {
        std::mutex mutex;
        std::size_t open;
        cl_int code = CL_COMPLETE;
        Times times{};
    };
    // If all processes get each sub-range's result, they also get its status.
    const Relay gather =
        event.scheduled.told_all ? Relay{} : schedule_.gather(event.scheduled.process);
    const Relay relay = schedule_.tell_all(event.scheduled);
    auto all = std::make_shared<Ending>();
    auto sum = std::make_shared<Sum>();
    sum->open = 1 + joint.parts.size() + gather.to.size();
    const auto count = [all, sum](cl_int status, const Times &times) {
        {
            const std::lock_guard lock(sum->mutex);
            sum->code = std::min(sum->code, status);
            sum->times = longer(sum->times, times);
            if (--sum->open != 0) return;
        }
        all->set(sum->code, sum->times);
    };
    const bool is_timed = (event.queue->properties & CL_QUEUE_PROFILING_ENABLE) != 0;
    for (const EventPart &part : joint.parts)
        ending_of(*part.event)->then([count, is_timed, part](cl_int status) {
            count(part.may_fail_command ? status : CL_COMPLETE,
                  is_timed && part.does_work && status == CL_COMPLETE ? part.event->times_here()
                                                                      : Times{});
        });
    for (const Message &message : gather.to) {
        const auto received = receive(message);
        received->then([count, received](cl_int status) { count(status, received->times()); });
    }
    const auto send = [this](const Message &message, cl_int status, const Times &times) {
        submit_now(transport_.send_status(message, [times] { return times; }), status);
    };
    const auto end = relay.from ? receive(*relay.from) : std::make_shared<Ending>();
    joint.ending = end;
    if (relay.from) {
        all->then(
            [send, up = *gather.from, all](cl_int status) { send(up, status, all->times()); });
    } else {
        all->then([end, all](cl_int status) { end->set(status, all->times()); });
    }
    for (const Message &message : relay.to)
        end->then([send, message, end](cl_int status) { send(message, status, end->times()); });
    count(CL_COMPLETE, {});
}

void CommandEnds::tell_all(EventObject &event) {
    if (auto *const joint = std::get_if<JointState>(&event.state)) {
        if (joint->ending.get() == nullptr) tell_all_of_joint(event, *joint);
        return;
    }
    if (schedule_.topology().processes() == 1) return;
    if (event.agreed) return event.end_as(ended(*event.agreed));
    const Relay relay = schedule_.tell_all(event.scheduled);
    if (!relay.from) {
        for (const Message &message : relay.to) send(event, message);
        return;
    }
    const auto received = receive(*relay.from);
    event.end_as(received);
    for (const Message &message : relay.to)
        received->then([this, received, message](cl_int status) {
            const TimesOfCommand times = [times = received->times()] { return times; };
            submit_now(transport_.send_status(message, times), status);
        });
}

void CommandEnds::end_with(cl_event native, std::shared_ptr<Ending> ending) {
    if (progress_thread_is_over_) {
        const auto end = [](cl_event, cl_int status, void *data) {
            const std::unique_ptr<std::shared_ptr<Ending>> held(
                static_cast<std::shared_ptr<Ending> *>(data));
            (*held)->set(status);
        };
        auto held = std::make_unique<std::shared_ptr<Ending>>(std::move(ending));
        flush_producer(native);
        check(clSetEventCallback(native, CL_COMPLETE, end, held.get()), "clSetEventCallback");
        static_cast<void>(held.release());
        return;
    }
    submit(std::make_unique<Notice>(std::move(ending)), native);
}

const std::shared_ptr<Ending> &CommandEnds::ending_of(EventObject &event) {
    if (auto *const of = std::get_if<NativeState>(&event.state);
        of != nullptr && !of->ending.get()) {
        of->ending = std::make_shared<Ending>();
        end_with(of->event.get(), of->ending.get());
    }
    return event.ending();
}

void CommandEnds::submit(std::unique_ptr<Operation> operation, cl_event after) {
    if (after == nullptr) {
        submit_now(std::move(operation), CL_COMPLETE);
        return;
    }
    flush_producer(after);
    transport_.progress_thread().start_when_ready(
        command_of(std::move(operation), std::make_unique<Bridge>(after)), {nullptr, true, polls_});
}

void CommandEnds::submit_now(std::unique_ptr<Operation> operation, cl_int status) {
    transport_.progress_thread().submit(
        command_of(std::move(operation)),
        status < 0 ? Status::failure(status, "a command that this command waits for failed")
                   : Status{});
}

void CommandEnds::wait_for_finishes() {
    for (unsigned open = finishing_; open != 0; open = finishing_) finishing_.wait(open);
}

}  // namespace cldist::cluster
