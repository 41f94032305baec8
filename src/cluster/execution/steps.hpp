#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cluster/objects/queue.hpp"

namespace cldist::cluster {

/// The steps that this process has enqueued natively and that may still run, so that later steps
/// can wait for them. Under the lock.
///
/// A step may fail before the steps that it waited for have ended. A later step that waits for the
/// failed step then also waits for those.
///
/// If the schedule, and not the program, orders a step after another step that may still fail, the
/// later step must not fail with the earlier step. It waits for a guard instead: a user event that
/// succeeds when the earlier step and all steps that it waited for have ended.
///
/// A command on an in-order queue has no native event unless one is requested. If a later step
/// needs one, a marker enqueued after the command replaces it. This suffices, because the program
/// can order something after the command only through a later event or clFinish.
class Steps {
public:
    /// When `native` ends, ends `ending` with its status.
    using EndWith = std::function<void(cl_event native, std::shared_ptr<Ending> ending)>;

    explicit Steps(EndWith end_with) : end_with_(std::move(end_with)) {}

    /// The steps that a step waited for.
    struct Order {
        std::vector<Step> after;
        CommandId previous = 0;  ///< the command before it on its in-order queue; 0 if none
        bool may_fail = false;   ///< the step may fail because of a user event or another command
    };

    /// Adds an enqueued step, in the order of commands. A copy between two spaces is added once for
    /// each space, with an event there.
    void add(Step step, Space &space, Event event, Order order);
    /// Adds a command without an event. It must be the last command of its in-order queue.
    void add(Step step, QueueObject &queue, Order order);
    /// Adds a step that failed before it was enqueued.
    void add_failed(Step step, Space &space, Order order);

    /// The last command of an in-order queue; 0 if there is none.
    [[nodiscard]] CommandId last(const QueueObject &queue) const;
    /// Makes a command the last one of an in-order queue. Returns the previous last one.
    CommandId set_last(QueueObject &queue, CommandId command);
    /// Records that the in-order queue's commands up to this one have succeeded.
    void note_success(QueueObject &queue, CommandId command);

    /// Call it before a command that may fail is enqueued on an in-order queue. Enqueues a marker
    /// if later steps need it to wait for the earlier commands without this one. If the last
    /// command has failed, the queue's order is not enough: sleeps for settling_time if necessary,
    /// and appends events for the steps that the failed command waited for.
    void add_waits_in(QueueObject &queue, Space &space, std::vector<cl_event> &waits);
    /// Appends the events that add_waits() appends for the queue's last command.
    void add_last(const QueueObject &queue, Space &space, std::vector<cl_event> &waits);

    /// Appends events for a command in `space`, which succeed when the steps have ended there.
    void add_waits(std::span<const Step> steps, Space &space, std::vector<cl_event> &waits);

    /// Removes steps that have ended. Returns a command before which all steps have ended.
    CommandId forget_ended();
    /// The queue is about to be freed. Its open commands without an event get that of a marker.
    void forget_queue(QueueObject &queue);
    /// The space is about to be freed. No later step will wait for its steps.
    void forget_space(const Space &space);
    /// Returns one event for each step that has not ended, in the order of steps.
    [[nodiscard]] std::vector<Event> rest();

private:
    enum class State { open, ended_well, failed };
    /// The commands of one in-order queue.
    struct InOrder {
        using Marker = std::pair<CommandId, Event>;

        QueueObject *queue = nullptr;
        CommandId last = 0;          // the last one enqueued
        CommandId bare = 0;          // the last one without an event
        CommandId ended = 0;         // up to here, all have succeeded or have Entry::failed
        CommandId settled = 0;       // the failed one for which let_failure_settle() waited
        std::deque<Marker> markers;  // each with the last command before it

        [[nodiscard]] std::deque<Marker>::const_iterator marker_at_or_behind(
            CommandId command) const;
        cl_event marker_behind(CommandId command);
        /// Requires that the last command has failed.
        void let_failure_settle();
    };
    struct Entry {
        Step step;
        Space *space;
        InOrder *queue;  // if there is no event: its markers replace the event
        Event event;
        Order order;
        bool failed = false;           // known without an event of the step
        std::shared_ptr<Ending> over;  // ends after the step and all that it waited for
        Event guard;                   // succeeds when `over` ends
        unsigned seen = 0;             // round_ of the last traversal that visited it
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
    CommandId over_ = 1;         // all steps of earlier commands have ended
    unsigned round_ = 0;         // the current traversal
    std::vector<Step> guarded_;  // used in add_waits()
    std::vector<Step> open_;     // used in for_each_open(); a member to reuse its memory
};

}  // namespace cldist::cluster
