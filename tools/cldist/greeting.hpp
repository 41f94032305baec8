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
    /// The name of the rank's host, if the connection only shows that the host is there. Empty on connections for rank 0's answers.
    std::array<char, 64> host;
};

/// Returns the greeting in the first bytes of a connection, or nothing if they are not the greeting of one of the job's ranks.
/// Anybody may have sent the bytes. All wrong secrets take the same time.
[[nodiscard]] std::optional<Greeting> parse_greeting(std::span<const std::byte> bytes, const Secret &secret);

}  // namespace cldist::tool
