#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "cluster/objects/context.hpp"
#include "cluster/objects/ending.hpp"
#include "cluster/objects/user_events.hpp"
#include "cluster/schedule/promise.hpp"
#include "cluster/schedule/schedule.hpp"

namespace cldist::cluster {

/// Promised results that are still on their way in this process. Null means that there are none.
struct Promise {
    /// All are in the program's memory, which may be used otherwise.
    std::shared_ptr<Ending> landed;
    std::shared_ptr<Ending> incoming;  ///< those of other processes' devices are there
    /// When this process's program has set the user events that come before. Fails if it sets one
    /// to a failure.
    std::shared_ptr<Ending> set;
};
inline bool is_open(const Promise &promise) {
    return is_open(promise.landed) || is_open(promise.incoming) || is_open(promise.set);
}
inline bool is_nothing(const Promise &promise) {
    return promise.landed == nullptr && promise.incoming == nullptr && promise.set == nullptr;
}
inline Promise join_promises(const Promise &a, const Promise &b) {
    return {both(a.landed, b.landed), both(a.incoming, b.incoming), both(a.set, b.set)};
}

class QueueObject;

/// Keeps account of this process's queues. Under the lock.
class QueueKeeper {
public:
    /// The queue is about to be freed.
    virtual void forget(QueueObject &queue) = 0;

protected:
    ~QueueKeeper() = default;
};

class QueueObject final : public Object<QueueObject, cl_command_queue, Kind::queue> {
public:
    QueueObject(ContextObject &context_in, DeviceObject &device_in,
                cl_command_queue_properties properties_in)
        : context(&context_in),
          device(&device_in),
          space(device_in.is_aggregate() ? nullptr : context_in.space(device_in.memory)),
          properties(properties_in) {}
    ~QueueObject() {
        if (keeper != nullptr) keeper->forget(*this);
    }

    /// Whether its device is this process's.
    [[nodiscard]] bool is_native() const { return static_cast<bool>(native); }
    /// The device's, for a queue of this process. Created on first use.
    [[nodiscard]] const std::shared_ptr<DeviceResources> &resources() {
        if (resources_ == nullptr) resources_ = space->resources_of(device->native);
        return resources_;
    }
    /// Whether it is a queue of the single virtual device. A lane is not.
    [[nodiscard]] bool is_aggregate() const { return !lanes.empty(); }
    [[nodiscard]] bool in_order() const {
        return (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0;
    }

    const Ref<ContextObject> context;
    const Ref<DeviceObject> device;
    Space *const space;  ///< the device's, or null if it is another process's
    const cl_command_queue_properties properties;
    std::vector<cl_queue_properties> property_list;  ///< as it was given
    Queue native;
    QueueId id = unordered;
    /// An aggregate device's queue has a queue of each member, in the members' order. The program
    /// does not see these (decision 32).
    std::vector<Ref<QueueObject>> lanes;
    std::vector<QueueObject *> own_lanes;  ///< those of this process
    QueueObject *whole = nullptr;          ///< for a lane, the aggregate queue that it belongs to,
    std::size_t lane = 0;                  ///< and its place there
    QueueKeeper *keeper = nullptr;         ///< null unless the queue is this process's
    /// Since the last clFinish began; commands without the lock set it, too.
    std::atomic<bool> used = false;
    std::shared_ptr<Ending> finished;  ///< when that ends
    QueuePromises<Promise> promises;   ///< a lane uses those of `whole`
    /// The user events that its commands wait for, directly or through other commands, since the
    /// last clFinish ended. A lane uses those of `whole`.
    QueuePromises<OpenUserEvents> user_events;
    /// Counts the commands that noted some: whether one did so during a clFinish.
    unsigned user_events_noted = 0;
    /// Whether a command without wait list would wait for some of them, as of the last command that
    /// all processes know.
    std::atomic<bool> behind_user_events = false;
    [[nodiscard]] QueuePromises<Promise> &promised() {
        return whole != nullptr ? whole->promises : promises;
    }

    /// The place of its next command.
    [[nodiscard]] Place place_of(cl_command_type type, bool has_wait_list) const {
        if (in_order()) return Place::in_order;
        if (type == CL_COMMAND_BARRIER)
            return has_wait_list ? Place::barrier : Place::barrier_behind_all;
        return type == CL_COMMAND_MARKER && !has_wait_list ? Place::behind_all : Place::unordered;
    }

    /// Out of order, and had a barrier: later commands wait for more than their wait lists.
    bool has_barrier = false;

private:
    std::shared_ptr<DeviceResources> resources_;
};

}  // namespace cldist::cluster
