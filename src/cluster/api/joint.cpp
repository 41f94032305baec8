#include "cluster/api/joint.hpp"

#include <algorithm>

#include "cluster/api/enqueueing.hpp"

namespace cldist::cluster {

// A lane does not wait for the parts on other devices. If it uses their data, the transfers wait
// for them.
std::vector<EventObject *> Joint::waits_on(const QueueObject &lane) const {
    std::vector<EventObject *> waits;
    for (EventObject *const event : wait_list_) {
        if (!event->is_joint()) waits.push_back(event);
        for (const EventPart &part : event->parts())
            if (part.event->queue->device.get() == lane.device.get())
                waits.push_back(part.event.get());
    }
    return waits;
}

void Joint::add(QueueObject &lane, const Ref<EventObject> &part) {
    used_.push_back(&lane);
    if (part && part->known_here()) parts_.push_back(part);
}

Ref<EventObject> Joint::end(bool told_all) {
    const bool in_order = queue_.in_order();
    queue_.used.store(true, std::memory_order_relaxed);
    for (QueueObject *const lane : queue_.natives) {
        if (std::ranges::find(used_, lane) != used_.end()) continue;
        const bool waits = !waits_on(*lane).empty();
        if (in_order ? event_wanted_ || waits : event_wanted_ && waits)
            run({.queue = *lane,
                 .type = CL_COMMAND_MARKER,
                 .accesses = {},
                 .wait_list = {},
                 .is_part = true},
                [lane](Enqueued &, const Waits &w) { return enqueue_marker_behind(*lane, w); });
    }
    const Ordering ordering = queue_.ordering_of(type_, !wait_list_.empty());
    const OpenUserEvents user_events = user_events_before(queue_, ordering, wait_list_);
    note_user_events(queue_, ordering, user_events);
    // Parts promise what their command promises. A process without devices has no parts.
    Promise promise;
    if (parts_.empty()) {
        std::vector<Promise> waits;
        for (const EventObject *const waited : wait_list_) waits.push_back(waited->promise);
        promise = promise_of_next(queue_.promises, ordering, {}, std::span<const Promise>(waits),
                                  join_promises);
    }
    if (!event_wanted_) return {};
    // With waits, an earlier command may fail on only some lanes, which results do not report.
    const bool told_by_result = told_all && wait_list_.empty() && !user_events.any();
    for (const auto &part : parts_) promise = join_promises(promise, part->promise);
    JointState joint;
    const bool markers_work = type_ == CL_COMMAND_MARKER || type_ == CL_COMMAND_MIGRATE_MEM_OBJECTS;
    for (const auto &part : parts_) {
        part->promise = promise;
        const bool does_work = markers_work || part->type != CL_COMMAND_MARKER;
        // If results report the end to all processes, the other parts' ends are not reported.
        joint.parts.push_back({part, does_work, does_work || !told_by_result});
    }
    auto *const event = new EventObject(queue_, type_, std::move(joint));
    Ref<EventObject> held(event);
    event->release();  // the program gets its reference in give()
    event->scheduled.process = queue_.lanes.front()->device->process;
    event->scheduled.told_all = told_by_result;
    event->promise = promise;
    event->user_events = user_events;
    return held;
}

std::vector<HeldPiece> pieces_of(const QueueObject &queue, MemObject &root, std::size_t begin,
                                 std::size_t end) {
    std::vector<HeldPiece> pieces;
    if (executor().decides_nothing(*queue.context)) {
        pieces.push_back({begin, end, true, {}});
        return pieces;
    }
    Schedule &schedule = executor().schedule();
    const std::uint32_t devices = schedule.topology().memories();
    schedule.residency(root.id).holders().visit(
        begin, end, [&](std::size_t first, std::size_t last, const Holders &holders) {
            pieces.push_back({first, last, holders.count() == devices, holders});
        });
    return pieces;
}

QueueObject &lane_of(const QueueObject &queue, const Holders &holders) {
    const Topology &topology = executor().schedule().topology();
    if (holders.count() > 0)
        for (const auto &lane : queue.lanes)
            if (holders.contains(topology.place_of(lane->device->memory))) return *lane;
    return *queue.lanes.front();
}

QueueObject &lane_for(QueueObject &queue, MemObject &memory, std::size_t begin, std::size_t end) {
    if (!queue.is_aggregate()) return queue;
    std::map<QueueObject *, std::size_t> bytes;
    for (const HeldPiece &piece : pieces_of(queue, memory.root(), memory.origin + begin,
                                            std::min(memory.origin + end, memory.root().size)))
        bytes[&lane_of(queue, piece.holders)] += piece.end - piece.begin;
    QueueObject *most = queue.lanes.front().get();
    std::size_t best = 0;
    for (const auto &lane : queue.lanes) {
        const auto at = bytes.find(lane.get());
        if (at == bytes.end() || at->second <= best) continue;
        best = at->second;
        most = lane.get();
    }
    return *most;
}

}  // namespace cldist::cluster
