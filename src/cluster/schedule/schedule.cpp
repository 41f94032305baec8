#include "cluster/schedule/schedule.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace cldist::cluster {

namespace {

bool reads(AccessMode mode) { return mode != AccessMode::write; }
bool writes(AccessMode mode) { return mode != AccessMode::read; }

void sort_unique(std::vector<Step> &steps) {
    if (steps.size() < 2) return;
    std::ranges::sort(steps);
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
}

void clear(Decisions &decisions) {
    decisions.after.clear();
    decisions.completions_sent.clear();
    decisions.completions_awaited.clear();
    decisions.transfers.clear();
    decisions.result.from.reset();
    decisions.result.to.clear();
    decisions.write_backs.clear();
    decisions.homes_changed.clear();
}

}  // namespace

Schedule::Schedule(Topology topology, Process self, std::uint32_t attach_after, Hosts hosts)
    : topology_(std::move(topology)),
      self_(self),
      attach_after_(attach_after),
      hosts_(hosts),
      sent_(topology_.processes()),
      received_(topology_.processes()) {}

BufferId Schedule::create_buffer(std::size_t size, Contents contents, bool attachable) {
    Buffer buffer{std::make_shared<Residency>(topology_, size, contents), {}};
    buffer.attachable = attachable && attach_after_ != 0;
    buffer.wanted = attach_after_;
    if (released_.empty()) {
        buffers_.push_back(std::move(buffer));
        return static_cast<BufferId>(buffers_.size() - 1);
    }
    const BufferId id = released_.back();
    released_.pop_back();
    buffers_[id] = std::move(buffer);
    return id;
}

void Schedule::give_contents(BufferId buffer, MemoryId memory) {
    Residency &residency = changed(buffer);
    residency.write(topology_, memory, 0, residency.holders().size());
}

void Schedule::release_buffer(BufferId buffer) {
    buffers_[buffer] = {std::make_shared<Residency>(topology_, 0, Contents::undefined), {}};
    released_.push_back(buffer);
}

std::size_t Schedule::bytes(BufferId buffer) const {
    const Buffer &entry = buffers_[buffer];
    std::size_t bytes =
        sizeof entry + entry.residency->bytes() + entry.hazards.capacity() * sizeof(Hazards);
    for (const Hazards &hazards : entry.hazards) bytes += hazards.bytes();
    return bytes;
}

const Decisions &Schedule::decide(const ScheduledCommand &command) {
    const Process owner = topology_.process_of(command.memory);
    clear(decisions_);
    decisions_.event.command = ++last_;
    decisions_.event.process = owner;
    decisions_.event.told.clear();
    decisions_.event.told_all = command.result_to_hosts && hosts_ == Hosts::all;
    decisions_.local = owner == self_;
    if (attach_after_ != 0)
        for (const Access &access : command.accesses) note_use(access.buffer, command);

    for (ScheduledEvent *event : command.wait_list) {
        wait_for(*event, owner);
    }
    for (const Access &access : command.accesses) {
        if (!reads(access.mode) && !command.may_fail) continue;
        const Buffer &buffer = buffers_[access.buffer];
        if (buffer.home) {
            const MemoryId home = buffer.home->memory;
            if (home != command.memory && access.begin < access.end)
                move(access.buffer, {access.begin, access.end, home}, command.memory,
                     decisions_.transfers);
            continue;
        }
        read(access.buffer, command.memory, access.begin, access.end);
        carry_copies(access.buffer, command.memory);
    }
    // A command reads the bytes from before its own writes.
    bool writes_elsewhere = false;
    for (const Access &access : command.accesses) {
        if (!writes(access.mode)) continue;
        const Buffer &buffer = buffers_[access.buffer];
        if (!buffer.home)
            write(access.buffer, command.memory, access.begin, access.end, command.behind);
        else
            writes_elsewhere = writes_elsewhere || buffer.home->memory != command.memory;
    }

    if (decisions_.local) find_conflicts(command);
    if (writes_elsewhere) write_back(command);
    if (command.result_to_hosts) {
        decisions_.result = relay(owner);
        if (hosts_ == Hosts::first) note_told(decisions_.event, 0);
    }
    return decisions_;
}

void Schedule::find_conflicts(const ScheduledCommand &command) {
    const Step step{last_, 0};
    for (const Access &access : command.accesses) {
        Hazards &uses = hazards(access.buffer, command.memory);
        if (writes(access.mode)) {
            uses.write(access.begin, access.end, step, command.queue, over_, decisions_.after);
        } else {
            uses.read(access.begin, access.end, step, command.queue, over_, decisions_.after);
        }
    }
    sort_unique(decisions_.after);
}

