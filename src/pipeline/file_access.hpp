#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "pipeline/file_lane.hpp"

namespace cldist {

/// What a call on a file did: the bytes it moved and, if they are fewer than asked for, why.
struct FileResult {
    std::size_t bytes = 0;
    Status status;
};

/// A place in an open file, as a transfer sees it. Offsets are bytes from the start of the transfer. All calls but name()
/// and those that tell what the file wants may block; they come from threads of the library or from the caller of a
/// blocking command, never from the engine. After a failure there are no more reads and writes.
class FileAccess {
public:
    FileAccess() = default;
    FileAccess(const FileAccess &) = delete;
    FileAccess &operator=(const FileAccess &) = delete;
    virtual ~FileAccess() = default;

    /// Names the file in reports: "stream 0x…", "descriptor 5".
    [[nodiscard]] virtual std::string name() const = 0;

    /// Where transfers on the same file stand in line: of those of one lane only the first touches the file, and all its
    /// calls come from one thread. Null if transfers need no order.
    [[nodiscard]] virtual std::shared_ptr<FileLane> lane() const { return nullptr; }
    /// Whether the blocks of one transfer may be read at the same time, by several threads; not with a lane. (Blocks are
    /// written one after the other in any case, so that a failure leaves no gap.)
    [[nodiscard]] virtual bool parallel_reads() const { return false; }
    /// Whether it is memory, which takes blocks in any order and needs neither begin() nor end().
    [[nodiscard]] virtual bool is_memory() const { return false; }
    /// Blocks are multiples of this many bytes, but for the last; 0: the transfer is moved as a whole.
    [[nodiscard]] virtual std::size_t granularity() const { return 1; }
    /// Whether other processes wait in the same call: then there is exactly one, whatever happened before, if need be of 0
    /// bytes. Only for transfers that are moved as a whole.
    [[nodiscard]] virtual bool collective() const { return false; }
    /// Whether there is something to let go of before the command ends: then begin() and end() are called whatever
    /// happened before.
    [[nodiscard]] virtual bool ends_always() const { return collective(); }

    /// Bytes before the first place in the transfer where a block but the first may begin.
    [[nodiscard]] virtual std::size_t first_block() const { return 0; }
    /// What host memory of such a block must be aligned to.
    [[nodiscard]] virtual std::size_t memory_alignment() const { return 1; }
    /// Whether some of it went past the system's page cache.
    [[nodiscard]] virtual bool direct_io() const { return false; }

    /// Before the first block.
    virtual Status begin() { return {}; }
    /// After the last block, whatever came of it, if begin() was called and went well.
    virtual void end() {}
    virtual FileResult read(std::size_t offset, std::byte *to, std::size_t size) = 0;
    virtual FileResult write(std::size_t offset, const std::byte *from, std::size_t size) = 0;
};

}  // namespace cldist
