#pragma once

#include <cstddef>

#include "base/config.hpp"

namespace cldist {

/// How a transfer is done.
struct Plan {
    Path path = Path::pinned;
    std::size_t block = 0;  ///< bytes per block on the wire; at least 1
    unsigned depth = 1;     ///< blocks in flight at once
    /// The message is one block that travels with its envelope.
    bool inlined = false;

    bool operator==(const Plan &) const = default;
};

/// The largest block: MPI counts are int.
inline constexpr std::size_t max_block = std::size_t{1} << 30U;

/// Whether the user's choice (CLDIST_PATH, …) and the device, whose memory may be the host's, ask for mapping.
bool plan_mapping(bool host_memory, const Config &requested);

/// The largest payload that travels with its envelope, unless a path is forced.
std::size_t largest_inlined(bool host_memory, const Config &requested);

/// What a choice depends on besides the size.
struct Situation {
    bool host_memory;        ///< the device's memory is the host's
    bool mapped;             ///< the range is mapped
    bool same_host;          ///< the far end is on this host
    bool strided = false;    ///< the bytes lie apart, so that they can't be sent or received in place
    bool no_device = false;  ///< the range is host memory, not a device's buffer
};

/// What the sender does with `size` bytes.
Plan plan_send(std::size_t size, const Situation &situation, const Config &requested);

/// What the receiver does with a message that is not inlined and comes in blocks of `block` bytes.
Plan plan_recv(std::size_t size, std::size_t block, const Situation &situation, const Config &requested);

}  // namespace cldist
