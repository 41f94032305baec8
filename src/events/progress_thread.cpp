#include "events/progress_thread.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/error_code.hpp"
#include "base/forks.hpp"

namespace cldist {
namespace {

using namespace std::chrono_literals;

// A failed event may call no callback. So the thread also checks start events, at least this often.
constexpr std::chrono::nanoseconds check_period = 20ms;
// For this long after the last command, the thread still wakes at that rate, so that the next
// command need not wake it.
constexpr std::uint64_t wakeful_ns = 200'000'000;
// Each check of start events covers this many of the oldest waiting commands and as many others in
// rotation. If start events are polled it covers fewer, as each query costs a microsecond.
constexpr std::size_t checked_at_once = 64;
constexpr std::size_t checked_if_polled = 4;
// If a check does not cover all waiting commands, checks take one part in this many of the time.
constexpr int check_share = 32;

// The thread does not sleep between two checks of polled start events that are closer than this.
// For 100 us after the last command, it does not sleep at all.
constexpr std::chrono::nanoseconds shortest_rest = 20us;
constexpr unsigned linger_patience = 10;

// An id consists of the number of its progress thread and this many lower bits.
constexpr unsigned id_bits = 48;

thread_local bool has_poller = false;

// The progress thread runs for microseconds but must start at once. This function removes the timer
// slack of 50 us. It also asks for a short time slice, which Linux supports per thread since 6.12.
// The thread then need not wait for the end of a computing thread's slice of milliseconds. Older
// kernels ignore the request.
void become_responsive() {
    prctl(PR_SET_NAME, "cldist-progress");
    prctl(PR_SET_TIMERSLACK, 1000);
    struct {
        std::uint32_t size, policy;
        std::uint64_t flags;
        std::int32_t nice;
        std::uint32_t priority;
        std::uint64_t runtime, deadline, period;
    } attributes{};
    if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 ||
        attributes.policy != SCHED_OTHER)
        return;
    attributes.size = sizeof attributes;
    attributes.runtime = 100'000;  // nanoseconds
    syscall(SYS_sched_setattr, 0, &attributes, 0);
}

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

ProgressThread::ProgressThread(std::unique_ptr<Poller> poller, double stall_seconds)
    : poller_(std::move(poller)), watcher_(stall_seconds), patient_(poller_ != nullptr) {
    watch_for_forks();
    {
        const std::lock_guard lock(callback_inboxes().mutex);
        next_id_ = (Id{callback_inboxes().of_thread.size()} << id_bits) + 1;
        callback_inboxes().of_thread.emplace_back(inbox_);
    }
    thread_ = std::thread([this] { run(); });
}

ProgressThread::~ProgressThread() {
    stop(Status::failure(CL_TRANSFER_ABANDONED, "the library has shut down"));
}

void ProgressThread::start_when_ready(std::unique_ptr<Command> command, const StartRule &rule) {
    const Id id = next_id_++;
    const Event start = Event::share(command->bridge()->start().gate);
    if (rule.polled) patient_ = watches_ = true;
    bool check_now = false;
    {
        const std::lock_guard lock(mutex_);
        // The next check may be far off if no polled command was waiting.
        check_now = commands_ == 0 || (rule.polled && polled_ == 0);
        add(id, {std::move(command), rule, {}});
    }
    if (check_now)
        inbox_->fill([&](Inbox &inbox) { inbox.check_now |= rule.polled || inbox.dozing; });
    if (rule.polled) return;
    // If this fails, the thread finds the event by its checks. `start` holds the event, because the
    // command may start and be destroyed before the call returns.
    clSetEventCallback(start.get(), CL_COMPLETE, &ProgressThread::on_start_event,
                       reinterpret_cast<void *>(id));
}

void ProgressThread::add(Id id, Waiting waiting) {
    const StartRule rule = waiting.rule;
    waiting.command->starts_later = true;
    ++later_;
    ++commands_;
    if (rule.polled) ++polled_;
    if (rule.has_wait_list) ++suspects_;
    if (rule.ordered_by != nullptr)
        waiting.command->before_failure = [this, queue = rule.ordered_by] { note_failed(queue); };
    waiting_.emplace(id, std::move(waiting));
    std::deque<Id> none;
    std::deque<Id> &order = rule.ordered_by != nullptr ? order_[rule.ordered_by] : none;
    if (order.empty()) next_.insert(id);
    order.push_back(id);
}

// Behind a failed command of an in-order queue, the platform may fail start events.
void ProgressThread::note_failed(cl_command_queue queue) {
    const std::lock_guard lock(mutex_);
    if (failed_.insert(queue).second) ++suspects_;
}

void ProgressThread::start_failed(std::unique_ptr<Command> command, cl_command_queue ordered_by,
                                  Status gate) {
    const Id id = next_id_++;
    Waiting waiting{std::move(command), {ordered_by, true, false}, {}};
    waiting.set_gate(gate);
    const std::lock_guard lock(mutex_);
    // If a command before it has no position yet, so does this one.
    if (ordered_by == nullptr || !order_.contains(ordered_by)) waiting.take_position();
    add(id, std::move(waiting));
    inbox_->fill([&](Inbox &inbox) { inbox.ready.push_back(id); });
}

ProgressThread::CallbackInboxes &ProgressThread::callback_inboxes() {
    // Never destroyed, because callbacks may arrive at any time.
    static auto &instance = *new CallbackInboxes;
    return instance;
}

void CL_CALLBACK ProgressThread::on_start_event(cl_event, cl_int, void *data) {
    const Id id = reinterpret_cast<Id>(data);
    std::shared_ptr<Inbox> inbox;
    {
        const std::lock_guard lock(callback_inboxes().mutex);
        inbox = callback_inboxes().of_thread.at(id >> id_bits).lock();
    }
    if (inbox == nullptr) return;
    inbox->fill([&](Inbox &i) { i.ready.push_back(id); });
}

void ProgressThread::note_failures(bool thorough) {
    if (!thorough && suspects_ == 0) return;
    const std::lock_guard lock(mutex_);
    for (const auto &[queue, order] : order_) {
        bool in_turn = true;
        bool before_failed = thorough || failed_.contains(queue);
        for (const Id id : order) {
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
bool ProgressThread::note_failure(Id id, Waiting &waiting) {
    if (waiting.gate) return true;
    const cl_int status = waiting.command->bridge()->start_status();
    if (status >= CL_COMPLETE) return false;
    waiting.set_gate(gate_of(status));
    if (waiting.rule.ordered_by != nullptr) gated_.insert(waiting.rule.ordered_by);
    inbox_->fill([&](Inbox &inbox) { inbox.ready.push_back(id); });
    return true;
}

void ProgressThread::submit(std::unique_ptr<Command> command, Status gate) {
    {
        const std::lock_guard lock(mutex_);
        ++commands_;
    }
    inbox_->fill([&](Inbox &inbox) {
        inbox.submitted.push_back({std::move(command), std::move(gate), next_id_++});
    });
}

Waker ProgressThread::waker(Id id) const {
    return [weak = std::weak_ptr(inbox_), id] {
        const std::shared_ptr<Inbox> inbox = weak.lock();
        if (inbox == nullptr) return;
        inbox->fill([&](Inbox &i) { i.woken.push_back(id); });
    };
}

void ProgressThread::wait_started(cl_command_queue ordered_by, Id end) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
        const auto order = order_.find(ordered_by);
        return order == order_.end() || (!order->second.empty() && order->second.front() >= end);
    });
}

bool ProgressThread::wait_idle(double patience_seconds) {
    const std::uint64_t begin = now_ns();
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, 10ms, [&] { return commands_ == 0; })) {
        const std::uint64_t since = std::max(begin, pending_records().last_progress());
        const std::uint64_t now = now_ns();
        if (patience_seconds > 0 && now > since &&
            static_cast<double>(now - since) * 1e-9 > patience_seconds)
            return false;
    }
    return true;
}

