#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "events/operation.hpp"

namespace cldist::cluster {

// The most small (eager) messages in transit: Open MPI scans all postponed messages at each call,
// and sorts them again at the receiver. Larger messages are not counted: they may wait for the
// receiver's program, and must not delay others.
inline constexpr std::size_t small_message = 1024;
inline constexpr std::size_t most_small_messages = 128;

/// An operation's permission to send a small message. Operations without waker, which their callers
/// drive, need none. Only the progress thread may use an object that waits for or holds one.
class SendTurn {
public:
    SendTurn() = default;
    SendTurn(const SendTurn &) = delete;
    SendTurn &operator=(const SendTurn &) = delete;
    ~SendTurn() {
        if (waits_) std::erase(waiting(), this);
        give_back();
    }

    /// Returns true if the operation may send. Otherwise, `waker` is called when to try again.
    bool take(const Waker &waker) {
        if (has_ || !waker) return true;
        if (taken() >= most_small_messages || (!waits_ && !waiting().empty())) {
            if (!waits_) waiting().push_back(this);
            waits_ = true;
            waker_ = &waker;
            return false;
        }
        if (waits_) std::erase(waiting(), this);
        waits_ = false;
        has_ = true;
        ++taken();
        wake_next();
        return true;
    }
    void give_back() {
        if (!std::exchange(has_, false)) return;
        --taken();
        wake_next();
    }
    [[nodiscard]] bool waits() const { return waits_; }

private:
    static std::size_t &taken() {
        static std::size_t count = 0;
        return count;
    }
    static std::deque<SendTurn *> &waiting() {
        static auto &all = *new std::deque<SendTurn *>;
        return all;
    }
    static void wake_next() {
        if (taken() < most_small_messages && !waiting().empty()) (*waiting().front()->waker_)();
    }

    bool has_ = false;
    bool waits_ = false;
    const Waker *waker_ = nullptr;
};

}  // namespace cldist::cluster
