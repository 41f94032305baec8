#pragma once

#include <memory>
#include <optional>

#include "cluster/execution/enqueued.hpp"
#include "cluster/execution/host_memory_supply.hpp"
#include "cluster/execution/native_waits.hpp"
#include "cluster/objects/event.hpp"
#include "cluster/schedule/schedule.hpp"

namespace cldist::cluster {

class Executor;

/// Enqueues one command: prepare(), call(), finish(). Under the lock, which only the driver call in
/// call() may release (Enqueued::leaves_lock).
class CommandRun {
public:
    /// `executor` and `command` must outlive this object.
    CommandRun(Executor &executor, Enqueued &command);

    /// Executes the schedule's decisions and collects the native command's wait list.
    void prepare();
    /// Enqueues the command natively if its device is here. `native` as in Executor::run().
    template <typename Native>
    void call(bool event_wanted, Native &&native) {
        if (!native_ || fails_) return;
        const WaitArguments list(waits_.events());
        const bool careful = command_.queue.context->is_careful();
        const auto held = careful ? lock_failures() : FailureLock();
        command_.leaves_lock = !careful && may_leave_lock();
        try {
            code_ =
                native(command_, Waits{list.count, list.events,
                                       needs_event(event_wanted) ? native_event_.out() : nullptr});
        } catch (const Error &error) {
            code_ = error.status().code;
        }
        if (command_.leaves_lock) before_.reset();  // other threads may have enqueued commands
    }
    /// Returns the command's event, or throws, as Executor::run() does.
    Ref<EventObject> finish(bool event_wanted);

private:
    void decide();
    void look_for_missing_bytes(bool keeps_what_it_overwrites);
    void wait_for_promises();
    void keep_place();
    void settle_waits();
    cl_int find_failure();
    void keep_step(bool failed);
    Promise results_here(bool failed);
    std::shared_ptr<Ending> pass_result(EventObject &event, cl_int failure);
    Promise promise(const Promise &own);
    /// The promises of the earlier commands' and wait list's ends; computed on the first call.
    const Promise &before();

    [[nodiscard]] bool may_leave_lock() const;
    [[nodiscard]] bool needs_event(bool event_wanted) const;
    /// Whether the result reaches the program's memory after the native command has ended.
    [[nodiscard]] bool lands() const {
        return native_ && command_.result.size > 0 &&
               (command_.staging != nullptr || command_.result.arrived != nullptr);
    }
    /// Whether a lane uses the program's memory after the call. Other lanes and results of other
    /// processes may use the same memory before or after.
    [[nodiscard]] bool uses_host_memory_on_lane() const;
    /// Whether the command adds nothing to the promises of its queue, apart from its own result.
    [[nodiscard]] bool adds_nothing() const;

    Executor &executor_;
    Enqueued &command_;
    const Decisions *decisions_ = nullptr;  ///< null if there is nothing to decide
    bool native_ = true;                    ///< the command's device is in this process
    /// An event that the command waits for has failed already, or its device lacks bytes.
    bool fails_ = false;
    cl_int code_ = CL_SUCCESS;  ///< the native call's error code
    NativeWaits waits_;
    HostMemorySupply::Supply supply_;
    std::optional<Promise> before_;  ///< the result of before()
    Event native_event_;
    OpenUserEvents user_events_;  ///< the command waits for them
};

}  // namespace cldist::cluster