bool ProgressThread::polls_here() { return has_poller; }

void ProgressThread::stop(const std::optional<Status> &status) {
    if (!thread_.joinable()) return;
    watcher_.stop();
    inbox_->fill([&](Inbox &inbox) {
        inbox.stop_status = status;
        inbox.stop = true;
    });
    // A callback may call exit() on this thread.
    if (thread_.get_id() == std::this_thread::get_id())
        thread_.detach();
    else
        thread_.join();
}

void ProgressThread::run() {
    become_responsive();
    has_poller = poller_ != nullptr;
    using Seconds = std::chrono::duration<double>;
    const Seconds tick = watcher_.tick();
    std::uint64_t next_tick = 0;
    std::uint64_t next_check = 0;
    std::uint64_t busy = 0;  // time of the last round with a command
    std::chrono::nanoseconds rest = check_period;
    Backoff backoff;
    Backoff patient_backoff(patience);
    Backoff lingering(linger_patience);
    std::vector<Id> ready;
    std::vector<Submitted> submitted;
    std::vector<Id> woken;
    for (;;) {
        if (commands_ != 0) lingering.reset();
        // If the device does not use the host's cores, the thread polls, because sleeping and
        // waking take longer.
        const bool watching =
            watches_ && !some_to_poll() &&
            (some_wait() ? rest < shortest_rest : lingering.pause(false).count() == 0);
        if ((!watching && !some_to_poll()) || inbox_->has_news) {
            std::unique_lock lock(inbox_->mutex);
            if (!watching && !some_to_poll() && inbox_->empty()) {
                const bool soon = some_wait();
                inbox_->dozing = !soon && now_ns() - busy > wakeful_ns;
                inbox_->filled.wait_for(lock,
                                        inbox_->dozing ? tick : Seconds(soon ? rest : check_period),
                                        [&] { return !inbox_->empty(); });
                inbox_->dozing = false;
            }
            if (inbox_->stop) break;
            if (std::exchange(inbox_->check_now, false)) next_check = 0;
            ready.swap(inbox_->ready);
            submitted.swap(inbox_->submitted);
            woken.swap(inbox_->woken);
            inbox_->has_news = false;
        }
        std::unique_lock round(round_);
        const std::uint64_t now = now_ns();
        if (commands_ != 0) busy = now;
        if (some_wait() && now >= next_check) {
            rest = find_starts(ready);
            next_check = now_ns() + static_cast<std::uint64_t>(rest.count());
        }
        bool moved = !ready.empty() || !submitted.empty();
        take(ready, submitted);
        wake_up(woken);
        if (some_to_poll()) {
            if (poller_ != nullptr) moved |= poller_->poll();
            moved |= poll_commands();
        }
        if (now >= next_tick) {
            next_tick = now + static_cast<std::uint64_t>(tick.count() * 1e9);
            remains_.release();
            if (poller_ != nullptr) poller_->tick();
        }
        round.unlock();
        if (moved || !some_to_poll()) {
            backoff.reset();
            patient_backoff.reset();
            continue;
        }
        if (auto sleep = (patient_ ? patient_backoff : backoff).pause(bytes_in_flight());
            sleep.count() > 0) {
            if (some_wait()) sleep = std::min(sleep, rest);
            std::unique_lock lock(inbox_->mutex);
            inbox_->filled.wait_for(lock, sleep, [&] { return !inbox_->empty(); });
        }
    }
    abandon_all(inbox_->stop_status);
}

