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

/// Bytes of blocks that are shared with another process for one message.
inline constexpr std::size_t ring_capacity = std::size_t{16} << 20U;

/// Bytes of a device's memory that another process imports for one message.
inline constexpr std::size_t landing_capacity = std::size_t{64} << 20U;

/// Below, two processes on one GPU exchange through host memory: the GPU changes from one's copies on it to the other's in
/// 80 us, but copies to and from the host for both at once.
inline constexpr std::size_t direct_on_one_device = std::size_t{8} << 20U;

/// The largest block: MPI counts are int.
inline constexpr std::size_t max_block = std::size_t{1} << 30U;

/// Whether the user's choice (CLDIST_PATH, …), the device, whose memory may be the host's, and a profile's advice (or null)
/// for `size` bytes ask for mapping.
bool plan_mapping(bool host_memory, std::size_t size, const Advice *advice, const Config &requested);

/// Whether the queue of a command that returns before it has run shall copy `size` bytes between the device and page-locked
/// memory as a whole, rather than the engine in pieces.
bool plan_copying(bool host_memory, bool same_host, bool ring, std::size_t size, const Advice *advice,
                  const Config &requested);

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
    /// Blocks can pass through memory shared with the far end's process.
    bool ring = false;
    /// The device has memory that other processes can import.
    bool exports = false;
};

/// Whether a message of `size` bytes may go either way: through staging blocks, which is what is planned, or in place.
bool may_stage(std::size_t size, const Situation &situation, const Config &requested);

/// What the sender does with `size` bytes.
Plan plan_send(std::size_t size, const Situation &situation, const Config &requested);

/// What the receiver does with a message that is not inlined and comes in blocks of `block` bytes.
Plan plan_recv(std::size_t size, std::size_t block, const Situation &situation, const Config &requested);

/// What both ends do with a message that is planned for a ring if its bytes go from device to device. `whole`: none is
/// copied to other memory of the sender's.
Plan plan_direct(std::size_t size, const Plan &through_ring, bool whole);

/// No more blocks than a ring holds, if the plan is for one; its blocks may be of another size than planned first.
void fit_ring(Plan &plan, std::size_t size);

/// What a file wants of its blocks; see FileAccess.
struct FileBlocks {
    unsigned threads;         ///< that access it at once
    std::size_t granularity;  ///< 0: the transfer is one block
    std::size_t first = 0;    ///< bytes before the first place where a block may begin
    bool is_memory = false;   ///< of the program's
};

/// What is done with `size` bytes, at least 1, between a device and a file. Of the situation, `same_host` means nothing.
Plan plan_file(std::size_t size, const Situation &situation, const FileBlocks &file, const Config &requested);

}  // namespace cldist
