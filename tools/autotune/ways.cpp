#include "ways.hpp"

#include <algorithm>

#include "sizes.hpp"

namespace cldist::tool {
namespace {

// The same as the built-in choice.
constexpr unsigned chunked_depth(bool host_memory) { return host_memory ? 3 : 4; }
constexpr unsigned mapped_depth = 16;
constexpr std::size_t most_blocks = 512;

constexpr Way mapped(std::size_t block) { return {Path::mapped, true, false, block, mapped_depth}; }
// Several threads read a file at once, so more blocks are in flight.
constexpr unsigned file_depth = 12;
constexpr Way chunked(std::size_t block, bool maps, bool host_memory) {
    return {Path::chunked, maps, false, block, chunked_depth(host_memory)};
}
// For the shared and peer-to-peer paths. Block size times depth is at most ring_capacity (16 MiB),
// the memory that both processes share. plan_peer_to_peer() makes the blocks of the peer-to-peer
// path larger.
constexpr Way near(Path path, std::size_t block, bool host_memory) {
    return {path, host_memory, false, block,
            host_memory ? chunked_depth(true) : static_cast<unsigned>(16 * mib / block)};
}
constexpr Way staged{Path::staged, false, false, 0, 1};
constexpr Way eager(bool maps) { return {maps ? Path::mapped : Path::staged, maps, true, 0, 1}; }

}  // namespace

std::vector<std::size_t> sizes_of(Route route, std::size_t largest) {
    std::vector<std::size_t> sizes;
    const std::size_t smallest = is_file(route) ? 64 * kib : kib;
    // The choice changes most between 16 KiB and 1 MiB.
    for (std::size_t size = kib; size <= largest && size <= 64 * mib;
         size *= size >= 16 * kib && size < mib ? 2 : 4)
        if (size >= smallest) sizes.push_back(size);
    return sizes;
}

std::vector<Way> ways_of(Route route, bool host_memory) {
    std::vector<Way> ways;
    if (!is_file(route)) {
        if (host_memory) ways.push_back(eager(true));
        ways.push_back(eager(false));
        for (const std::size_t block : {mib, 4 * mib, 16 * mib})
            if (host_memory) ways.push_back(mapped(block));
        for (std::size_t block = 64 * kib; block <= 8 * mib; block *= 2) {
            if (host_memory) ways.push_back(chunked(block, true, true));
            ways.push_back(chunked(block, false, host_memory));
        }
        if (route == Route::same_host) {
            // Between CPU devices, smaller blocks stay in the caches.
            const std::size_t smallest = host_memory ? 256 * kib : mib;
            for (std::size_t block = smallest; block <= 4 * smallest; block *= 2)
                ways.push_back(near(Path::shared, block, host_memory));
            for (const std::size_t block : {mib, 4 * mib})
                if (!host_memory) ways.push_back(near(Path::peer_to_peer, block, false));
        }
    } else {
        // A mapped write uses one thread, for which several blocks are not faster than one.
        for (const std::size_t block : {2 * mib, 8 * mib, 64 * mib})
            if (host_memory && (route == Route::from_file || block == 64 * mib))
                ways.push_back(mapped(block));
        // On CPU devices, staging memory that exceeds the CPU's caches would be slower.
        const unsigned depth = host_memory ? chunked_depth(true) : file_depth;
        for (std::size_t block = 256 * kib; block <= 8 * mib; block *= 2)
            ways.push_back({Path::chunked, false, false, block, depth});
    }
    ways.push_back(staged);
    return ways;
}

bool is_measured(const Way &way, std::size_t size) {
    if (way.eager) return size <= largest_eager;
    if (way.path == Path::mapped || way.path == Path::staged) return true;
    return way.block < size && size / way.block <= most_blocks;
}

Way as_done(const Way &way, std::size_t size) {
    Way done = way;
    if (done.eager || done.block == 0) return done;
    done.block = std::min(done.block, size);
    done.depth = static_cast<unsigned>(
        std::min<std::size_t>(done.depth, (size + done.block - 1) / done.block));
    return done;
}

}  // namespace cldist::tool
