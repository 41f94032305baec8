#include "cluster/world/call_confirmation.hpp"

#include <chrono>

namespace cldist::cluster {

namespace {

constexpr std::chrono::milliseconds longest_confirmation{2000};

}  // namespace

void CallConfirmation::wait(const std::atomic<bool> &differs) {
    const std::uint64_t wanted = to_confirm();
    const auto confirmed = [&] {
        return !enabled_ ||
               (equal_ >= wanted && (threads_settled_ || !log_.threads().has_overlap()));
    };
    if (confirmed()) return;
    log_.at_checkpoint.wake();
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, longest_confirmation, confirmed)) {
        if (!differs && !held_) enabled_ = false;
    }
}

void CallConfirmation::note_equal(std::uint64_t equal) {
    if (equal == equal_) return;
    const std::lock_guard lock(mutex_);
    equal_ = equal;
    changed_.notify_all();
}

void CallConfirmation::go_on() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    threads_settled_ = true;
    changed_.notify_all();
}

/// The number of the last call that must be equal before the program gets results. The threads of
/// another process may have changed later, so soon after a change this is the last call.
std::uint64_t CallConfirmation::to_confirm() const {
    constexpr std::uint64_t soon = 1024;
    const std::uint64_t changed_at = log_.threads().changed_at(), last = log_.count();
    return changed_at != 0 && last - changed_at < soon ? last : changed_at;
}

}  // namespace cldist::cluster