bool ProgressThread::bytes_in_flight() const {
    return !asleep_in_flight_.empty() ||
           std::any_of(active_.begin(), active_.end(),
                       [](const Active &a) { return a.command->bytes_in_flight(); });
}

void ProgressThread::take(std::vector<Id> &ready, std::vector<Submitted> &submitted) {
    std::vector<Submitted> started = std::exchange(submitted, {});
    const auto begin = static_cast<std::ptrdiff_t>(started.size());
    std::vector<cl_command_queue> emptied;
    if (!ready.empty()) {
        const std::lock_guard lock(mutex_);
        const auto start = [&](std::map<Id, Waiting>::iterator it) {
            started.push_back({std::move(it->second.command), std::move(*it->second.gate),
                               it->first, it->second.has_position});
            if (it->second.rule.has_wait_list) --suspects_;
            if (it->second.rule.polled) --polled_;
            next_.erase(it->first);
            waiting_.erase(it);
        };
        for (const Id id : ready) {
            const auto it = waiting_.find(id);
            if (it == waiting_.end()) continue;
            // Queried here, because the callback of a failed event may get CL_COMPLETE.
            if (!it->second.gate)
                it->second.set_gate(gate_of(it->second.command->bridge()->start_status()));
            if (it->second.rule.ordered_by == nullptr)
                start(it);
            else
                gated_.insert(it->second.rule.ordered_by);
        }
        // Includes queues that note_failures() has added since this check began, because a failed
        // command there may be older than the commands of `ready`.
        for (cl_command_queue const queue : std::exchange(gated_, {})) {
            const auto order = order_.find(queue);
            if (order == order_.end()) continue;
            while (!order->second.empty()) {
                const auto first = waiting_.find(order->second.front());
                if (!first->second.gate) break;
                start(first);
                order->second.pop_front();
            }
            if (!order->second.empty()) {
                next_.insert(order->second.front());
                continue;
            }
            emptied.push_back(queue);
            suspects_ -= failed_.erase(queue);
        }
        ready.clear();
        // Commands start in the order of their calls. Other processes may rely on this for
        // collective commands.
        std::sort(started.begin() + begin, started.end(),
                  [](const auto &a, const auto &b) { return a.id < b.id; });
        // They take their positions before the mutex is released. Otherwise note_failures() could
        // let a failed command of the same queue overtake them.
        for (const Submitted &s : started)
            if (!s.has_position) s.command->take_position();
    }
    for (Submitted &s : started) activate(std::move(s));
    if (started.empty()) return;
    const std::lock_guard lock(mutex_);
    for (cl_command_queue const queue : emptied)
        if (const auto order = order_.find(queue); order->second.empty()) order_.erase(order);
    changed_.notify_all();
}

