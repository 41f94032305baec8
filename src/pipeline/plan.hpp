#pragma once

#include <cstddef>

#include "base/config.hpp"
#include "pipeline/profile.hpp"

namespace cldist {

/// How a transfer is done.
struct Plan {
    Path path = Path::pinned;
    std::size_t block = 0;  ///< bytes per block on the wire; at least 1
    unsigned depth = 1;     ///< blocks in flight at once
    /// The message is one block that travels with its envelope.
    bool inlined = false;
    /// Bytes of the first block, so that the others lie where a file wants them; 0: as many as the others.
    std::size_t first = 0;

    bool operator==(const Plan &) const = default;
};

/// The largest block: MPI counts are int.
inline constexpr std::size_t max_block = std::size_t{1} << 30U;

/// Whether the user's choice (CLDIST_PATH, …), the device, whose memory may be the host's, and a profile's advice (or null)
/// for `size` bytes ask for mapping.
bool plan_mapping(bool host_memory, std::size_t size, const Advice *advice, const Config &requested);

/// Whether the queue of a command that returns before it has run shall copy `size` bytes between the device and page-locked
/// memory as a whole, rather than the engine in pieces.
bool plan_copying(bool host_memory, bool same_host, std::size_t size, const Advice *advice, const Config &requested);

/// The largest payload for which a copy is better than a mapping, unless a path is forced.
std::size_t largest_copied(bool host_memory, const Config &requested);

/// What a choice depends on besides the size.
struct Situation {
    bool host_memory;                ///< the device's memory is the host's
    bool mapped;                     ///< the range is mapped
    bool same_host;                  ///< the far end is on this host
    bool strided = false;            ///< the bytes lie apart, so that they can't be sent or received in place
    bool no_device = false;          ///< the range is host memory, not a device's buffer
    const Advice *advice = nullptr;  ///< of a profile, for this route; null: the built-in choice
    /// Blocks are not staged where they could be (may_stage()).
    bool in_place = false;
};

/// Whether a message of `size` bytes may go either way: through staging blocks, which is what is planned, or in place.
bool may_stage(std::size_t size, const Situation &situation, const Config &requested);

/// What the sender does with `size` bytes.
Plan plan_send(std::size_t size, const Situation &situation, const Config &requested);

/// What the receiver does with a message that is not inlined and comes in blocks of `block` bytes.
Plan plan_recv(std::size_t size, std::size_t block, const Situation &situation, const Config &requested);

/// What a file wants of its blocks; see FileAccess.
struct FileBlocks {
    unsigned threads;         ///< that access it at once
    std::size_t granularity;  ///< 0: the transfer is one block
    std::size_t first = 0;    ///< bytes before the first place where a block may begin
};

/// What is done with `size` bytes, at least 1, between a device and a file. Of the situation, `same_host` means nothing.
Plan plan_file(std::size_t size, const Situation &situation, const FileBlocks &file, const Config &requested);

}  // namespace cldist
