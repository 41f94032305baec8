#pragma once

#include <cstddef>
#include <cstdint>

namespace cldist::cluster {

/// What a message of the cluster platform carries.
enum class Content : std::uint64_t { data, status, result };

/// Derives the tag of a message from its number and, as far as MPI has tags (0 to `max_tag`), from
/// its content and size. If processes make different calls, their numbers mean different messages.
/// Such messages must not match. Open MPI (4.1) writes all bytes of a large message to a smaller
/// receive if it copies between the processes' memories.
inline int message_tag(int max_tag, std::uint64_t number, Content content, std::size_t size) {
    constexpr std::uint64_t numbers = std::uint64_t{1} << 19U;
    const std::uint64_t tags = static_cast<std::uint64_t>(max_tag) + 1;
    if (tags < 2 * numbers) return static_cast<int>(number % tags);
    const std::uint64_t hash =
        (4 * std::uint64_t{size} + static_cast<std::uint64_t>(content)) * 0x9e3779b97f4a7c15U;
    return static_cast<int>((hash >> 32U) % (tags / numbers) * numbers + number % numbers);
}

}  // namespace cldist::cluster
