#pragma once

#include "host/callers.hpp"
#include "host/session.hpp"

/// A function that replaces a function of another library.
#define CLDIST_IN_FRONT extern "C" __attribute__((visibility("default")))

namespace cldist::host {

/// Starts the library once, at the program's start. The program's libraries may make calls before
/// this library's constructor.
void begin();
inline std::atomic<bool> has_begun = false;

/// The session, if the program itself calls what this group wraps, in any thread, in a callback or
/// not; otherwise null. `caller` is the wrapped function's return address. Such a call must not
/// depend on the calls before it.
inline Session *wrapped_anywhere(unsigned group, const void *caller) {
    if (!has_begun.load(std::memory_order_acquire) && from_program(caller)) begin();
    Session *const session = Session::current();
    return session == nullptr || !session->wraps(group) || this_thread.inside ||
                   !from_program(caller)
               ? nullptr
               : session;
}

/// The same for calls that get rank 0's answers in the order of the thread's calls. They must come
/// from a thread of the program, and not from a callback, which runs in another thread or at
/// another moment in each process.
inline Session *wrapped(unsigned group, const void *caller) {
    const Thread &thread = this_thread;
    if (has_begun.load(std::memory_order_acquire) && (thread.id == 0 || thread.opencl_calls != 0))
        return nullptr;
    Session *const session = wrapped_anywhere(group, caller);
    if (session != nullptr && thread.id == main_thread) session->take_interrupt();
    return thread.id == 0 ? nullptr : session;
}

/// A value with what errno was after it.
template <typename T>
struct WithErrno {
    T value;
    int code;
};
template <typename Call>
auto with_errno(Call call) -> WithErrno<decltype(call())> {
    const auto value = call();
    return {value, errno};
}

/// Random bytes for the calling thread, the same in all processes.
void draw(const Session &session, void *bytes, std::size_t size);

}  // namespace cldist::host
