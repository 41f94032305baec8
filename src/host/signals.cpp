// SIGINT interrupts the program at the same place in all processes (Interrupts).
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

#include "host/effects.hpp"
#include "host/gate.hpp"
#include "host/next.hpp"

namespace cldist::host {
namespace {

// How long the main threads may take to reach the chosen place. They may sleep or wait for devices.
constexpr time_t wait_s = 2;
// The number of such waits after which a process that is behind the others is interrupted anyhow.
constexpr int most_waits = 5;

using Handler = void (*)(int, siginfo_t *, void *);

std::atomic<Handler> program_handler = nullptr;  // for SIGINT; the kernel calls `on_interrupt`
std::atomic<int> program_flags = 0;
struct sigaction installed {};  // the action with `on_interrupt`
std::atomic<bool> is_installed = false;
timer_t timer{};
std::atomic<int> waits = 0;

// If the main thread blocks SIGINT, the handler runs in another thread while the main thread waits.
enum class Elsewhere { no, due, running };
std::atomic<Elsewhere> elsewhere = Elsewhere::no;
constexpr int most_ms_elsewhere = 1000;  // the limit of the wait: all threads may block SIGINT

void set_timer(time_t seconds) {
    itimerspec time{};
    time.it_value.tv_sec = seconds;
    timer_settime(timer, 0, &time, nullptr);
}

bool has_timer() {
    static const bool created = [] {
        sigevent event{};
        event.sigev_notify = SIGEV_SIGNAL;
        event.sigev_signo = SIGINT;
        event.sigev_value.sival_ptr = &timer;
        return timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
    }();
    return created;
}

// Returns true if the program's handler must run now.
bool is_due(Interrupts &interrupts, const siginfo_t &info) {
    if (this_thread.sends_itself) return true;
    if (Elsewhere due = Elsewhere::due; elsewhere.compare_exchange_strong(due, Elsewhere::running))
        return true;
    const bool from_timer = info.si_code == SI_TIMER && info.si_value.sival_ptr == &timer;
    bool due = false;
    if (from_timer) {
        due = interrupts.take_late(++waits >= most_waits);
    } else {
        waits = 0;
        due = !interrupts.note() || interrupts.take();
    }
    set_timer(interrupts.is_pending() ? wait_s : 0);
    return due;
}

void on_interrupt(int number, siginfo_t *info, void *context) {
    {
        const SameErrno same;
        Session *const session = Session::current();
        if (session != nullptr && !is_due(session->interrupts(), *info)) return;
    }
    if ((program_flags & static_cast<int>(SA_RESETHAND)) != 0) ::signal(SIGINT, SIG_DFL);
    program_handler.load()(number, info, context);
    Elsewhere running = Elsewhere::running;
    elsewhere.compare_exchange_strong(running, Elsewhere::no);
}

// The program's handler runs before `send` returns, as for each signal that a thread sends itself.
template <typename Send>
int send_itself(Send send) {
    this_thread.sends_itself = true;
    const int result = send();
    this_thread.sends_itself = false;
    return result;
}

int next_raise(int number) {
    CLDIST_NEXT(raise);
    return next(number);
}

int next_kill(pid_t process, int number) {
    CLDIST_NEXT(kill);
    return next(process, number);
}

int next_sigaction(int number, const struct sigaction *action, struct sigaction *before) {
    CLDIST_NEXT(sigaction);
    return next(number, action, before);
}

int set_action(int number, const struct sigaction *action, struct sigaction *before,
               const void *caller) {
    if (number != SIGINT) return next_sigaction(number, action, before);
    const Handler handler_before = program_handler;
    const int flags_before = program_flags;
    // LLVM, which drivers use, replaces the handler by its own. It restores the previous handler
    // before it sends the signal again.
    const Session *const session = wrapped_anywhere(clocks, caller);
    struct sigaction mine {};
    if (action != nullptr) {
        if (session != nullptr) is_installed = false;
        mine = *action;
        if (session != nullptr && action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN &&
            session->interrupts_together() && has_timer()) {
            program_handler = action->sa_sigaction;
            program_flags = action->sa_flags;
            mine.sa_sigaction = on_interrupt;
            mine.sa_flags = static_cast<int>(
                (static_cast<unsigned>(mine.sa_flags) & ~SA_RESETHAND) | SA_SIGINFO);
        }
    }
    struct sigaction old {};
    const int result = next_sigaction(number, action != nullptr ? &mine : nullptr, &old);
    if (action != nullptr && mine.sa_sigaction == on_interrupt &&
        (mine.sa_flags & SA_SIGINFO) != 0 && session != nullptr) {
        installed = mine;
        is_installed = true;
    }
    if (result == 0 && before != nullptr) {
        *before = old;
        if (session != nullptr && (old.sa_flags & SA_SIGINFO) != 0 &&
            old.sa_sigaction == on_interrupt) {
            before->sa_sigaction = handler_before;
            before->sa_flags = flags_before;
        }
    }
    return result;
}

}  // namespace

void Session::interrupt_here() {
    if (!interrupts_.is_pending()) set_timer(0);
    // While LLVM's handler runs, the action is the default one: a second signal would be fatal.
    if (is_installed) next_sigaction(SIGINT, &installed, nullptr);
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    if (sigismember(&blocked, SIGINT) == 0) {
        send_itself([] { return next_raise(SIGINT); });
    } else {
        elsewhere = Elsewhere::due;
        next_kill(pid_, SIGINT);
        const Deadline deadline(most_ms_elsewhere);
        while (elsewhere != Elsewhere::no && !deadline.is_over()) sched_yield();
    }
}

}  // namespace cldist::host

using namespace cldist::host;

CLDIST_IN_FRONT int sigaction(int number, const struct sigaction *action,
                              struct sigaction *before) noexcept {
    return set_action(number, action, before, __builtin_return_address(0));
}

CLDIST_IN_FRONT sighandler_t signal(int number, sighandler_t handler) noexcept {
    CLDIST_NEXT(signal);
    if (number != SIGINT) return next(number, handler);
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    struct sigaction before {};
    return set_action(number, &action, &before, __builtin_return_address(0)) == 0
               ? before.sa_handler
               : SIG_ERR;
}

CLDIST_IN_FRONT int raise(int number) noexcept {
    if (wrapped_anywhere(clocks, __builtin_return_address(0)) == nullptr) return next_raise(number);
    return send_itself([&] { return next_raise(number); });
}

// In all processes, getpid() returns rank 0's process ID. A program that sends a signal to this ID
// means its own process.
CLDIST_IN_FRONT int kill(pid_t pid, int number) noexcept {
    const Session *const session = wrapped_anywhere(identity, __builtin_return_address(0));
    if (session == nullptr || pid != session->identity_of_first().pid) {
        if (number != 0) note_effect("has sent a signal", __builtin_return_address(0));
        return next_kill(pid, number);
    }
    return send_itself([&] { return next_kill(session->pid(), number); });
}
