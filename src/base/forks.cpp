#include "base/forks.hpp"

#include <pthread.h>

#include <atomic>
#include <mutex>

namespace cldist {
namespace {

std::atomic<bool> forked{false};

}  // namespace

void watch_for_forks() {
    static std::once_flag once;
    std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { forked = true; }); });
}

bool in_forked_child() { return forked.load(std::memory_order_relaxed); }

}  // namespace cldist
