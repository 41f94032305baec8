#include "events/waiting_commands.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/error_code.hpp"

namespace cldist {
namespace {

// Each check of start events covers this many of the oldest waiting commands and as many others in
// rotation. If start events are polled it covers fewer, as each query costs a microsecond.
constexpr std::size_t checked_at_once = 64;
constexpr std::size_t checked_if_polled = 4;
// If a check does not cover all waiting commands, checks take one part in this many of the time.
constexpr int check_share = 32;

Status gate_of(cl_int start_status) {
    if (start_status >= 0) return {};
    return Status::failure(
        CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
        fmt::format(
            "an event of the wait list, or an earlier command of the in-order queue, failed "
            "with status {}",
            status_text(start_status)));
}

}  // namespace

void WaitingCommands::Waiting::set_gate(const Status &known) {
    gate = known;
    if (!known.ok()) command->publish_failure(known);
}

bool WaitingCommands::add(CommandId id, std::unique_ptr<Command> command, const StartRule &rule) {
    const std::lock_guard lock(mutex_);
    insert(id, {std::move(command), rule, {}});
    return rule.polled && polled_ == 1;
}

void WaitingCommands::insert(CommandId id, Waiting waiting) {
    const StartRule rule = waiting.rule;
    if (rule.polled) ++polled_;
    if (rule.has_wait_list) failure_causes_.add_command();
    if (rule.ordered_by != nullptr)
        waiting.command->before_failure = [this, queue = rule.ordered_by] { note_failed(queue); };
    waiting_.emplace(id, std::move(waiting));
    std::deque<CommandId> none;
    std::deque<CommandId> &order = rule.ordered_by != nullptr ? order_[rule.ordered_by] : none;
    if (order.empty()) checks_.insert(id);
    order.push_back(id);
}

// Behind a failed command of an in-order queue, the platform may fail start events.
void WaitingCommands::note_failed(cl_command_queue queue) {
    const std::lock_guard lock(mutex_);
    failure_causes_.add_queue(queue);
}

void WaitingCommands::add_failed(CommandId id, std::unique_ptr<Command> command,
                                 cl_command_queue ordered_by, const Status &gate) {
    Waiting waiting{std::move(command), {ordered_by, true, false}, {}};
    waiting.set_gate(gate);
    const std::lock_guard lock(mutex_);
    // If a command before it has no position yet, so does this one.
    if (ordered_by == nullptr || !order_.contains(ordered_by)) waiting.take_position();
    insert(id, std::move(waiting));
    inbox_.add_ready(id);
}

void WaitingCommands::note_failures(bool thorough) {
    if (!thorough && !failure_causes_.any()) return;
    const std::lock_guard lock(mutex_);
    for (const auto &[queue, order] : order_) {
        bool in_turn = true;
        bool before_failed = thorough || failure_causes_.contains(queue);
        for (const CommandId id : order) {
            Waiting &waiting = waiting_.at(id);
            // The query costs more than a microsecond on some platforms.
            const bool may_have_failed = waiting.rule.has_wait_list || before_failed;
            in_turn &= (waiting.gate || may_have_failed) && note_failure(id, waiting);
            // Also if it has not failed, because failed commands behind it take theirs.
            if (in_turn) waiting.take_position();
            if (!in_turn && !thorough) break;
            before_failed = waiting.gate && !waiting.gate->ok();
        }
    }
    for (auto &[id, waiting] : waiting_)
        if (thorough && waiting.rule.ordered_by == nullptr && note_failure(id, waiting))
            waiting.take_position();
}

// Returns true if the result of the wait list is known.
bool WaitingCommands::note_failure(CommandId id, Waiting &waiting) {
    if (waiting.gate) return true;
    const cl_int status = waiting.command->bridge()->start_status();
    if (status >= CL_COMPLETE) return false;
    waiting.set_gate(gate_of(status));
    if (waiting.rule.ordered_by != nullptr) gated_.insert(waiting.rule.ordered_by);
    inbox_.add_ready(id);
    return true;
}

void WaitingCommands::wait_started(cl_command_queue ordered_by, CommandId end) {
    std::unique_lock lock(mutex_);
    started_.wait(lock, [&] {
        const auto order = order_.find(ordered_by);
        return order == order_.end() || (!order->second.empty() && order->second.front() >= end);
    });
}

// Checks whether the command may start and, if so, the commands behind it in its queue.
void WaitingCommands::check_start(CommandId id, std::vector<CommandId> &ready) const {
    const auto is_ready = [&](CommandId each) {
        const Waiting &waiting = waiting_.at(each);
        if (waiting.gate) return true;
        if (waiting.command->bridge()->start_status() > CL_COMPLETE) return false;
        ready.push_back(each);
        return true;
    };
    if (cl_command_queue const queue = waiting_.at(id).rule.ordered_by; queue == nullptr) {
        is_ready(id);
    } else {
        const std::deque<CommandId> &order = order_.at(queue);
        static_cast<void>(std::all_of(order.begin(), order.end(), is_ready));
    }
}

std::chrono::nanoseconds WaitingCommands::find_ready(std::vector<CommandId> &ready) {
    const std::uint64_t begin = now_ns();
    const std::size_t before = ready.size();
    bool polled = false;
    bool all = false;
    {
        const std::lock_guard lock(mutex_);
        polled = polled_ != 0;
        all = checks_.visit(polled ? checked_if_polled : checked_at_once,
                            [&](CommandId id) { check_start(id, ready); });
    }
    const bool found = ready.size() != before;
    const std::chrono::nanoseconds cost(now_ns() - begin);
    if (!polled) {
        // Check again at once. Commands behind the found ones may have failed with them.
        if (found) return {};
        return all ? check_period
                   : std::min<std::chrono::nanoseconds>(cost * check_share, check_period);
    }
    if (found) start_backoff_.reset();
    // The platform serves one thread at a time, and other threads want to enqueue.
    return Backoff::after_check(start_backoff_.pause(false), cost, check_period);
}

void WaitingCommands::take(std::vector<CommandId> &ready, std::vector<StartingCommand> &starting) {
    if (ready.empty()) return;
    const auto begin = static_cast<std::ptrdiff_t>(starting.size());
    const std::lock_guard lock(mutex_);
    for (const CommandId id : ready) {
        const auto at = waiting_.find(id);
        if (at == waiting_.end()) continue;
        // Queried here, because the callback of a failed event may get CL_COMPLETE.
        if (!at->second.gate)
            at->second.set_gate(gate_of(at->second.command->bridge()->start_status()));
        if (at->second.rule.ordered_by == nullptr)
            start(at, starting);
        else
            gated_.insert(at->second.rule.ordered_by);
    }
    ready.clear();
    // Includes queues that note_failures() has added since this check began, because a failed
    // command there may be older than the commands of `ready`.
    for (cl_command_queue const queue : std::exchange(gated_, {})) start_in_order(queue, starting);
    // Commands start in the order of their calls. Other processes may rely on this for collective
    // commands.
    std::sort(starting.begin() + begin, starting.end(),
              [](const auto &a, const auto &b) { return a.id < b.id; });
    // They take their positions before the mutex is released. Otherwise note_failures() could let a
    // failed command of the same queue overtake them.
    for (const StartingCommand &each : starting)
        if (!each.has_position) each.command->take_position();
}

void WaitingCommands::start(std::map<CommandId, Waiting>::iterator at,
                            std::vector<StartingCommand> &starting) {
    auto &[id, waiting] = *at;
    starting.push_back(
        {std::move(waiting.command), std::move(*waiting.gate), id, waiting.has_position});
    if (waiting.rule.has_wait_list) failure_causes_.remove_command();
    if (waiting.rule.polled) --polled_;
    checks_.erase(id);
    waiting_.erase(at);
}

// Starts the commands of the queue up to the first whose wait list has no result yet.
void WaitingCommands::start_in_order(cl_command_queue queue,
                                     std::vector<StartingCommand> &starting) {
    const auto at = order_.find(queue);
    if (at == order_.end()) return;
    std::deque<CommandId> &order = at->second;
    while (!order.empty()) {
        const auto first = waiting_.find(order.front());
        if (!first->second.gate) {
            checks_.insert(order.front());
            return;
        }
        start(first, starting);
        order.pop_front();
    }
    emptied_.push_back(queue);
    failure_causes_.remove_queue(queue);
}

void WaitingCommands::note_started() {
    const std::lock_guard lock(mutex_);
    for (cl_command_queue const queue : emptied_)
        if (const auto order = order_.find(queue); order->second.empty()) order_.erase(order);
    emptied_.clear();
    started_.notify_all();
}

void WaitingCommands::take_all(std::vector<std::unique_ptr<Command>> &all) {
    const std::lock_guard lock(mutex_);
    for (auto &[id, waiting] : waiting_) all.push_back(std::move(waiting.command));
    waiting_.clear();
    order_.clear();
    checks_ = {};
    gated_.clear();
}

}  // namespace cldist
