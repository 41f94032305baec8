#include "events/progress_thread.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/backoff.hpp"
#include "base/clock.hpp"
#include "base/forks.hpp"

namespace cldist {
namespace {

using namespace std::chrono_literals;

// For this long after the last command, the thread still wakes once per check_period, so that the
// next command need not wake it.
constexpr std::uint64_t wakeful_ns = 200'000'000;
// The thread does not sleep between two checks of polled start events that are closer than this.
// For 100 us after the last command, it does not sleep at all.
constexpr std::chrono::nanoseconds shortest_rest = 20us;
constexpr unsigned linger_patience = 10;

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

void CL_CALLBACK on_start_event(cl_event, cl_int, void *data) {
    const auto id = reinterpret_cast<CommandId>(data);
    if (const auto inbox = Inbox::find(id)) inbox->add_ready(id);
}

}  // namespace

ProgressThread::ProgressThread(std::unique_ptr<Poller> poller, double stall_seconds)
    : poller_(std::move(poller)), watcher_(stall_seconds) {
    watch_for_forks();
    thread_ = std::thread([this] { run(); });
}

ProgressThread::~ProgressThread() {
    stop(Status::failure(CL_TRANSFER_ABANDONED, "the library has shut down"));
}

void ProgressThread::start_when_ready(std::unique_ptr<Command> command, const StartRule &rule) {
    const CommandId id = inbox_->new_id();
    const Event start = Event::share(command->bridge()->start().gate);
    if (rule.polled) watches_ = true;
    command->starts_later = true;
    const bool was_idle = counts_.add(true);
    const bool first_polled = waiting_.add(id, std::move(command), rule);
    // The next check may be far off if no polled command was waiting.
    if (was_idle || first_polled) inbox_->request_check(rule.polled);
    if (rule.polled) return;
    // If this fails, the thread finds the event by its checks. `start` holds the event, because the
    // command may start and be destroyed before the call returns.
    clSetEventCallback(start.get(), CL_COMPLETE, on_start_event, reinterpret_cast<void *>(id));
}

void ProgressThread::start_failed(std::unique_ptr<Command> command, cl_command_queue ordered_by,
                                  const Status &gate) {
    const CommandId id = inbox_->new_id();
    command->starts_later = true;
    counts_.add(true);
    waiting_.add_failed(id, std::move(command), ordered_by, gate);
}

void ProgressThread::submit(std::unique_ptr<Command> command, Status gate) {
    counts_.add(false);
    inbox_->submit(std::move(command), std::move(gate));
}

bool ProgressThread::polls_here() { return has_poller; }

void ProgressThread::stop(const std::optional<Status> &status) {
    if (!thread_.joinable()) return;
    watcher_.stop();
    inbox_->stop(status);
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
    std::chrono::nanoseconds rest = WaitingCommands::check_period;
    Backoff backoff;
    Backoff patient_backoff(progress_patience);
    Backoff lingering(linger_patience);
    Inbox::News news;
    const auto sleep_when_idle = [&]() -> Inbox::Sleep {
        const bool soon = some_wait();
        if (!soon && now_ns() - busy > wakeful_ns) return {tick, true};
        return {soon ? rest : WaitingCommands::check_period, false};
    };
    for (;;) {
        if (counts_.all() != 0) lingering.reset();
        // If the device does not use the host's cores, the thread polls, because sleeping and
        // waking take longer.
        const bool watching =
            watches_ && !some_to_poll() &&
            (some_wait() ? rest < shortest_rest : lingering.pause(false).count() == 0);
        if (!(watching || some_to_poll() ? inbox_->take(news)
                                         : inbox_->sleep_and_take(news, sleep_when_idle)))
            break;
        if (std::exchange(news.check_now, false)) next_check = 0;
        std::unique_lock round(round_);
        const std::uint64_t now = now_ns();
        if (counts_.all() != 0) busy = now;
        if (some_wait() && now >= next_check) {
            rest = waiting_.find_ready(news.ready);
            next_check = now_ns() + static_cast<std::uint64_t>(rest.count());
        }
        bool moved = !news.ready.empty() || !news.submitted.empty();
        start(news);
        active_.wake(news.woken);
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
        const bool patient = poller_ != nullptr || watches_;
        if (const auto sleep =
                (patient ? patient_backoff : backoff).pause(active_.bytes_in_flight());
            sleep.count() > 0)
            inbox_->sleep(some_wait() ? std::min(sleep, rest) : sleep);
    }
    abandon_all(inbox_->stop_status());
}

void ProgressThread::start(Inbox::News &news) {
    std::vector<StartingCommand> starting = std::exchange(news.submitted, {});
    waiting_.take(news.ready, starting);
    for (auto &[command, gate, id, has_position] : starting) {
        command->woken_by([weak = std::weak_ptr(inbox_), id = id] {
            if (const auto inbox = weak.lock()) inbox->add_woken(id);
        });
        command->start(gate);
        active_.add(std::move(command), id);
    }
    if (!starting.empty()) waiting_.note_started();
}

bool ProgressThread::poll_commands() {
    std::size_t ended = 0;
    const bool moved = active_.poll([this, &ended](Command &command) {
        if (auto bridge = command.take_failed_bridge()) remains_.keep(std::move(bridge), {});
        if (command.starts_later) counts_.end_later();
        ++ended;
    });
    if (ended != 0) counts_.remove(ended);
    return moved;
}

void ProgressThread::abandon_all(const std::optional<Status> &status) {
    // Kept until the process ends, because MPI or the platform may still use them.
    static auto &left_behind = *new std::vector<std::unique_ptr<Command>>;

    std::vector<std::unique_ptr<Command>> all;
    waiting_.take_all(all);
    active_.take_all(all);
    // Without a lock, because the end of an event may call a function of the program.
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
    counts_.clear();
    waiting_.note_started();
}

}  // namespace cldist
