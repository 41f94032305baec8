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
    /// Settles the proxies even if the command was not enqueued: other commands may use them.
    ~NativeWaits() { settle({}); }
    NativeWaits(const NativeWaits &) = delete;
    NativeWaits &operator=(const NativeWaits &) = delete;

    [[nodiscard]] std::vector<cl_event> &events() { return events_; }
    /// Adds the event of another command, or a proxy if that has no native event in `space`.
    /// Requires event.known_here().
    void add(EventObject &event, Space &space);
    /// Adds a user event that succeeds when `ending`, which may be null, has ended in any way.
    void add(const std::shared_ptr<Ending> &ending, Space &space);
    /// Adds an event and keeps it until the command has been enqueued.
    void add(Event event);
    /// Replaces all events by a single user event, if necessary
    /// (Quirks::loses_commands_behind_failures).
    void merge(const Enqueued &command, Steps &steps, bool has_user_events);
    /// Call it when the command has been enqueued: lets the proxies end. At its end, each calls
    /// `keep` with its status, unless `keep` is empty.
    void settle(const std::function<void(cl_int status)> &keep);

private:
    /// A user event that represents an ending in a space without a native event for it.
    struct Proxy {
        std::shared_ptr<Ending> ending;
        Event event;
    };

    CommandEnds &ends_;
    std::vector<cl_event> events_;
    std::vector<Event> kept_;
    std::vector<Proxy> once_enqueued_;
};

}  // namespace cldist::cluster
