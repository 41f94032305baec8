#pragma once

#include <utility>

namespace cldist {

/// The calling thread's own T, one for each T, made at its first use. Unlike a thread_local object it can be used up to the thread's
/// very end: destructors of static objects, which may make any call, run when those of the main thread are gone.
template <typename T>
T &per_thread() {
    static thread_local T *own = nullptr;
    struct End {
        ~End() { delete std::exchange(own, nullptr); }
    };
    if (own == nullptr) {
        own = new T;
        static thread_local const End end;
        static_cast<void>(end);
    }
    return *own;
}

}  // namespace cldist
