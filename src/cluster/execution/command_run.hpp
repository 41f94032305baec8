#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "cluster/execution/enqueued.hpp"
#include "cluster/execution/host_memory_supply.hpp"
#include "cluster/execution/native_waits.hpp"
#include "cluster/objects/event.hpp"
#include "cluster/schedule/schedule.hpp"

namespace cldist::cluster {

class Executor;

/// One command while it is enqueued: prepare(), call(), finish(). Under the lock, which is kept.
class CommandRun {
public:
    /// Both must outlive it.
    CommandRun(Executor &executor, Enqueued &command);

    /// Executes the schedule's decisions, and collects the events that the native command waits
    /// for.
    void prepare();
    /// Enqueues the command natively if its device is here. `native` as in Executor::run().
    template <typename Native>
    void call(bool event_wanted, Native &&native) {
        if (!native_ || fails_) return;
        auto &events = waits_.events();
        const auto count = static_cast<cl_uint>(events.size());
        const bool careful = command_.queue.context->is_careful();
        const auto held = careful ? hold_failures() : FailureLock();
        command_.leaves_lock = decisions_ == nullptr && !careful && command_.queue.whole == nullptr;
        try {
            code_ =
                native(command_, Waits{count, count != 0 ? events.data() : nullptr,
                                       needs_event(event_wanted) ? native_event_.out() : nullptr});
        } catch (const Error &error) {
            code_ = error.status().code;
        }
        if (command_.leaves_lock) before_.reset();  // other commands may have come before this one
    }
    /// Returns the command's event, or throws, as Executor::run() does.
    Ref<EventObject> finish(bool event_wanted);

private:
    void decide();
    void wait_for_promises();
    void settle_waits();
    std::shared_ptr<Ending> find_failure();
    void keep_step(bool failed);
    Promise results_here(bool failed);
    std::shared_ptr<Ending> pass_result(EventObject &event);
    Promise promise(const Promise &own);
    /// The promises of the ends before the command, computed on the first call.
    const Promise &before();

    [[nodiscard]] bool needs_event(bool event_wanted) const;
    /// Whether the result reaches the program's memory after the native command has ended.
    [[nodiscard]] bool lands() const {
        return native_ && command_.result.size > 0 &&
               (command_.staging != nullptr || command_.result.arrived != nullptr);
    }
    /// Whether this process reads bytes that all devices have. Results of other processes may reach
    /// the same memory before or after.
    [[nodiscard]] bool is_read_here() const;
    /// Returns true if a command without a result leaves the promises of the queue's ends as they
    /// are.
    [[nodiscard]] bool adds_nothing() const;

    Executor &executor_;
    Enqueued &command_;
    const Decisions *decisions_ = nullptr;  ///< null if there is nothing to decide
    bool native_ = true;                    ///< its device is this process's
    /// An event that it waits for, or a transfer, has failed already.
    bool fails_ = false;
    cl_int code_ = CL_SUCCESS;  ///< of the native call
    NativeWaits waits_;
    HostMemorySupply::Supply supply_;
    std::optional<Promise> before_;  ///< for before()
    Event native_event_;
    OpenUserEvents user_events_;  ///< the command waits for them
};

}  // namespace cldist::cluster
