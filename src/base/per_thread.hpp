#pragma once

#include <utility>

namespace cldist {

/// Returns the calling thread's object of type T, and creates it at its first use. Unlike a
/// thread_local object, it also works in destructors of static objects, which run after the
/// thread_local objects of the main thread were destroyed.
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
