#include "pipeline/plan.hpp"

#include <algorithm>

namespace cldist {
namespace {

// Sound without measuring; docs/benchmarks.md has what they were chosen from.
constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;
constexpr std::size_t pinned_max_host_memory = 16 * kib;
constexpr std::size_t pinned_max_device_memory = 64 * kib;
constexpr std::size_t mapped_block = 16 * mib;
constexpr unsigned mapped_depth = 16;
constexpr unsigned pipelined_depth = 4;

// Enough blocks to overlap, few enough that each is worth its start-up costs.
std::size_t pipelined_block(std::size_t size) { return std::clamp(size / 8, 128 * kib, 4 * mib); }

Plan in_blocks(Path path, std::size_t size, std::size_t block, unsigned depth, const Config &requested) {
    block = std::min({requested.block_size.value != 0 ? requested.block_size.value : block, size, max_block});
    depth = requested.depth != 0 ? requested.depth : depth;
    return {path, block, static_cast<unsigned>(std::min<std::size_t>(depth, (size + block - 1) / block)), false};
}

}  // namespace

Plan plan_send(std::size_t size, bool host_memory, const Config &requested) {
    const std::size_t default_max = host_memory ? pinned_max_host_memory : pinned_max_device_memory;
    const std::size_t pinned_max = requested.pinned_max.value != 0 ? requested.pinned_max.value : default_max;
    Path path = requested.path;
    if (path == Path::automatic) {
        if (size <= pinned_max)
            path = Path::pinned;
        else
            path = host_memory ? Path::mapped : Path::pipelined;
    }
    if (size == 0) path = Path::pinned;
    switch (path) {
        case Path::mapped: return in_blocks(path, size, mapped_block, mapped_depth, requested);
        case Path::pipelined: return in_blocks(path, size, pipelined_block(size), pipelined_depth, requested);
        default: break;
    }
    if (size < max_block) return {Path::pinned, std::max<std::size_t>(size, 1), 1, true};
    return {Path::pinned, max_block, 1, false};
}

Plan plan_recv(std::size_t size, std::size_t block, bool host_memory, const Config &requested) {
    Config wire = requested;
    wire.block_size.value = block;
    Path path = requested.path;
    if (path == Path::automatic) path = host_memory ? Path::mapped : Path::pipelined;
    if (path == Path::pinned) wire.depth = 1;
    return in_blocks(path, size, block, path == Path::mapped ? mapped_depth : pipelined_depth, wire);
}

}  // namespace cldist
