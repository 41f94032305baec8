#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "cluster/execution/command_ends.hpp"
#include "cluster/execution/enqueued.hpp"
#include "cluster/execution/steps.hpp"

namespace cldist::cluster {

/// The native events that one command waits for, while it is enqueued. Under the lock.
class NativeWaits {
public:
    explicit NativeWaits(CommandEnds &ends) : ends_(ends) {}
    /// Ends the stand-ins also if the command was not enqueued: other commands may wait for them.
    ~NativeWaits() { settle({}); }
    NativeWaits(const NativeWaits &) = delete;
    NativeWaits &operator=(const NativeWaits &) = delete;

    [[nodiscard]] std::vector<cl_event> &events() { return events_; }
    /// Waits in this space for the end of another command, which is known here.
    void add(EventObject &event, Space &space);
    /// Waits until `ending`, which may be null, has ended in any way.
    void add(const std::shared_ptr<Ending> &ending, Space &space);
    /// Waits for an event, and keeps it until the command has been enqueued.
    void add(Event event);
    /// Replaces all events by a single user event, for PoCL 3.1: see the definition.
    void merge(const Enqueued &command, Steps &steps, bool has_user_events);
    /// The command has been enqueued: the stand-ins may end. Each calls `keep` with its status,
    /// unless `keep` is empty.
    void settle(const std::function<void(cl_int status)> &keep);

private:
    /// A user event that represents an ending in a space without a native event for it.
    struct StandIn {
        std::shared_ptr<Ending> ending;
        Event event;
    };

    CommandEnds &ends_;
    std::vector<cl_event> events_;
    std::vector<Event> kept_;
    std::vector<StandIn> once_enqueued_;
};

}  // namespace cldist::cluster
