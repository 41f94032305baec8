#pragma once

#include <deque>
#include <span>
#include <vector>

#include "cluster/queue.hpp"
#include "cluster/schedule.hpp"

namespace cldist::cluster {

/// What was enqueued natively in this process and may not have ended: how later steps wait for it. Under the lock.
///
/// Of a command on an in-order queue whose event the program did not ask for there is none: a marker behind it serves,
/// if ever one is needed. The program can't have ordered anything behind the command but by a later event or clFinish.
class Steps {
public:
    /// Steps come in the order of commands; a copy between two spaces has an event in each.
    void add(Step step, Space &space, cldist::Event event);
    void add(Step step, QueueObject &queue);

    /// Appends what ends when they have ended, for commands in `space`. What has failed is over, too: a wait list says what
    /// must succeed, and PoCL 3.1 never ends what waits for an event that failed before.
    void add_waits(std::span<const Step> steps, Space &space, std::vector<cl_event> &waits);

    /// Forgets what has ended; all before the command that it returns have.
    CommandId forget_ended();
    /// The queue is about to be gone.
    void forget_queue(QueueObject &queue);
    /// One event each for all that has not ended, in order.
    [[nodiscard]] std::vector<cldist::Event> rest();

private:
    struct Entry {
        Step step;
        Space *space;
        QueueObject *queue;  // whose marker serves, if there is no event
        cldist::Event event;
    };

    void insert(Entry entry);
    /// Well or not.
    [[nodiscard]] static bool has_ended(const Entry &entry);
    [[nodiscard]] static cl_event event_of(const Entry &entry);

    std::deque<Entry> entries_;
    CommandId over_ = 1;
};

}  // namespace cldist::cluster
