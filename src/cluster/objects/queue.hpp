#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "cluster/objects/context.hpp"
#include "cluster/objects/ending.hpp"
#include "cluster/objects/user_events.hpp"
#include "cluster/schedule/promise.hpp"
#include "cluster/schedule/schedule.hpp"

namespace cldist::cluster {

/// Results that are promised, as far as they are still on their way. In this process; null if none is.
struct Promise {
    std::shared_ptr<Ending> landed;    ///< all are in the program's memory, which may be used otherwise
    std::shared_ptr<Ending> incoming;  ///< those of other processes' devices are there
    /// When this process's program has set the user events that come before. Fails if it sets one to a failure.
    std::shared_ptr<Ending> set;
};
inline Promise join_promises(const Promise &a, const Promise &b) {
    return {both(a.landed, b.landed), both(a.incoming, b.incoming), both(a.set, b.set)};
}

class QueueObject;

/// Who keeps account of this process's queues. Under the lock.
class QueueKeeper {
public:
    /// The queue is about to be gone.
    virtual void forget(QueueObject &queue) = 0;

protected:
    ~QueueKeeper() = default;
};

class QueueObject final : public Object<QueueObject, cl_command_queue, Kind::queue> {
public:
    QueueObject(ContextObject &context_in, DeviceObject &device_in, cl_command_queue_properties properties_in)
        : context(&context_in),
          device(&device_in),
          space(device_in.is_aggregate() ? nullptr : context_in.space(device_in.memory)),
          properties(properties_in) {}
    ~QueueObject() {
        if (keeper != nullptr) keeper->forget(*this);
    }

    /// Whether its device is this process's.
    [[nodiscard]] bool is_native() const { return static_cast<bool>(native); }
    /// Its device's, of a queue of this process. Made on first use.
    [[nodiscard]] const std::shared_ptr<DeviceResources> &resources() {
        if (resources_ == nullptr) resources_ = space->resources_of(device->native);
        return resources_;
    }
    /// Of the program's; a lane is none.
    [[nodiscard]] bool is_aggregate() const { return !lanes.empty(); }
    [[nodiscard]] bool in_order() const { return (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0; }

    const Ref<ContextObject> context;
    const Ref<DeviceObject> device;
    Space *const space;  ///< the device's, or null if it is another process's
    const cl_command_queue_properties properties;
    std::vector<cl_queue_properties> property_list;  ///< as it was given
    Queue native;
    QueueId id = unordered;
    /// Of an aggregate device's queue: a queue of each member, in their order, of which the program does not know (decision 32).
    std::vector<Ref<QueueObject>> lanes;
    std::vector<QueueObject *> own_lanes;  ///< those of this process
    QueueObject *whole = nullptr;          ///< of a lane: the queue that it is one of,
    std::size_t lane = 0;                  ///< and its place there
    QueueKeeper *keeper = nullptr;         ///< of a queue of this process
    std::atomic<bool> used = false;        ///< since the last clFinish began; commands without the lock set it, too
    std::shared_ptr<Ending> finished;      ///< when that ends
    QueuePromises<Promise> promises;       ///< of a lane those of `whole` count
    /// Those that its commands wait for, perhaps through others, since the last clFinish ended; of a lane those of `whole` count.
    QueuePromises<OpenUserEvents> user_events;
    unsigned user_events_noted = 0;  ///< by so many commands so far: whether one came during a clFinish
    /// Whether a command without wait list would have waited for some, when the last one was enqueued of which all processes know.
    std::atomic<bool> behind_user_events = false;
    [[nodiscard]] QueuePromises<Promise> &promised() { return whole != nullptr ? whole->promises : promises; }

    /// How its next command stands in it.
    [[nodiscard]] Place place_of(cl_command_type type, bool has_wait_list) const {
        if (in_order()) return Place::in_order;
        if (type == CL_COMMAND_BARRIER) return has_wait_list ? Place::barrier : Place::barrier_behind_all;
        return type == CL_COMMAND_MARKER && !has_wait_list ? Place::behind_all : Place::unordered;
    }

    // Of a queue of this process, for Executor::keep_back():
    unsigned since_marker = 0;     ///< commands
    std::deque<Event> milestones;  ///< markers, each so many commands behind the one before

    bool has_barrier = false;  ///< out of order, and had a barrier: later commands wait for more than their wait lists

    // Of an in-order queue of this process, for Steps:
    CommandId last = 0;                               ///< enqueued
    CommandId bare = 0;                               ///< the last one without an event
    CommandId ended = 0;                              ///< all up to this one have
    CommandId settled = 0;                            ///< the last one whose failure was waited out
    std::deque<std::pair<CommandId, Event>> markers;  ///< each behind that command

private:
    std::shared_ptr<DeviceResources> resources_;
};

}  // namespace cldist::cluster
