#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace cldist::tool {

using Secret = std::array<char, 32>;

/// The first data that a rank sends to the hub of its job.
struct Greeting {
    Secret secret;
    std::uint32_t rank;
    std::uint32_t ranks;
    /// The name of the rank's host, if the connection only shows that the host is alive. Empty on
    /// connections for rank 0's answers.
    std::array<char, 64> host;
};

/// Parses the first bytes of a connection, which any program may have sent. Returns nothing if they
/// are not the greeting of one of the job's ranks. Secrets are compared in constant time.
[[nodiscard]] std::optional<Greeting> parse_greeting(std::span<const std::byte> bytes,
                                                     const Secret &secret);

}  // namespace cldist::tool
