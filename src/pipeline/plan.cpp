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

// A path that could not be had (the platform refused to map) leaves the choice to the size.
Path unmapped_path(std::size_t size, std::size_t largest_pinned, const Config &requested) {
    if (requested.path == Path::pinned || requested.path == Path::pipelined) return requested.path;
    return size <= largest_pinned ? Path::pinned : Path::pipelined;
}

}  // namespace

bool plan_mapping(bool host_memory, const Config &requested) {
    return requested.path == Path::mapped || (requested.path == Path::automatic && host_memory);
}

std::size_t largest_inlined(bool host_memory, const Config &requested) {
    if (requested.pinned_max.value != 0) return requested.pinned_max.value;
    return host_memory ? pinned_max_host_memory : pinned_max_device_memory;
}

Plan plan_send(std::size_t size, bool mapped, bool host_memory, const Config &requested) {
    const std::size_t largest = largest_inlined(host_memory, requested);
    if (size == 0) return {Path::pinned, 1, 1, true};
    if (mapped) {
        if (size <= largest) return {Path::mapped, size, 1, true};
        return in_blocks(Path::mapped, size, mapped_block, mapped_depth, requested);
    }
    if (unmapped_path(size, largest, requested) == Path::pipelined)
        return in_blocks(Path::pipelined, size, pipelined_block(size), pipelined_depth, requested);
    if (size < max_block) return {Path::pinned, size, 1, true};
    return {Path::pinned, max_block, 1, false};
}

Plan plan_recv(std::size_t size, std::size_t block, bool mapped, const Config &requested) {
    Config wire = requested;
    wire.block_size.value = block;
    if (mapped) return in_blocks(Path::mapped, size, block, mapped_depth, wire);
    const Path path = unmapped_path(size, 0, requested);
    if (path == Path::pinned) wire.depth = 1;
    return in_blocks(path, size, block, pipelined_depth, wire);
}

}  // namespace cldist
