#include "cluster/execution/steps.hpp"

#include <algorithm>
#include <thread>

#include "cluster/objects/context.hpp"
#include "cluster/objects/event.hpp"
#include "events/bridge.hpp"
#include "ocl/query.hpp"
#include "ocl/quirks.hpp"

namespace cldist::cluster {
namespace {

// If there are more entries, forget_ended() enqueues a marker for a first entry without an event.
constexpr std::size_t most_entries = 4096;

}  // namespace

std::deque<Steps::InOrder::Marker>::const_iterator Steps::InOrder::marker_at_or_behind(
    CommandId command) const {
    return std::ranges::lower_bound(markers, command, {}, &Marker::first);
}

cl_event Steps::InOrder::marker_behind(CommandId command) {
    const auto at = marker_at_or_behind(command);
    if (at != markers.end()) return at->second.get();
    Event event;
    check(clEnqueueMarkerWithWaitList(queue->native.get(), 0, nullptr, event.out()),
          "clEnqueueMarkerWithWaitList");
    markers.emplace_back(last, std::move(event));
    return markers.back().second.get();
}

void Steps::InOrder::let_failure_settle() {
    if (settled == last || queue->space->resources()->is_cpu()) return;
    settled = last;
    std::this_thread::sleep_for(settling_time);
}

Steps::InOrder &Steps::in_order(QueueObject &queue) {
    InOrder &commands = queues_[&queue];
    commands.queue = &queue;
    return commands;
}

CommandId Steps::last(const QueueObject &queue) const {
    const auto at = queues_.find(&queue);
    return at != queues_.end() ? at->second.last : 0;
}

CommandId Steps::set_last(QueueObject &queue, CommandId command) {
    return std::exchange(in_order(queue).last, command);
}

void Steps::note_success(QueueObject &queue, CommandId command) {
    if (command == 0) return;
    InOrder &commands = in_order(queue);
    commands.ended = std::max(commands.ended, command);
}

// A command is added after its transfers, but sorts before them as part 0.
void Steps::insert(Entry entry) {
    auto at = entries_.end();
    while (at != entries_.begin() && entry.step < std::prev(at)->step) --at;
    entries_.insert(at, std::move(entry));
}

void Steps::add(Step step, Space &space, Event event, Order order) {
    insert({step, &space, nullptr, std::move(event), std::move(order), false, {}, {}, 0});
}

void Steps::add(Step step, QueueObject &queue, Order order) {
    InOrder &commands = in_order(queue);
    commands.bare = step.command;
    insert({step, queue.space, &commands, {}, std::move(order), false, {}, {}, 0});
}

void Steps::add_failed(Step step, Space &space, Order order) {
    insert({step, &space, nullptr, {}, std::move(order), true, {}, {}, 0});
}

void Steps::add_waits_in(QueueObject &queue, Space &space, std::vector<cl_event> &waits) {
    InOrder &commands = in_order(queue);
    const Step last{commands.last, 0};
    const auto at = first_of(last);
    const bool failed = at != entries_.end() && at->step == last && state_of(*at) == State::failed;
    if (failed && !at->failed) commands.let_failure_settle();
    if (commands.bare > commands.ended) static_cast<void>(commands.marker_behind(commands.bare));
    if (failed) add_waits({&last, 1}, space, waits);
}

void Steps::add_last(const QueueObject &queue, Space &space, std::vector<cl_event> &waits) {
    const Step before{last(queue), 0};
    add_waits({&before, 1}, space, waits);
}

std::deque<Steps::Entry>::iterator Steps::first_of(Step step) {
    return std::ranges::lower_bound(entries_, step, {}, &Entry::step);
}

Steps::State Steps::state_of(const Entry &entry) {
    if (entry.failed) return State::failed;
    cl_int status = CL_QUEUED;
    if (entry.event) {
        status = execution_status(entry.event.get());
    } else {
        if (entry.step.command <= entry.queue->ended) return State::ended_well;
        const auto marker = entry.queue->marker_at_or_behind(entry.step.command);
        if (marker != entry.queue->markers.end()) status = execution_status(marker->second.get());
    }
    return status > CL_COMPLETE    ? State::open
           : status == CL_COMPLETE ? State::ended_well
                                   : State::failed;
}

template <typename Use>
void Steps::for_each_open(std::span<const Step> steps, Use &&use) {
    ++round_;
    open_.assign(steps.begin(), steps.end());
    while (!open_.empty()) {
        const Step step = open_.back();
        open_.pop_back();
        for (auto at = first_of(step); at != entries_.end() && at->step == step; ++at) {
            if (std::exchange(at->seen, round_) == round_) continue;
            const State state = state_of(*at);
            if (state == State::open) use(*at);
            if (state != State::failed) continue;
            open_.insert(open_.end(), at->order.after.begin(), at->order.after.end());
            if (at->order.previous != 0) open_.push_back({at->order.previous, 0});
        }
    }
}

bool Steps::is_over(const Entry &entry) {
    const State state = state_of(entry);
    if (state != State::failed) return state == State::ended_well;
    bool over = true;
    for_each_open({&entry.step, 1}, [&](const Entry &) { over = false; });
    return over;
}

cl_event Steps::event_of(const Entry &entry) {
    return entry.event ? entry.event.get() : entry.queue->marker_behind(entry.step.command);
}

// Sets `over` of the entry and of the steps that it waited for, directly or through others. Goes
// from the earliest to the latest instead of recursing, because chains may be long.
void Steps::make_over(Entry &entry) {
    std::vector<Entry *> wanted{&entry};
    std::vector<Step> steps;
    ++round_;
    entry.seen = round_;
    const auto for_each_before = [&](const Entry &of, auto &&use) {
        steps = of.order.after;
        if (of.order.previous != 0) steps.push_back({of.order.previous, 0});
        for (const Step &step : steps)
            for (auto at = first_of(step); at != entries_.end() && at->step == step; ++at) use(*at);
    };
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        for_each_before(*wanted[i], [&](Entry &before) {
            if (std::exchange(before.seen, round_) != round_ && before.over == nullptr &&
                state_of(before) != State::ended_well)
                wanted.push_back(&before);
        });
    }
    std::ranges::sort(wanted, [](const Entry *a, const Entry *b) {
        // A command waits for its transfers.
        return a->step.command != b->step.command ? a->step.command < b->step.command
                                                  : a->step.part > b->step.part;
    });
    for (Entry *const each : wanted) {
        auto over = std::make_shared<Ending>();
        if (state_of(*each) == State::open)
            end_with_(event_of(*each), over);
        else
            over->set(CL_COMPLETE);
        for_each_before(*each, [&](const Entry &before) { over = both(over, before.over); });
        each->over = over != nullptr ? std::move(over) : ended(CL_COMPLETE);
    }
}

