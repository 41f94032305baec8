// Every process runs the program. If the program queries an event whose state only one process
// knows, the processes wait for each other, so that all see the same state.
#include <map>
#include <numeric>
#include <thread>

#include "base/clock.hpp"
#include "cluster/api/enqueueing.hpp"
#include "cluster/api/guard.hpp"
#include "cluster/api/host_mode.hpp"
#include "cluster/world/exchange.hpp"

namespace cldist::cluster {
namespace {

// Returns the value of the process of the event's device. In other processes, `mine` is the answer
// if that process is absent.
template <typename T>
T told_by_owner(const EventObject &event, T mine) {
    const Blob told = Exchange().from(owner_of(event), Packer().put(mine).take());
    return Unpacker(told).get<T>();
}

/// Like status_here(), but without the lock: another thread may set `agreed` meanwhile.
cl_int status_without_lock(const EventObject &event) {
    return std::visit([](auto &kind) { return kind.status(); }, event.state);
}

/// Returns the status of the sub-range that is furthest from its end, among all processes. If all
/// have ended, returns the command's final status.
cl_int status_of_parts(const EventObject &event) {
    // Encodes the status so that the minimum over all processes is the result: states of open
    // sub-ranges are below all final ones.
    constexpr cl_int open = -(1 << 30);
    const cl_int here = event.status_here();
    const cl_int least = Exchange().least(here > CL_COMPLETE ? open - here : here);
    return least < open ? open - least : least;
}

/// Returns the times of the longest sub-range of all processes; zeros if one has not ended.
Times times_of_parts(const EventObject &event, const Times &here) {
    std::vector<Process> processes(World::get().agreement().processes());
    std::iota(processes.begin(), processes.end(), Process{0});
    const Blob mine = Packer().put(event.status_here() == CL_COMPLETE).put(here).take();
    Times longest{};
    bool all = true;
    for (const Blob &blob : Exchange().of(processes, [&](Process) { return mine; })) {
        Unpacker unpacker(blob);
        all = unpacker.get<bool>() && all;
        longest = longer(longest, unpacker.get<Times>());
    }
    return all ? longest : Times{};
}

/// Whether all processes must make this call.
bool is_compared(const CallArguments &arguments) {
    if (arguments.call.comparison == Comparison::outside_callbacks) return !in_callback();
    if (arguments.call.comparison != Comparison::by_creator) return true;
    const EventObject *const event = EventObject::from(arguments.as<cl_event>(0));
    return event == nullptr || event->creator == std::this_thread::get_id();
}

class ReplicatedMode final : public HostMode {
public:
    bool orders_calls() const override { return false; }
    void note_call(const CallArguments &arguments) const override {
        if (arguments.call.comparison == Comparison::never || !is_compared(arguments)) return;
        // Waits until the call before it is decided.
        World &world = World::get();
        const bool waits = call_is_undecided && !world.alone() && !in_callback();
        if (waits) world.calls().look_for_overlap();
        while (waits && call_is_undecided) {
            const Unlocked unlocked;
            call_is_undecided.wait(true);
        }
        record(arguments);
    }

    // Afterwards all processes know the final statuses and agree on them. If several threads wait
    // for one event, the first one exchanges it with other processes.
    std::optional<cl_int> wait(const CallHash &call,
                               std::span<const Ref<EventObject>> events) const override {
        const Agreement &agreement = World::get().agreement();
        std::map<Process, std::vector<EventObject *>> open;  // by owner
        std::vector<EventObject *> joint;
        for (const auto &event : events) {
            flush_queues_of(*event);
            if (event->is_user() || event->agreed || event->agreeing != nullptr) continue;
            event->agreeing = std::make_shared<Ending>();
            if (event->is_joint())
                joint.push_back(event.get());
            else
                open[owner_of(*event)].push_back(event.get());
        }
        {
            const Unlocked unlocked;
            for (EventObject *const event : joint) drive_results(*event);
            for (const auto &event : events)
                if (event->known_here()) event->wait_here();
            for (const auto &[owner, theirs] : open) {
                Packer ends;
                for (const EventObject *const event : theirs)
                    ends.put(event->known_here() ? status_without_lock(*event) : CL_COMPLETE);
                const Blob told = agreement.from(call, owner, ends.take());
                Unpacker unpacker(told);
                for (EventObject *const event : theirs)
                    event->agreeing->set(unpacker.get<cl_int>());
            }
            for (EventObject *const event : joint) {
                const cl_int here = status_without_lock(*event);
                event->agreeing->set(event->scheduled.told_all || agreement.alone()
                                         ? here
                                         : agreement.least(call, here));
            }
            for (const auto &event : events) {
                if (event->agreeing != nullptr) event->agreeing->wait();
                wait_for_promise(
                    *event, event->agreeing != nullptr ? event->agreeing->status() : CL_COMPLETE);
            }
        }
        for (const auto &event : events)
            if (event->agreeing != nullptr) event->agreed = event->agreeing->status();
        return first_failure_of(events);
    }

