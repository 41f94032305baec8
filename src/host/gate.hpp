#pragma once

#include "host/callers.hpp"
#include "host/session.hpp"

/// A function that replaces a function of another library.
#define CLDIST_IN_FRONT extern "C" __attribute__((visibility("default")))
/// Another name of such a function, for example its name for large files.
#define CLDIST_ALIAS(result, name, parameters, of) \
    extern "C" __attribute__((visibility("default"), alias(#of))) result name parameters

namespace cldist::host {

/// Starts the library. Only the first call has an effect: the program's libraries may make wrapped
/// calls before this library's constructor.
void begin();
inline std::atomic<bool> has_begun = false;

/// Returns the session if the program itself calls a function of this group, otherwise null.
/// `caller` is the wrapped function's return address. The call may come from any thread and any
/// callback. Its result must not depend on earlier calls.
inline Session *wrapped_anywhere(unsigned group, const void *caller) {
    if (!has_begun.load(std::memory_order_acquire) && from_program(caller)) begin();
    Session *const session = Session::current();
    return session == nullptr || !session->wraps(group) || this_thread.inside ||
                   !from_program(caller)
               ? nullptr
               : session;
}

/// The same for calls that get rank 0's results in the order of the thread's calls. Null unless a
/// thread of the program calls, outside callbacks: these run in different threads or at different
/// moments in each process.
inline Session *wrapped(unsigned group, const void *caller) {
    const Thread &thread = this_thread;
    if (has_begun.load(std::memory_order_acquire) && (thread.id == 0 || thread.opencl_calls != 0))
        return nullptr;
    Session *const session = wrapped_anywhere(group, caller);
    if (session != nullptr && thread.id == main_thread) session->take_interrupt();
    return thread.id == 0 ? nullptr : session;
}

/// Shifts a time of the program to this host's clock. Returns `time` or `moved`.
const timespec *here(const void *caller, clockid_t clock, const timespec *time, timespec &moved);

/// Draws random bytes from the calling thread's stream, which is the same in all processes.
void draw(const Session &session, void *bytes, std::size_t size);

}  // namespace cldist::host
