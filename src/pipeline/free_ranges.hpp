#pragma once

#include <cstddef>
#include <iterator>
#include <map>
#include <optional>

namespace cldist {

/// A first-fit allocator of ranges of some memory. Not thread-safe.
class FreeRanges {
public:
    static constexpr std::size_t alignment = 256;

    FreeRanges(std::size_t begin, std::size_t size) { free_.emplace(begin, size); }

    /// Returns the offset of a free range of `size` bytes (at least 1), or nothing.
    std::optional<std::size_t> take(std::size_t size) {
        size = rounded(size);
        for (auto at = free_.begin(); at != free_.end(); ++at) {
            if (at->second < size) continue;
            const auto [offset, length] = *at;
            free_.erase(at);
            if (length > size) free_.emplace(offset + size, length - size);
            return offset;
        }
        return std::nullopt;
    }
    /// Frees a range that take(size) returned.
    void give_back(std::size_t offset, std::size_t size) {
        auto at = free_.emplace(offset, rounded(size)).first;
        if (const auto next = std::next(at);
            next != free_.end() && at->first + at->second == next->first) {
            at->second += next->second;
            free_.erase(next);
        }
        if (at == free_.begin()) return;
        const auto before = std::prev(at);
        if (before->first + before->second != at->first) return;
        before->second += at->second;
        free_.erase(at);
    }

private:
    static std::size_t rounded(std::size_t size) {
        return (size + alignment - 1) / alignment * alignment;
    }

    std::map<std::size_t, std::size_t> free_;  ///< size by offset; no two ranges are adjacent
};

}  // namespace cldist
