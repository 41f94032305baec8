#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "pipeline/file_access.hpp"

namespace cldist {

/// Memory of the program in place of a file. Threads copy it in blocks to or from page-locked
/// memory. The memory must outlive the transfer.
class MemoryAccess final : public FileAccess {
public:
    using Written = std::function<void(std::size_t offset, std::byte *from, std::size_t size)>;

    /// `written`, which may be empty, gets each block that is written.
    explicit MemoryAccess(std::byte *memory, Written written = {})
        : memory_(memory), written_(std::move(written)) {}

    [[nodiscard]] std::string name() const override {
        return fmt::format("memory {}", fmt::ptr(memory_));
    }
    [[nodiscard]] bool is_memory() const override { return true; }
    FileResult read(std::size_t offset, std::byte *to, std::size_t size) override {
        std::memcpy(to, memory_ + offset, size);
        return {size, {}};
    }
    FileResult write(std::size_t offset, const std::byte *from, std::size_t size) override {
        std::memcpy(memory_ + offset, from, size);
        if (written_) written_(offset, memory_ + offset, size);
        return {size, {}};
    }

private:
    std::byte *const memory_;
    const Written written_;
};

}  // namespace cldist
