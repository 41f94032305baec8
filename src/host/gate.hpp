#pragma once

#include "host/callers.hpp"
#include "host/session.hpp"

/// A function that takes the place of one that other libraries have.
#define CLDIST_IN_FRONT extern "C" __attribute__((visibility("default")))

namespace cldist::host {

/// The session, if the program itself calls, from a thread of its own, what this group wraps; else null: the call is none of
/// its business. `caller` is the wrapped function's return address.
inline Session *wrapped(unsigned group, const void *caller) {
    Session *const session = Session::current();
    if (session == nullptr || !session->wraps(group)) return nullptr;
    const Thread &thread = this_thread;
    return thread.id == 0 || thread.inside || !from_program(caller) ? nullptr : session;
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