// ---- Commands of several devices ----

namespace {

// Number of cached states of a buffer, and of cached decisions. Programs that alternate between two
// or three buffers return to the same states.
constexpr std::size_t most_known = 8;
// Pieces with a shorter average length, in bytes, are sent together.
constexpr std::size_t travels_alone = std::size_t{256} << 10U;

// Fewer copies of one access become one transfer each.
constexpr std::size_t many_copies = 16;

bool travel_together(std::span<const Piece> pieces) {
    std::size_t bytes = 0;
    for (const Piece &piece : pieces) bytes += piece.end - piece.begin;
    return pieces.size() > 1 && bytes / pieces.size() < travels_alone;
}

// Adds a copy to a matching move from index `first` on, or appends a new move.
void add_move(std::vector<KnownParts::Move> &moves, std::size_t first, BufferId buffer,
              const Copy &copy, MemoryId target, bool overwritten) {
    const auto same = std::find_if(moves.begin() + static_cast<std::ptrdiff_t>(first), moves.end(),
                                   [&](const KnownParts::Move &move) {
                                       return move.buffer == buffer && move.source == copy.source &&
                                              move.overwritten == overwritten &&
                                              move.behind == copy.behind;
                                   });
    if (same == moves.end())
        moves.push_back(
            {buffer, copy.source, target, {{copy.begin, copy.end}}, overwritten, copy.behind});
    else if (same->pieces.back().end == copy.begin)
        same->pieces.back().end = copy.end;
    else
        same->pieces.push_back({copy.begin, copy.end});
}

}  // namespace

/// Returns the residency for a change. Other owners keep the old state.
Residency &Schedule::changed(BufferId buffer) {
    std::shared_ptr<Residency> &residency = buffers_[buffer].residency;
    if (residency.use_count() > 1) residency = std::make_shared<Residency>(*residency);
    return *residency;
}

/// Afterwards `copies_` contains the bytes that the device must get.
void Schedule::read(BufferId buffer, MemoryId memory, std::size_t begin, std::size_t end) {
    copies_.clear();
    const std::shared_ptr<Residency> &now = buffers_[buffer].residency;
    if (now.use_count() == 1 || !now->has(topology_, memory, begin, end))
        changed(buffer).read(topology_, memory, begin, end, copies_);
}

void Schedule::write(BufferId buffer, MemoryId memory, std::size_t begin, std::size_t end,
                     std::uint64_t behind) {
    const std::shared_ptr<Residency> &now = buffers_[buffer].residency;
    if (now.use_count() == 1 || !now->is_only(topology_, memory, begin, end, behind))
        changed(buffer).write(topology_, memory, begin, end, behind);
}

void Schedule::carry(const KnownParts::Move &move) {
    if (travel_together(move.pieces)) {
        this->move(move.buffer, move.pieces, move.source, move.target, decisions_.transfers);
        return;
    }
    for (const Piece &piece : move.pieces)
        this->move(move.buffer, {&piece, 1}, move.source, move.target, decisions_.transfers);
}

/// Appends the transfers for `copies_`.
void Schedule::carry_copies(BufferId buffer, MemoryId target) {
    if (copies_.size() < many_copies) {
        for (const Copy &copy : copies_) move(buffer, copy, target, decisions_.transfers);
        return;
    }
    std::vector<KnownParts::Move> moves;
    for (const Copy &copy : copies_) add_move(moves, 0, buffer, copy, target, false);
    for (const KnownParts::Move &each : moves) carry(each);
}

/// Replaces the buffer's state by an equal known one, so that equal states have the same address.
const std::shared_ptr<Residency> &Schedule::known_state(BufferId buffer) {
    auto &now = buffers_[buffer].residency;
    auto &states = buffers_[buffer].states;
    if (std::ranges::find(states, now) != states.end()) return now;
    const auto same =
        std::ranges::find_if(states, [&](const auto &before) { return *before == *now; });
    if (same != states.end()) return now = *same;
    if (states.size() == most_known) states.erase(states.begin());
    states.push_back(now);
    return now;
}

