#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace cldist::tool {

using Secret = std::array<char, 32>;

/// What a rank sends first to the hub of its job.
struct Greeting {
    Secret secret;
    std::uint32_t rank;
    std::uint32_t ranks;
    /// Of a connection that only shows that the rank's host is there: its name. Of one for rank 0's answers: empty.
    std::array<char, 64> host;
};

/// What arrived first on a connection, if it is the greeting of one of a job's ranks. Anybody may have sent it. Takes the same
/// time for all wrong secrets.
[[nodiscard]] std::optional<Greeting> parse_greeting(std::span<const std::byte> bytes, const Secret &secret);

}  // namespace cldist::tool
