#include "pipeline/plan.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>

namespace cldist {
namespace {

// Defaults without a profile. docs/dev/performance-log.md contains the measurements behind them.
constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;
constexpr std::size_t staged_max_host_memory = 16 * kib;
constexpr std::size_t staged_max_device_memory = 64 * kib;
constexpr std::size_t staged_eager_limit = 256 * kib;
// Up to this size, one copy of the whole message is faster. With blocks, driver and progress thread
// lose more time in handing them over.
constexpr std::size_t host_eager_limit = 4 * mib;
constexpr std::size_t mapped_block = 16 * mib;
// In place on one host, this size gives enough blocks to detect when the far end began.
constexpr std::size_t smallest_mapped_block_on_host = 128 * kib;
constexpr unsigned mapped_depth = 16;

// Between processes of one host, MPI copies from one memory to the other. From this size on,
// staging is faster than transfers in place, because staging blocks stay in the caches and are in
// huge pages.
constexpr std::size_t staged_on_host_min = mib / 2;

// Limits for devices that have their own memory, if a ring is possible. With a ring, the copies of
// the two devices overlap and MPI copies nothing. The first limit is for path shared or
// peer-to-peer on request: the sender of a smaller message may expect not to wait for the receiver.
constexpr std::size_t never_through_ring = 4 * kib;
constexpr std::size_t most_beside_ring = 16 * kib;
// The largest message that the command's queue copies in one piece.
constexpr std::size_t most_copied_beside_ring = 512 * kib;

// Enough blocks to overlap, but few enough that the start-up cost of each is small.
std::size_t chunked_block(std::size_t size, bool host_memory) {
    return std::clamp(size / 8, 128 * kib, host_memory ? 512 * kib : 4 * mib);
}
unsigned chunked_depth(bool host_memory) { return host_memory ? 3 : 4; }

std::size_t ring_block(std::size_t size, bool host_memory) {
    if (host_memory) return chunked_block(size, true);
    return size <= 2 * mib ? std::max(size / 2, 256 * kib) : std::clamp(size / 8, mib, 4 * mib);
}
// Between CPU devices the blocks stay in the caches.
unsigned ring_depth(bool host_memory) { return host_memory ? chunked_depth(true) : 16; }

// A file block is large enough to hand to a thread or a remote device. It is a multiple of huge
// pages, which suits direct I/O.
constexpr std::size_t file_block = 2 * mib;
constexpr std::size_t smallest_memory_block = 256 * kib;
// If one thread accesses the file in place, blocks only serve progress reports.
constexpr std::size_t mapped_file_block_of_one = 64 * mib;
// Below this size, one thread (in a blocking command the caller) fills host memory as fast as
// several.
constexpr std::size_t mapped_by_threads_min = 16 * mib;
// The limit of host memory for one transfer between file and device.
constexpr std::size_t most_file_staging = 64 * mib;

Plan in_blocks(Path path, std::size_t size, std::size_t block, unsigned depth,
               const Config &requested) {
    block = std::min(
        {requested.block_size.value != 0 ? requested.block_size.value : block, size, max_block});
    depth = requested.depth != 0 ? requested.depth : depth;
    return {path, block,
            static_cast<unsigned>(std::min<std::size_t>(depth, (size + block - 1) / block)), false};
}

// The largest payload of an eager message, unless the user forces a path.
std::size_t eager_limit(const Situation &situation, const Config &requested) {
    if (situation.host_memory || situation.mapped || requested.staged_max.value != 0)
        return largest_copied(situation.host_memory, requested);
    if (situation.ring) return most_beside_ring;
    return situation.same_host ? host_eager_limit : staged_eager_limit;
}

// The way that the profile recommends. Null if the user forces a path, or if the range is strided
// or host memory.
const Way *advised(std::size_t size, const Situation &situation, const Config &requested) {
    if (situation.advice == nullptr || host_path(requested) != Path::automatic ||
        situation.no_device || situation.strided)
        return nullptr;
    const std::optional<Way> &way = situation.advice->way(size);
    return way ? &*way : nullptr;
}

// The path of `way`, or the most similar path if the range is not mapped or has no ring.
Path path_of_way(const Way &way, const Situation &situation) {
    const bool near = way.path == Path::shared || way.path == Path::peer_to_peer;
    if (near && !situation.ring) return Path::chunked;
    if (way.path == Path::peer_to_peer &&
        (situation.exports == Exports::nothing || situation.mapped))
        return Path::shared;
    return way.path == Path::mapped && !situation.mapped ? Path::chunked : way.path;
}

// The smallest message that the receiver's device copies from the sender's. Each copy between
// devices waits for the host, so smaller messages are faster through host memory.
std::size_t least_direct(Exports exports, Path requested) {
    constexpr std::size_t never = std::numeric_limits<std::size_t>::max();
    if (exports == Exports::nothing || requested == Path::shared) return never;
    if (requested == Path::peer_to_peer) return 0;
    return exports == Exports::range ? 256 * kib : mib;
}

Plan in_one_block(std::size_t size) { return {Path::staged, std::min(size, max_block), 1, false}; }

// The path of a message that does not travel with its header.
Path path_in_blocks(std::size_t size, const Situation &situation, const Config &requested) {
    const bool forced =
        host_path(requested) == Path::shared || host_path(requested) == Path::peer_to_peer;
    const bool better =
        host_path(requested) == Path::automatic && (situation.no_device || !situation.host_memory);
    const bool ring = situation.ring && (forced || better);
    if (situation.no_device) return ring ? Path::shared : Path::mapped;
    if (host_path(requested) == Path::staged) return Path::staged;
    const bool direct = ring && !situation.mapped && !situation.strided &&
                        size >= least_direct(situation.exports, host_path(requested));
    if (direct) return Path::peer_to_peer;
    if (!situation.mapped || situation.strided) return ring ? Path::shared : Path::chunked;
    if (host_path(requested) == Path::mapped) return Path::mapped;
    if (situation.in_place || !situation.same_host || size < staged_on_host_min)
        return Path::mapped;
    return Path::chunked;
}

}  // namespace

bool may_stage(std::size_t size, const Situation &situation, const Config &requested) {
    return host_path(requested) == Path::automatic && requested.block_size.value == 0 &&
           situation.mapped && !situation.strided &&
           advised(size, situation, requested) == nullptr && size >= staged_on_host_min &&
           path_in_blocks(size, situation, requested) != Path::mapped;
}

bool plan_mapping(bool host_memory, std::size_t size, const Advice *advice,
                  const Config &requested) {
    // A device with its own memory may free a mapping's memory when the unmapping is enqueued.
    if (!host_memory) return false;
    if (host_path(requested) != Path::automatic) return host_path(requested) == Path::mapped;
    return advice == nullptr || !advice->way(size) || advice->way(size)->maps;
}

bool plan_copying(bool host_memory, bool same_host, bool ring, std::size_t size,
                  const Advice *advice, const Config &requested) {
    const Situation device_memory{false, false, same_host};
    if (size == 0 || size > std::min(eager_limit(device_memory, requested), host_eager_limit))
        return false;
    if (ring && size > most_copied_beside_ring && host_path(requested) == Path::automatic &&
        requested.staged_max.value == 0)
        return false;
    if (host_path(requested) != Path::automatic) return host_path(requested) == Path::staged;
    const std::optional<Way> &way = advice != nullptr ? advice->way(size) : std::nullopt;
    return way ? !way->maps && (way->eager || way->path == Path::staged) : !host_memory;
}

std::size_t largest_copied(bool host_memory, const Config &requested) {
    if (requested.staged_max.value != 0) return requested.staged_max.value;
    return host_memory ? staged_max_host_memory : staged_max_device_memory;
}

Plan plan_send(std::size_t size, const Situation &situation, const Config &requested) {
    if (size == 0) return {Path::staged, 1, 1, true};
    const Way *way =
        requested.staged_max.value == 0 ? advised(size, situation, requested) : nullptr;
    // A profile that advises neither shared nor peer-to-peer may not have measured these paths. If
    // the device has its own memory, a ring is faster than MPI.
    const bool by_mpi =
        way != nullptr && way->path != Path::shared && way->path != Path::peer_to_peer;
    if (by_mpi && situation.ring && !situation.host_memory) way = nullptr;
    const bool insists_on_blocks =
        ((host_path(requested) == Path::shared || host_path(requested) == Path::peer_to_peer) &&
         size > never_through_ring) ||
        (host_path(requested) == Path::chunked && !situation.no_device);
    if (way != nullptr ? way->eager
                       : !insists_on_blocks && size <= eager_limit(situation, requested))
        return {situation.mapped ? Path::mapped : Path::staged, size, 1, true};
    if (way != nullptr) {
        const Path path = path_of_way(*way, situation);
        if (path == Path::staged) return in_one_block(size);
        Plan plan = in_blocks(path, size, way->block, way->depth, requested);
        fit_ring(plan, size);
        return plan;
    }
    switch (path_in_blocks(size, situation, requested)) {
        case Path::mapped: {
            // The far end may be a device that copies each block from host memory when it arrives.
            // On this host it may be a CPU device.
            const std::size_t block =
                situation.no_device ? chunked_block(size, situation.same_host)
                : situation.in_place
                    ? std::clamp(size / 8, smallest_mapped_block_on_host, mapped_block)
                    : mapped_block;
            return in_blocks(Path::mapped, size, block, mapped_depth, requested);
        }
        case Path::staged:
            if (size <= staged_eager_limit) return {Path::staged, size, 1, true};
            return in_one_block(size);
        case Path::shared:
        case Path::peer_to_peer: {
            const Path path = path_in_blocks(size, situation, requested);
            Plan plan = in_blocks(path, size, ring_block(size, situation.host_memory),
                                  ring_depth(situation.host_memory), requested);
            fit_ring(plan, size);
            return plan;
        }
        default: break;
    }
    return in_blocks(Path::chunked, size, chunked_block(size, situation.host_memory),
                     chunked_depth(situation.host_memory), requested);
}

void fit_ring(Plan &plan, std::size_t size) {
    if (plan.path != Path::shared && plan.path != Path::peer_to_peer) return;
    plan.block = std::min(plan.block, ring_capacity);
    const std::size_t blocks = (size + plan.block - 1) / plan.block;
    plan.depth = static_cast<unsigned>(
        std::min({std::size_t{plan.depth}, ring_capacity / plan.block, blocks}));
}

Plan plan_peer_to_peer(std::size_t size, const Plan &through_ring, bool exports_range) {
    // Each block costs about 10 us in addition to its copy. A copy between two devices takes 90 us
    // for 32 MiB. Two blocks must be in flight.
    const std::size_t block = std::min(
        size, exports_range ? max_block : std::min(8 * through_ring.block, landing_capacity / 2));
    const std::size_t blocks = (size + block - 1) / block;
    const std::size_t depth =
        exports_range ? 4 : std::min<std::size_t>(landing_capacity / block, 4);
    return {Path::peer_to_peer, block, static_cast<unsigned>(std::min(depth, blocks))};
}

Plan plan_recv(std::size_t size, std::size_t block, const Situation &situation,
               const Config &requested) {
    Config wire = requested;
    wire.block_size.value = block;
    const Way *const way = advised(size, situation, requested);
    const bool follows = way != nullptr && !way->eager;
    const Path path =
        follows ? path_of_way(*way, situation) : path_in_blocks(size, situation, requested);
    if (path == Path::staged) wire.depth = 1;
    const unsigned depth = follows                ? way->depth
                           : path == Path::mapped ? mapped_depth
                                                  : chunked_depth(situation.host_memory);
    return in_blocks(path, size, block, depth, wire);
}

Plan plan_file(std::size_t size, const Situation &situation, const FileBlocks &file,
               const Config &requested) {
    const Way *const way = advised(size, situation, requested);
    const Path path_wanted = way != nullptr ? path_of_way(*way, situation) : host_path(requested);
    const bool staged = path_wanted == Path::staged;
    const bool mapped = situation.mapped && !staged && path_wanted != Path::chunked;
    const std::size_t granularity = file.granularity != 0 ? file.granularity : size;
    const unsigned threads = mapped && size < mapped_by_threads_min ? 1 : file.threads;
    const std::size_t wanted = staged                            ? max_block
                               : requested.block_size.value != 0 ? requested.block_size.value
                               : way != nullptr                  ? way->block
                               : mapped && threads == 1          ? mapped_file_block_of_one
                               : file.is_memory
                                   ? std::clamp(size / 8, smallest_memory_block, file_block)
                                   : file_block;
    const std::size_t first = file.first < size ? file.first : 0;
    // The nearest smaller multiple, but at least one.
    const std::size_t parts = std::max<std::size_t>(std::min(wanted, max_block) / granularity, 1);
    const std::size_t block = std::min(parts * granularity, size);
    const std::size_t blocks = (size - first + block - 1) / block + (first != 0 ? 1 : 0);
    unsigned depth = staged                 ? 1
                     : requested.depth != 0 ? requested.depth
                     : way != nullptr       ? way->depth
                     : mapped               ? threads + 1
                                            : chunked_depth(situation.host_memory) + threads - 1;
    // Blocks may be larger than requested.
    if (!mapped)
        depth = std::min<unsigned>(depth, std::max<std::size_t>(most_file_staging / block, 2));
    const Path path = mapped ? Path::mapped : staged || blocks == 1 ? Path::staged : Path::chunked;
    return {path, block, static_cast<unsigned>(std::min<std::size_t>(depth, blocks)), false, first};
}

std::string kernels_in_words(const std::string &obstacle, Path requested) {
    if (!obstacle.empty()) return "impossible: " + obstacle;
    if (!uses_kernels(requested, least_bytes_by_kernel))
        return fmt::format("possible, but CLDIST_PATH={} does not use them", name_of(requested));
    return fmt::format("used{} if one process of the job has the GPU alone (CLDIST_PATH={})",
                       requests_kernels(requested) ? "" : " from 64 KiB on", name_of(requested));
}

}  // namespace cldist