/// Also sets the buffers' states after the parts.
KnownParts::Decided Schedule::decide_parts(std::span<const CommandPart> parts,
                                           std::span<const BufferId> buffers, bool may_fail,
                                           std::uint64_t behind) {
    KnownParts::Decided decided;
    for (const BufferId buffer : buffers) decided.before.push_back(known_state(buffer));
    for (const CommandPart &part : parts) {
        const Process getter = topology_.process_of(part.memory);
        const std::size_t first = decided.moves.size();
        for (const Access &access : part.accesses) {
            if (!reads(access.mode) && !may_fail) continue;
            read(access.buffer, part.memory, access.begin, access.end);
            for (const Copy &copy : copies_) {
                if (getter != self_ && topology_.process_of(copy.source) != self_) continue;
                add_move(decided.moves, first, access.buffer, copy, part.memory,
                         !reads(access.mode));
            }
        }
    }
    for (const CommandPart &part : parts)
        for (const Access &access : part.accesses)
            if (writes(access.mode))
                write(access.buffer, part.memory, access.begin, access.end, behind);
    for (const BufferId buffer : buffers) decided.after.push_back(known_state(buffer));
    return decided;
}

const std::vector<Transfer> &Schedule::begin_parts(std::span<const CommandPart> parts,
                                                   std::span<const BufferId> buffers,
                                                   KnownParts &known, bool may_fail,
                                                   std::uint64_t behind) {
    clear(decisions_);
    ++last_;
    for (const BufferId buffer : buffers) known_state(buffer);
    const auto is_now = [&](const KnownParts::Decided &decided) {
        for (std::size_t i = 0; i < buffers.size(); ++i)
            if (decided.before[i] != buffers_[buffers[i]].residency) return false;
        return true;
    };
    auto found = std::ranges::find_if(known.decided, is_now);
    if (found == known.decided.end()) {
        KnownParts::Decided decided = decide_parts(parts, buffers, may_fail, behind);
        if (known.decided.size() == most_known) known.decided.erase(known.decided.begin());
        known.decided.push_back(std::move(decided));
        found = std::prev(known.decided.end());
    } else {
        for (std::size_t i = 0; i < buffers.size(); ++i)
            buffers_[buffers[i]].residency = found->after[i];
    }
    for (const KnownParts::Move &move : found->moves) carry(move);
    return decisions_.transfers;
}

const Decisions &Schedule::decide_part(const ScheduledCommand &command) {
    clear(decisions_);
    decisions_.event.command = ++last_;
    decisions_.event.process = self_;
    decisions_.event.told_all = false;
    decisions_.local = true;
    find_conflicts(command);
    return decisions_;
}

void Schedule::write_everywhere(const Access &access) {
    changed(access.buffer).write_everywhere(topology_, access.begin, access.end);
}

void Schedule::copy_in_place(const Access &from, const Access &to) {
    Residency &target = changed(to.buffer);
    target.copy(residency(from.buffer), from.begin, from.end, to.begin);
}

const Decisions &Schedule::attach(BufferId id, MemoryId memory) {
    clear(decisions_);
    ++last_;
    Buffer &buffer = buffers_[id];
    const std::size_t size = buffer.residency->holders().size();
    copies_.clear();
    changed(id).read(topology_, memory, 0, size, copies_);
    carry_copies(id, memory);
    changed(id).write(topology_, memory, 0, size);
    buffer.home = Home{memory, false};
    return decisions_;
}

void Schedule::detach(BufferId buffer) {
    buffers_[buffer].home.reset();
    buffers_[buffer].uses = 0;
}

/// Attaches the buffer automatically or detaches it. Each detachment doubles the number of uses
/// before the next attachment, so that the buffer does not alternate.
void Schedule::note_use(BufferId id, const ScheduledCommand &command) {
    Buffer &buffer = buffers_[id];
    if (!buffer.attachable || (buffer.home && !buffer.home->by_itself)) return;
    // Writes that wait for user events must be recorded in `residency`, so the buffer is detached.
    if (buffer.user != command.memory || command.behind != 0) {
        buffer.user = command.memory;
        buffer.uses = 0;
        if (buffer.home) {
            buffer.home.reset();
            buffer.wanted = std::min(2 * buffer.wanted, std::uint32_t{1} << 30U);
            decisions_.homes_changed.push_back(id);
        }
    }
    if (buffer.home || command.behind != 0 || ++buffer.uses < buffer.wanted) return;
    buffer.uses = buffer.wanted;
    const std::size_t size = buffer.residency->holders().size();
    if (buffer.residency->holders().pieces() != 1) return;
    buffer.residency->holders().visit(
        0, size, [&](std::size_t, std::size_t, const Holders &holders) {
            if (holders.is_only(topology_.place_of(command.memory)) && holders.behind() == 0)
                buffer.home = Home{command.memory, true};
        });
    if (buffer.home) decisions_.homes_changed.push_back(id);
}

/// Notifies the waiting command's process of the event's end, once.
void Schedule::wait_for(ScheduledEvent &event, Process waiting) {
    if (!note_told(event, waiting)) return;
    if (self_ == event.process) {
        decisions_.completions_sent.push_back({event.command, message_to(waiting)});
    } else {
        decisions_.completions_awaited.push_back({event.command, message_from(event.process)});
    }
}