cl_event Steps::guard_of(Entry &entry) {
    if (entry.guard) return entry.guard.get();
    make_over(entry);
    entry.guard = cluster::event_of(entry.over, *entry.space);
    return entry.guard.get();
}

void Steps::add_waits(std::span<const Step> steps, Space &space, std::vector<cl_event> &waits) {
    const auto before = static_cast<std::ptrdiff_t>(waits.size());
    for_each_open(steps, [&](Entry &entry) {
        if (entry.space != &space) return;
        // guard_of() would disturb the traversal, so guards are made after it.
        const cl_event event = entry.order.may_fail ? nullptr : event_of(entry);
        if (event == nullptr)
            guarded_.push_back(entry.step);
        else
            waits.push_back(event);
    });
    // Several steps may share a marker.
    if (waits.end() - waits.begin() > before + 1) {
        std::sort(waits.begin() + before, waits.end());
        waits.erase(std::unique(waits.begin() + before, waits.end()), waits.end());
    }
    for (const Step &step : std::exchange(guarded_, {}))
        for (auto at = first_of(step); at != entries_.end() && at->step == step; ++at)
            if (const cl_event guard = at->space == &space ? guard_of(*at) : nullptr;
                guard != nullptr)
                waits.push_back(guard);
}

// Removes markers that have ended. If a marker failed, all commands that it covers count as failed.
void Steps::settle_markers(InOrder &queue) {
    while (!queue.markers.empty()) {
        const cl_int status = execution_status(queue.markers.front().second.get());
        const CommandId last = queue.markers.front().first;
        if (status > CL_COMPLETE) return;
        if (status < 0) {
            for (auto at = first_of({queue.ended + 1, 0});
                 at != entries_.end() && at->step.command <= last; ++at)
                if (!at->event && at->queue == &queue) at->failed = true;
        }
        queue.ended = std::max(queue.ended, last);
        queue.markers.pop_front();
    }
}

CommandId Steps::forget_ended() {
    if (entries_.size() > most_entries && !entries_.front().event && !entries_.front().failed &&
        state_of(entries_.front()) == State::open)
        static_cast<void>(event_of(entries_.front()));
    while (!entries_.empty()) {
        if (InOrder *const queue = entries_.front().queue; queue != nullptr) settle_markers(*queue);
        if (!is_over(entries_.front())) break;
        const CommandId command = entries_.front().step.command;
        entries_.pop_front();
        // The command may have more steps.
        if (entries_.empty() || entries_.front().step.command != command) over_ = command + 1;
    }
    if (!entries_.empty()) over_ = std::max(over_, entries_.front().step.command);
    return over_;
}

void Steps::forget_queue(QueueObject &queue) {
    const auto at = queues_.find(&queue);
    if (at == queues_.end()) return;
    InOrder &commands = at->second;
    settle_markers(commands);
    std::erase_if(entries_, [&](const Entry &entry) {
        return entry.queue == &commands && state_of(entry) == State::ended_well;
    });
    for (Entry &entry : entries_) {
        if (entry.queue != &commands) continue;
        if (!entry.failed) entry.event = Event::share(event_of(entry));
        entry.queue = nullptr;
    }
    queues_.erase(at);
}

// For each open step, an operation of the progress thread holds the event until it ends, and
// Executor::finish_all() waits for the operation.
void Steps::forget_space(const Space &space) {
    for (const Entry &entry : entries_)
        if (entry.space == &space && state_of(entry) == State::open)
            end_with_(event_of(entry), std::make_shared<Ending>());
    std::erase_if(entries_, [&](const Entry &entry) { return entry.space == &space; });
}

std::vector<Event> Steps::rest() {
    std::vector<Event> events;
    for (const Entry &entry : entries_)
        if (state_of(entry) == State::open) events.push_back(Event::share(event_of(entry)));
    return events;
}

}  // namespace cldist::cluster