void ProgressThread::activate(Submitted submitted) {
    submitted.command->woken_by(waker(submitted.id));
    submitted.command->start(submitted.gate);
    active_.push_back({std::move(submitted.command), submitted.id});
}

void ProgressThread::wake_up(std::vector<Id> &woken) {
    for (const Id id : woken) {
        const auto at = asleep_.find(id);
        if (at == asleep_.end()) continue;  // the command is active, not started yet, or destroyed
        active_.push_back({std::move(at->second), id});
        asleep_.erase(at);
        asleep_in_flight_.erase(id);
    }
    woken.clear();
}

// Checks whether the command may start and, if so, the commands behind it in its queue. Adds the
// commands that may start to `ready`.
void ProgressThread::check_start(Id id, std::vector<Id> &ready) const {
    const auto is_ready = [&](Id each) {
        const Waiting &waiting = waiting_.at(each);
        if (waiting.gate) return true;
        if (waiting.command->bridge()->start_status() > CL_COMPLETE) return false;
        ready.push_back(each);
        return true;
    };
    if (cl_command_queue const queue = waiting_.at(id).rule.ordered_by; queue == nullptr) {
        is_ready(id);
    } else {
        const std::deque<Id> &order = order_.at(queue);
        static_cast<void>(std::all_of(order.begin(), order.end(), is_ready));
    }
}

// Adds waiting commands that may start to `ready`. Returns the time until the next check.
std::chrono::nanoseconds ProgressThread::find_starts(std::vector<Id> &ready) {
    const std::uint64_t begin = now_ns();
    const std::size_t before = ready.size();
    bool polled = false;
    bool all = false;
    {
        const std::lock_guard lock(mutex_);
        polled = polled_ != 0;
        const std::size_t most = polled ? checked_if_polled : checked_at_once;
        // The oldest commands usually start first. A rotation covers the others.
        auto at = next_.begin();
        for (std::size_t i = 0; i < most && at != next_.end(); ++i) check_start(*at++, ready);
        all = next_.size() <= 2 * most;
        if (at != next_.end() && checked_up_to_ > *at) at = next_.upper_bound(checked_up_to_);
        for (std::size_t i = 0; i < most && at != next_.end(); ++i) check_start(*at++, ready);
        checked_up_to_ = at != next_.end() ? *std::prev(at) : 0;
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

bool ProgressThread::poll_commands() {
    bool moved = false;
    std::size_t ended = 0;
    std::erase_if(active_, [&](Active &active) {
        Command &command = *active.command;
        const Progress progress = command.poll();
        if (progress == Progress::idle && command.wakes()) {
            if (command.bytes_in_flight()) asleep_in_flight_.insert(active.id);
            asleep_.emplace(active.id, std::move(active.command));
            return true;
        }
        moved |= progress != Progress::idle;
        if (progress != Progress::done) return false;
        if (auto bridge = command.take_failed_bridge()) remains_.keep(std::move(bridge), {});
        if (command.starts_later) --later_;
        active.command.reset();
        ++ended;
        return true;
    });
    if (ended != 0) {
        const std::lock_guard lock(mutex_);
        commands_ -= ended;
        if (commands_ == 0) changed_.notify_all();
    }
    return moved;
}

void ProgressThread::abandon_all(const std::optional<Status> &status) {
    // Kept until the process ends, because MPI or the platform may still use them.
    static auto &left_behind = *new std::vector<std::unique_ptr<Command>>;

    std::vector<std::unique_ptr<Command>> all;
    {
        const std::lock_guard lock(mutex_);
        for (auto &[id, waiting] : waiting_) all.push_back(std::move(waiting.command));
        for (auto &active : active_) all.push_back(std::move(active.command));
        for (auto &[id, command] : asleep_) all.push_back(std::move(command));
        waiting_.clear();
        order_.clear();
        next_.clear();
        gated_.clear();
        active_.clear();
        asleep_.clear();
        asleep_in_flight_.clear();
    }
    // Without the lock, because the end of an event may call a function of the program.
    std::vector<std::unique_ptr<Bridge>> bridges;
    for (auto &command : all) {
        if (status) {
            command->abandon(*status);
            bridges.push_back(command->take_failed_bridge());
            if (bridges.back() != nullptr) bridges.back()->end_now();
        }
        // Its destructor would end its event, and transfers in flight use its memory.
        if (!status || command->bytes_in_flight()) left_behind.push_back(std::move(command));
    }
    remains_.leave_behind(std::move(bridges));
    const std::lock_guard lock(mutex_);
    commands_ = 0;
    later_ = 0;
    changed_.notify_all();
}

}  // namespace cldist