    bool gets_result(const EventObject &event) const override {
        return event.scheduled.told_all || World::get().alone();
    }

    // The current status, the same in all processes. A user event that is not yet set in all
    // processes is open. If another thread asks other processes for the final status, waits for its
    // answer, which may already be here in some processes only.
    cl_int status(EventObject &event) const override {
        if (in_callback()) return event.visible_status();
        if (!event.agreed && event.agreeing != nullptr) {
            const Unlocked unlocked;
            return event.agreeing->wait();
        }
        if (event.agreed) return *event.agreed;
        if (event.is_user()) {
            const cl_int latest = -Exchange().least(-event.status_here());
            if (latest <= CL_COMPLETE) event.agreed = latest;
            return latest;
        }
        const auto status =
            event.is_joint()
                ? status_of_parts(event)
                : told_by_owner(event, is_mine(event) ? event.status_here() : CL_COMPLETE);
        if (status > CL_COMPLETE) return status;
        event.agreeing = std::make_shared<Ending>();
        if (status == CL_COMPLETE) {
            const Unlocked unlocked;
            wait_for_promise(event, status);
        }
        event.agreeing->set(status);
        event.agreed = status;
        return status;
    }

    Times times(EventObject &event) const override {
        if (event.times) return *event.times;
        Times times{};
        if (event.known_here() && event.visible_status() == CL_COMPLETE) times = event.times_here();
        if (in_callback()) return times;
        if (event.is_joint()) {
            times = times_of_parts(event, times);
        } else {
            if (!is_mine(event)) times.fill(now_ns());
            times = told_by_owner(event, times);
        }
        if (times.back() != 0) event.times = times;
        return times;
    }

    // Returns when the queue is empty in its device's process and its results have arrived here.
    void finish(const Ref<QueueObject> &queue) const override {
        const auto finished = queue->finished = std::make_shared<Ending>();
        const auto landed = queue->promises.all.landed;
        Steps &steps = executor().steps();
        std::vector<CommandId> last;
        for (const QueueObject *const each : queue->natives) last.push_back(steps.last(*each));
        const CallHash call = World::get().calls().last();
        {
            const Unlocked unlocked;
            for (const QueueObject *const each : queue->natives) clFinish(each->native.get());
            if (queue->is_aggregate())
                World::get().agreement().least(call, CL_SUCCESS);
            else
                World::get().agreement().from(call, queue->device->process, {});
            if (landed != nullptr) landed->wait();
            World::get().confirm_calls();
            finished->set(CL_COMPLETE);
        }
        if (queue->context->failed) return;
        for (std::size_t i = 0; i < last.size(); ++i)
            steps.note_success(*queue->natives[i], last[i]);
    }

    void tell_end(EventObject &event) const override { executor().ends().tell_all(event); }
    bool others_may_be_ahead() const override { return !executor().alone(); }

    const DeviceObject *first_holder(const ContextObject &) const override { return nullptr; }
    GivenContents given_contents(const ContextObject &, cl_mem_flags flags, void *host_ptr,
                                 std::size_t) const override {
        return {flags, host_ptr, host_ptr, host_ptr != nullptr};
    }
    bool keeps_results(const QueueObject &) const override { return executor().alone(); }
    void give_memory(QueueObject &queue, MemObject &object, Mapped &mapped) const override {
        executor().memory().give_memory(queue, object, mapped);
    }
};

}  // namespace

const HostMode &replicated_mode() {
    static const ReplicatedMode mode;
    return mode;
}

}  // namespace cldist::cluster
