#pragma once

#include <utility>

namespace cldist {

/// Returns the calling thread's object of type T and creates it at its first use. Unlike a
/// thread_local object it works until the thread ends. This matters because destructors of static
/// objects may make any call, and they run after the thread_local objects of the main thread were
/// destroyed.
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
