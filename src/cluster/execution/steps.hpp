#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cluster/objects/queue.hpp"
#include "cluster/schedule/schedule.hpp"

namespace cldist::cluster {

/// The steps that this process has enqueued natively and that may not have ended. Later steps wait
/// for them. Under the lock.
///
/// A step may fail before the steps end that it waited for. Then a step that waits for it waits for
/// these, too. A step that must wait for another step that may still fail, without having it in its
/// wait list, waits for a guard. The guard succeeds when that step and all steps that it waited for
/// have ended.
///
/// A command on an in-order queue has no event if the program did not request it. If an event is
/// needed later, a marker after the command serves. The program can order something after the
/// command only by a later event or by clFinish.
class Steps {
public:
    /// Has an Ending end as the native event does.
    using EndWith = std::function<void(cl_event native, std::shared_ptr<Ending> ending)>;

    explicit Steps(EndWith end_with) : end_with_(std::move(end_with)) {}

    /// Whom a step waited for, and whether it may fail because of a user event.
    struct Order {
        std::vector<Step> after;
        CommandId previous = 0;  ///< of its in-order queue; 0 if there is none
        bool may_fail = false;
    };

    /// Steps come in the order of commands; a copy between two spaces has an event in each.
    void add(Step step, Space &space, Event event, Order order);
    /// A command without an event, the last one of its in-order queue.
    void add(Step step, QueueObject &queue, Order order);
    /// One that failed before it was enqueued.
    void add_failed(Step step, Space &space, Order order);

    /// The last command of an in-order queue; 0 if there is none.
    [[nodiscard]] CommandId last(const QueueObject &queue) const;
    /// Makes a command the last one of an in-order queue. Returns the last one before.
    CommandId set_last(QueueObject &queue, CommandId command);
    /// The in-order queue's commands up to this one have succeeded.
    void note_success(QueueObject &queue, CommandId command);

    /// Before a command that may fail: others can wait for what is before it in its in-order queue
    /// without it. Where the last command failed, the queue's own order is not enough: appends what
    /// that one waited for.
    void add_waits_in(QueueObject &queue, Space &space, std::vector<cl_event> &waits);
    /// Appends what the queue's last command ends with.
    void add_last(const QueueObject &queue, Space &space, std::vector<cl_event> &waits);

    /// Appends events that succeed when they have ended, for commands in `space`.
    void add_waits(std::span<const Step> steps, Space &space, std::vector<cl_event> &waits);

    /// Forgets what has ended; all before the command that it returns have.
    CommandId forget_ended();
    /// The queue is about to be gone.
    void forget_queue(QueueObject &queue);
    /// So is the space: nobody will wait for what was enqueued there.
    void forget_space(const Space &space);
    /// One event each for all that has not ended, in order.
    [[nodiscard]] std::vector<Event> rest();

private:
    enum class State { open, ended_well, failed };
    /// The commands of one in-order queue.
    struct InOrder {
        using Marker = std::pair<CommandId, Event>;

        QueueObject *queue = nullptr;
        CommandId last = 0;          // enqueued
        CommandId bare = 0;          // the last one without an event
        CommandId ended = 0;         // all up to this one have succeeded
        CommandId settled = 0;       // the last one whose failure was waited out
        std::deque<Marker> markers;  // each behind its command

        [[nodiscard]] std::deque<Marker>::const_iterator marker_at_or_behind(
            CommandId command) const;
        cl_event marker_behind(CommandId command);
        /// Requires that the last command has failed.
        void let_failure_settle();
    };
    struct Entry {
        Step step;
        Space *space;
        InOrder *queue;  // whose marker serves, if there is no event
        Event event;
        Order order;
        bool failed = false;           // though no event says so
        std::shared_ptr<Ending> over;  // the step and all that it waited for
        Event guard;                   // succeeds then
        unsigned seen = 0;             // in for_each_open()
    };

    void insert(Entry entry);
    [[nodiscard]] std::deque<Entry>::iterator first_of(Step step);
    [[nodiscard]] static State state_of(const Entry &entry);
    /// Calls `use` for each open entry among `steps` and, if a step has failed, among the steps
    /// that it waited for.
    template <typename Use>
    void for_each_open(std::span<const Step> steps, Use &&use);
    [[nodiscard]] bool is_over(const Entry &entry);
    [[nodiscard]] static cl_event event_of(const Entry &entry);
    cl_event guard_of(Entry &entry);
    void make_over(Entry &entry);
    void settle_markers(InOrder &queue);
    InOrder &in_order(QueueObject &queue);

    const EndWith end_with_;
    std::unordered_map<const QueueObject *, InOrder> queues_;
    std::deque<Entry> entries_;
    CommandId over_ = 1;
    unsigned round_ = 0;
    std::vector<Step> guarded_;  // of add_waits()
    std::vector<Step> open_;     // of for_each_open(); kept for its memory
};

}  // namespace cldist::cluster