/// Records that process `waiting` is notified of the event's end. Returns true if this is new and
/// this process sends or receives the notification.
bool Schedule::note_told(ScheduledEvent &event, Process waiting) const {
    if (event.process == waiting || event.told_all || (self_ != event.process && self_ != waiting))
        return false;
    const auto at = std::ranges::lower_bound(event.told, waiting);
    if (at != event.told.end() && *at == waiting) return false;
    event.told.insert(at, waiting);
    return true;
}

/// Decides the write-backs like transfers of a later command.
void Schedule::write_back(const ScheduledCommand &command) {
    ++last_;
    for (const Access &access : command.accesses) {
        const std::optional<Home> home = buffers_[access.buffer].home;
        if (!writes(access.mode) || !home || home->memory == command.memory ||
            access.begin == access.end)
            continue;
        move(access.buffer, {access.begin, access.end, command.memory}, home->memory,
             decisions_.write_backs);
    }
}

/// Appends this process's side of a copy for the current command, if it sends or receives.
void Schedule::move(BufferId buffer, const Copy &copy, MemoryId target,
                    std::vector<Transfer> &transfers) {
    const Piece piece{copy.begin, copy.end};
    move(buffer, {&piece, 1}, copy.source, target, transfers);
}

void Schedule::move(BufferId buffer, std::span<const Piece> pieces, MemoryId source,
                    MemoryId target, std::vector<Transfer> &transfers) {
    const Process giver = topology_.process_of(source);
    const Process getter = topology_.process_of(target);
    const bool gives = giver == self_;
    const bool gets = getter == self_;
    if (!gives && !gets) return;

    Transfer transfer{};
    transfer.kind = gives && gets ? Transfer::Kind::copy
                    : gives       ? Transfer::Kind::send
                                  : Transfer::Kind::receive;
    transfer.buffer = buffer;
    transfer.begin = pieces.front().begin;
    transfer.end = pieces.back().end;
    if (pieces.size() > 1) transfer.pieces.assign(pieces.begin(), pieces.end());
    transfer.source = source;
    transfer.target = target;
    if (giver != getter) transfer.message = gives ? message_to(getter) : message_from(giver);
    transfer.step = {last_, static_cast<std::uint32_t>(transfers.size() + 1)};
    for (const Piece &piece : pieces) {
        if (gives)
            hazards(buffer, source)
                .read(piece.begin, piece.end, transfer.step, unordered, over_, transfer.after);
        if (gets)
            hazards(buffer, target)
                .write(piece.begin, piece.end, transfer.step, unordered, over_, transfer.after);
    }
    sort_unique(transfer.after);
    transfers.push_back(std::move(transfer));
}

Relay Schedule::tell_all(ScheduledEvent &event) {
    if (event.told_all) return {};
    event.told_all = true;
    return relay(event.process);
}

std::optional<Message> Schedule::tell_first(ScheduledEvent &event) {
    if (!note_told(event, 0)) return {};
    return self_ == 0 ? message_from(event.process) : message_to(0);
}

std::optional<Message> Schedule::message_from_first(Process to) {
    if (self_ == 0) return message_to(to);
    if (self_ == to) return message_from(0);
    return {};
}

Relay Schedule::relay(Process root) {
    Relay relay;
    if (hosts_ == Hosts::first) {
        if (root != 0 && self_ == 0) relay.from = message_from(root);
        if (root != 0 && self_ == root) relay.to.push_back(message_to(0));
        return relay;
    }
    const Topology::Branch branch = topology_.branch(root, self_);
    if (branch.parent) relay.from = message_from(*branch.parent);
    for (const Process child : branch.children) {
        relay.to.push_back(message_to(child));
    }
    return relay;
}

Relay Schedule::gather(Process root) {
    Relay relay;
    const Topology::Branch branch = topology_.branch(root, self_);
    if (branch.parent) relay.from = message_to(*branch.parent);
    for (const Process child : branch.children) relay.to.push_back(message_from(child));
    return relay;
}

void Schedule::over(CommandId command) {
    assert(command <= last_ + 1);
    over_ = std::max(over_, command);
}

Hazards &Schedule::hazards(BufferId buffer, MemoryId memory) {
    Buffer &entry = buffers_[buffer];
    if (entry.hazards.empty()) {
        for (std::uint32_t i = 0; i < topology_.memories_in(self_); ++i) {
            entry.hazards.emplace_back(entry.residency->holders().size());
        }
    }
    return entry.hazards[topology_.local_number(memory)];
}

}  // namespace cldist::cluster
