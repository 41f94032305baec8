// The identity of a process and its threads. Starts the library.
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "host/effects.hpp"
#include "host/gate.hpp"
#include "host/next.hpp"
#include "host/streams.hpp"

namespace cldist::host {

int next_isatty(int descriptor) {
    CLDIST_NEXT(isatty);
    return next(descriptor);
}

int next_uname(utsname *name) {
    CLDIST_NEXT(uname);
    return next(name);
}

namespace {

std::mutex threads_mutex;
std::vector<const Thread *> &threads() {
    static auto &all = *new std::vector<const Thread *>;
    return all;
}

struct Start {
    void *(*function)(void *);
    void *argument;
    std::uint32_t id;
};

void *start_thread(void *what) {
    const std::unique_ptr<Start> start(static_cast<Start *>(what));
    this_thread.id = start->id;
    const KnownThread known;
    return start->function(start->argument);
}

// The result is the same in all processes, in whatever order several threads start threads.
std::uint32_t next_thread(Thread &parent) {
    std::uint32_t id = (parent.id * 0x9E3779B1U) ^ (++parent.started * 0x85EBCA6BU);
    id ^= id >> 15U;
    return id < 2 ? id + 2 : id;
}

__attribute__((constructor)) void begin_with_program() { begin(); }

}  // namespace

KnownThread::KnownThread() {
    const std::lock_guard lock(threads_mutex);
    threads().push_back(&this_thread);
}
KnownThread::~KnownThread() {
    const std::lock_guard lock(threads_mutex);
    std::erase(threads(), &this_thread);
}

void begin() {
    if (has_begun.exchange(true)) return;
    // Forked children are not wrapped.
    pthread_atfork(nullptr, nullptr, [] { Session::leave_to_parent(); });
    Session::begin();
    if (Session::current() != nullptr) begin_effects();
    replace_standard_error();
}

}  // namespace cldist::host

using namespace cldist::host;

CLDIST_IN_FRONT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                   void *(*function)(void *), void *argument) noexcept {
    CLDIST_NEXT(pthread_create);
    // A thread that a callback starts has no id, because callbacks have no fixed order.
    if (Session::current() == nullptr || this_thread.id == 0 || this_thread.opencl_calls != 0 ||
        !from_program(__builtin_return_address(0)))
        return next(thread, attributes, function, argument);
    auto start = std::make_unique<Start>(Start{function, argument, next_thread(this_thread)});
    const int error = next(thread, attributes, start_thread, start.get());
    if (error == 0) (void)start.release();
    return error;
}

CLDIST_IN_FRONT pid_t getpid() noexcept {
    const Session *const session = wrapped_anywhere(identity, __builtin_return_address(0));
    return session != nullptr ? session->identity_of_first().pid
                              : static_cast<pid_t>(syscall(SYS_getpid));
}

CLDIST_IN_FRONT pid_t getppid() noexcept {
    const Session *const session = wrapped_anywhere(identity, __builtin_return_address(0));
    return session != nullptr ? session->identity_of_first().parent
                              : static_cast<pid_t>(syscall(SYS_getppid));
}

CLDIST_IN_FRONT int gethostname(char *name, std::size_t size) noexcept {
    CLDIST_NEXT(gethostname);
    const Session *const session = wrapped_anywhere(identity, __builtin_return_address(0));
    if (session == nullptr) return next(name, size);
    const char *const answer = session->identity_of_first().system.nodename;
    if (std::strlen(answer) >= size) {
        errno = ENAMETOOLONG;
        return -1;
    }
    std::strcpy(name, answer);
    return 0;
}

CLDIST_IN_FRONT int uname(utsname *name) noexcept {
    const Session *const session = wrapped_anywhere(identity, __builtin_return_address(0));
    if (session == nullptr) return next_uname(name);
    *name = session->identity_of_first().system;
    return 0;
}

// ---- For the cluster platform

static void take_interrupt() {
    if (this_thread.id != main_thread) return;
    if (Session *const session = Session::current(); session != nullptr) session->take_interrupt();
}

// The calling thread begins an OpenCL call. `all_make_it`: 0: not all processes make it; 1: all do;
// 2: all do, and it only waits.
CLDIST_IN_FRONT void cldist_host_begin_call(int all_make_it) {
    Thread &thread = this_thread;
    if (thread.opencl_calls == 0) take_interrupt();
    if (thread.opencl_calls == 0) thread.ordered.store(all_make_it == 1, std::memory_order_relaxed);
    if (thread.opencl_calls++ != 0 || all_make_it == 0 || thread.id != main_thread) return;
    if (Session *const session = Session::current(); session != nullptr)
        session->note_opencl_call();
}

CLDIST_IN_FRONT void cldist_host_end_call() {
    Thread &thread = this_thread;
    if (--thread.opencl_calls != 0) return;
    thread.ordered.store(false, std::memory_order_relaxed);
    take_interrupt();
}

// Within an OpenCL call: the program's callbacks begin (1) or have ended (0).
CLDIST_IN_FRONT void cldist_host_in_callbacks(int yes) { this_thread.in_callbacks = yes != 0; }

// Returns a number of the calling thread that is the same in all processes; 0 if the program did
// not start the thread.
CLDIST_IN_FRONT std::uint32_t cldist_host_thread() { return this_thread.id; }

// Returns 1 if the calling thread and another thread are in ordered OpenCL calls at the same time.
// The order of such calls is not defined.
CLDIST_IN_FRONT int cldist_host_calls_overlap() {
    const std::lock_guard lock(threads_mutex);
    return this_thread.ordered &&
                   std::ranges::any_of(threads(),
                                       [](const Thread *thread) {
                                           return thread != &this_thread &&
                                                  thread->ordered.load(std::memory_order_relaxed);
                                       })
               ? 1
               : 0;
}

// The platform, not the program, is about to initialise MPI.
CLDIST_IN_FRONT void cldist_host_note_mpi() {
    if (Session *const session = Session::current(); session != nullptr)
        session->note_platform_mpi();
}

// Returns 1 if this process's wrapped calls get rank 0's results.
CLDIST_IN_FRONT int cldist_host_has_session() { return Session::current() != nullptr ? 1 : 0; }
