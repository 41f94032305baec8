#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "pipeline/file_lane.hpp"

namespace cldist {

/// The result of a file access. If fewer bytes than requested were moved, `status` is the reason.
struct FileResult {
    std::size_t bytes = 0;
    Status status;
};

/// A position in an open file, as one transfer uses it. Offsets are bytes from the start of the
/// transfer. begin(), end(), read() and write() may block. They run on threads of the library or,
/// in a blocking command, on the calling thread, but never on the progress thread. After a failure
/// there are no more reads and writes.
class FileAccess {
public:
    FileAccess() = default;
    FileAccess(const FileAccess &) = delete;
    FileAccess &operator=(const FileAccess &) = delete;
    virtual ~FileAccess() = default;

    /// A name for messages, such as "stream 0x…" or "descriptor 5".
    [[nodiscard]] virtual std::string name() const = 0;

    /// The queue of transfers on the same file. Only the first transfer of a queue accesses the
    /// file, and one thread makes all its calls. Null if transfers need no order.
    [[nodiscard]] virtual std::shared_ptr<FileLane> lane() const { return nullptr; }
    /// Returns true if several threads may read blocks of one transfer at the same time. Only
    /// without a lane. Writes are always sequential, so that a failure leaves no gap.
    [[nodiscard]] virtual bool parallel_reads() const { return false; }
    /// Returns true for memory. It accepts blocks in any order and needs neither begin() nor end().
    [[nodiscard]] virtual bool is_memory() const { return false; }
    /// All blocks except the last are multiples of this many bytes. 0: the transfer is one block.
    [[nodiscard]] virtual std::size_t granularity() const { return 1; }
    /// Returns true if other processes wait in the same call. Exactly one call is then made, with 0
    /// bytes if the transfer failed before it. Only for transfers of one block.
    [[nodiscard]] virtual bool collective() const { return false; }
    /// Returns true if resources must be released before the command ends. begin() and end() are
    /// then called even after a failure.
    [[nodiscard]] virtual bool ends_always() const { return collective(); }

    /// Bytes before the first position where a block other than the first may begin.
    [[nodiscard]] virtual std::size_t first_block() const { return 0; }
    /// Required alignment of a block's host memory from this position on.
    [[nodiscard]] virtual std::size_t memory_alignment() const { return 1; }
    /// Returns true if any part of the transfer bypassed the system's page cache.
    [[nodiscard]] virtual bool direct_io() const { return false; }

    /// Called before the first block.
    virtual Status begin() { return {}; }
    /// Called after the last block if begin() succeeded, even if the transfer failed.
    virtual void end() {}
    virtual FileResult read(std::size_t offset, std::byte *to, std::size_t size) = 0;
    virtual FileResult write(std::size_t offset, const std::byte *from, std::size_t size) = 0;
};

}  // namespace cldist
