#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "cluster/objects/queue.hpp"

namespace cldist::cluster {

/// Keeps the program from being too far ahead of the devices of this process. Under the lock.
class Throttle {
public:
    /// Counts a command of a queue of this process.
    void count(const QueueObject &queue) { ++queues_[&queue].since_marker; }
    /// Returns markers to wait for before the next command of the queue is enqueued, if the program
    /// is far ahead of the device.
    std::vector<Event> markers_to_wait_for(QueueObject &queue);
    /// The queue is about to be freed.
    void forget(const QueueObject &queue) { queues_.erase(&queue); }

private:
    struct Ahead {
        unsigned since_marker = 0;     // commands after the last marker
        std::deque<Event> milestones;  // markers that the program has not waited for, oldest first
    };

    Event marker_to_wait_for(QueueObject &queue);

    std::unordered_map<const QueueObject *, Ahead> queues_;
};

}  // namespace cldist::cluster
