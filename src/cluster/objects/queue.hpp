#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "cluster/objects/context.hpp"
#include "cluster/objects/ending.hpp"
#include "cluster/objects/user_events.hpp"
#include "cluster/schedule/promise.hpp"
#include "cluster/schedule/schedule.hpp"

namespace cldist::cluster {

/// Promised results (QueuePromises) that have not yet arrived in this process. Null: none.
struct Promise {
    /// Ends when all results are in the program's memory and all transfers from it are complete.
    std::shared_ptr<Ending> landed;
    /// Ends when those results have arrived for which later uses of the program's memory must wait.
    std::shared_ptr<Ending> incoming;
    /// Ends when this process's program has set the earlier user events; fails if one fails.
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

    /// Whether its device belongs to this process.
    [[nodiscard]] bool is_native() const { return static_cast<bool>(native); }
    /// The device's resources, for a queue of this process. Created at the first use.
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
    Space *const space;  ///< of the device; null for a device of another process
    const cl_command_queue_properties properties;
    std::vector<cl_queue_properties> property_list;  ///< as passed
    Queue native;
    QueueId id = unordered;
    /// For a queue of the single virtual device: an internal queue for each member (decision 32).
    std::vector<Ref<QueueObject>> lanes;
    /// This queue, or its lanes, if on devices of this process.
    std::vector<QueueObject *> natives;
    QueueObject *whole = nullptr;           ///< for a lane: the queue that contains it
    std::size_t lane = 0;                   ///< for a lane: its index in `whole->lanes`
    Keeper<QueueObject> *keeper = nullptr;  ///< null unless the device belongs to this process
    /// Whether a command was enqueued since the last clFinish began. Also set without the lock.
    std::atomic<bool> used = false;
    std::shared_ptr<Ending> finished;  ///< ends when the last clFinish ends
    QueuePromises<Promise> promises;   ///< a lane uses those of `whole`
    /// The user events that its commands since the last clFinish wait for. Lanes use `whole`'s.
    QueuePromises<OpenUserEvents> user_events;
    /// The number of commands that added user events, which shows additions during a clFinish.
    unsigned user_events_noted = 0;
    /// Whether the next command would wait for user events even without a wait list. Commands that
    /// some processes leave out do not change it.
    std::atomic<bool> behind_user_events = false;
    [[nodiscard]] QueuePromises<Promise> &promised() {
        return whole != nullptr ? whole->promises : promises;
    }

    /// How the queue orders its next command.
    [[nodiscard]] Ordering ordering_of(cl_command_type type, bool has_wait_list) const {
        if (in_order()) return Ordering::in_order;
        if (type == CL_COMMAND_BARRIER)
            return has_wait_list ? Ordering::barrier : Ordering::barrier_behind_all;
        return type == CL_COMMAND_MARKER && !has_wait_list ? Ordering::behind_all
                                                           : Ordering::unordered;
    }

    /// Out-of-order and with a barrier: later commands wait for more than their wait lists.
    bool has_barrier = false;

private:
    std::shared_ptr<DeviceResources> resources_;
};

}  // namespace cldist::cluster
