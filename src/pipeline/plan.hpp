#pragma once

#include <cstddef>
#include <string>

#include "base/config.hpp"
#include "pipeline/profile.hpp"

namespace cldist {

/// How a transfer moves its bytes.
struct Plan {
    Path path = Path::staged;
    std::size_t block = 0;  ///< bytes per block at both ends; at least 1
    unsigned depth = 1;     ///< blocks in flight
    /// The message is one block that travels with its header.
    bool eager = false;
    /// Bytes of the first block, which aligns the others in a file. 0: the same as the others.
    std::size_t first = 0;

    bool operator==(const Plan &) const = default;
};

/// Bytes of a Ring, through which the blocks of one message at a time pass.
inline constexpr std::size_t ring_capacity = std::size_t{16} << 20U;

/// Bytes of device memory that a sender exports for one message's blocks (Ring::landing()).
inline constexpr std::size_t landing_capacity = std::size_t{64} << 20U;

/// Below this size, two processes on one GPU exchange data through host memory. The GPU takes 80 us
/// to switch between copies of the two processes on the device, but it serves copies to and from
/// the host for both at once.
inline constexpr std::size_t direct_on_one_device = std::size_t{8} << 20U;

/// Memory that a device shares with the devices of other processes.
enum class Exports {
    nothing,
    landing,  ///< memory to which the device copies the blocks first
    range     ///< the bytes themselves
};

/// The largest block, because MPI counts are int.
inline constexpr std::size_t max_block = std::size_t{1} << 30U;

/// Below this size, kernels move no messages unless the user requests it, because the host is as
/// fast (decision 45).
inline constexpr std::size_t least_bytes_by_kernel = std::size_t{64} << 10U;

/// Returns true if the user requests that kernels move the bytes.
[[nodiscard]] constexpr bool requests_kernels(Path requested) {
    return requested == Path::device || requested == Path::kernel;
}

/// Returns true if kernels move `size` bytes between GPUs of a host that can share memory.
[[nodiscard]] constexpr bool uses_kernels(Path requested, std::size_t size) {
    return requests_kernels(requested) ||
           (requested == Path::automatic && size >= least_bytes_by_kernel);
}

/// Describes whether kernels move messages between the GPUs of a host. `obstacle`: see
/// obstacle_to_kernels().
[[nodiscard]] std::string kernels_in_words(const std::string &obstacle, Path requested);

/// The requested path for bytes that the host moves: automatic if the user requests kernels.
[[nodiscard]] constexpr Path host_path(const Config &requested) {
    return requests_kernels(requested.path) ? Path::automatic : requested.path;
}

/// Returns true if the range should be mapped. This depends on CLDIST_PATH, on whether the device
/// uses host memory, and on the profile's advice (or null) for `size` bytes.
bool plan_mapping(bool host_memory, std::size_t size, const Advice *advice,
                  const Config &requested);

/// Returns true if the queue of a non-blocking command should copy all `size` bytes to or from
/// page-locked memory. Otherwise the progress thread copies them in blocks.
bool plan_copying(bool host_memory, bool same_host, bool ring, std::size_t size,
                  const Advice *advice, const Config &requested);

/// The largest payload to copy rather than map: CLDIST_STAGED_MAX or a default. Ignores
/// CLDIST_PATH.
std::size_t largest_copied(bool host_memory, const Config &requested);

/// The facts that a plan depends on, apart from the size.
struct Situation {
    bool host_memory;  ///< the device uses host memory
    bool mapped;       ///< the range is mapped
    bool same_host;    ///< the far end is on this host
    /// The bytes are not contiguous and can't be sent or received in place.
    bool strided = false;
    bool no_device = false;  ///< the range is host memory, not a device buffer
    /// The profile's advice for this route. Null: the built-in choice.
    const Advice *advice = nullptr;
    /// Blocks are not staged even if may_stage() returns true.
    bool in_place = false;
    /// Blocks can pass through a Ring that is shared with the far end's process.
    bool ring = false;
    Exports exports = Exports::nothing;  ///< of the sender's device
};

/// Returns true if a message of `size` bytes may either use staging blocks, which is the default
/// plan, or move in place.
bool may_stage(std::size_t size, const Situation &situation, const Config &requested);

/// The sender's plan for `size` bytes.
Plan plan_send(std::size_t size, const Situation &situation, const Config &requested);

/// The receiver's plan for a message that does not travel with its header and arrives in blocks of
/// `block` bytes.
Plan plan_recv(std::size_t size, std::size_t block, const Situation &situation,
               const Config &requested);

/// The plan of both ends for a message that was planned for a ring but moves from device to device.
/// `exports_range`: the receiver reads the sender's buffer directly, without a copy in between.
Plan plan_peer_to_peer(std::size_t size, const Plan &through_ring, bool exports_range);

/// Limits block size and depth to a ring's capacity, if the plan uses one. Call it after changes.
void fit_ring(Plan &plan, std::size_t size);

/// What a plan depends on besides the Situation, for files. See FileAccess.
struct FileBlocks {
    unsigned threads;         ///< threads that access the file at the same time
    std::size_t granularity;  ///< 0: the transfer is one block
    std::size_t first = 0;    ///< bytes before the first position where a block may begin
    bool is_memory = false;   ///< memory of the program instead of a file
};

/// The plan for `size` bytes, at least 1, between device and file. Ignores `situation.same_host`.
Plan plan_file(std::size_t size, const Situation &situation, const FileBlocks &file,
               const Config &requested);

}  // namespace cldist
