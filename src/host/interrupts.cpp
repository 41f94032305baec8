#include "host/interrupts.hpp"

#include <algorithm>
#include <cstddef>

namespace cldist::host {

Interrupts::Interrupts(Channel &channel, int rank)
    : channel_(channel),
      place_(channel.ranks.at(static_cast<std::size_t>(rank)).place),
      noted_(channel.interrupts.load()),
      taken_(noted_.load()) {}

bool Interrupts::note() {
    const std::uint32_t number = ++noted_;
    if (number > channel_.interrupt_at.size()) return false;
    std::uint32_t count = channel_.interrupts.load();
    while (count < number && !channel_.interrupts.compare_exchange_weak(count, number)) {
    }
    place_of(number);
    return true;
}

bool Interrupts::take_late(bool anyhow) {
    const std::uint32_t taken = taken_;
    if (channel_.interrupts.load() == taken) return false;
    std::uint64_t at = place_of(taken + 1);
    const std::uint64_t present = most_advanced();
    if (present + 1 == at && channel_.interrupt_at.at(taken).compare_exchange_strong(at, present))
        at = present;
    return (anyhow || place_ >= at) && take(taken);
}

std::uint64_t Interrupts::most_advanced() const {
    std::uint64_t most = 0;
    for (std::size_t rank = 0; rank <= channel_.readers; ++rank)
        most = std::max(most, channel_.ranks.at(rank).place.load());
    return most;
}

// Chooses the place unless a process has done so.
std::uint64_t Interrupts::place_of(std::uint32_t interrupt) {
    std::atomic<std::uint64_t> &place = channel_.interrupt_at.at(interrupt - 1);
    std::uint64_t chosen = place.load();
    if (chosen != 0) return chosen;
    const std::uint64_t next = most_advanced() + 1;
    return place.compare_exchange_strong(chosen, next) ? next : chosen;
}

}  // namespace cldist::host
