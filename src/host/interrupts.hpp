#pragma once

#include <atomic>
#include <cstdint>

#include "host/channel.hpp"

namespace cldist::host {

/// Chooses the places (Session) at which SIGINT interrupts the program. They are the same in all
/// processes, which must be on one host.
///
/// A place begins with a call and ends before the next one. Each process publishes a place and then
/// checks whether it is interrupted there. An interrupt is first counted and then gets the place
/// that follows that of the most advanced process. A process that comes to that place publishes it
/// after the count, so it finds the interrupt. No process waits for another one. All functions are
/// async-signal-safe.
class Interrupts {
public:
    Interrupts(Channel &channel, int rank);

    /// Call it when this process receives SIGINT. Returns false if there were too many interrupts.
    /// The caller then interrupts the program at once.
    bool note();
    /// Returns true if the program must be interrupted now, once for each interrupt.
    bool take() {
        const std::uint32_t taken = taken_.load(std::memory_order_relaxed);
        return channel_.interrupts.load() != taken && place_ >= place_of(taken + 1) && take(taken);
    }
    /// The same, some time after note(). If no process has reached the chosen place, all may be
    /// waiting, and the present one is chosen instead. `anyhow`: takes an interrupt at any place.
    bool take_late(bool anyhow);
    /// Returns true if there is an interrupt that this process has not taken.
    [[nodiscard]] bool is_pending() const { return channel_.interrupts.load() != taken_; }

private:
    bool take(std::uint32_t taken) { return taken_.compare_exchange_strong(taken, taken + 1); }
    [[nodiscard]] std::uint64_t most_advanced() const;
    std::uint64_t place_of(std::uint32_t interrupt);

    Channel &channel_;
    std::atomic<std::uint64_t> &place_;
    std::atomic<std::uint32_t> noted_;
    std::atomic<std::uint32_t> taken_;
};

}  // namespace cldist::host
