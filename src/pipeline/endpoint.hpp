#pragma once

#include <cstddef>
#include <optional>

#include "base/status.hpp"

namespace cldist {

/// A block of a transfer.
struct Block {
    std::size_t index;
    std::size_t offset;  ///< bytes from the start of the transfer
    std::size_t size;
    unsigned slot;              ///< index modulo depth
    std::byte *host = nullptr;  ///< address of its bytes in host memory
    bool skipped = false;       ///< carries no data, because the transfer has failed
    bool shortened = false;     ///< an endpoint failed after the first `size` bytes
};

/// The result of a step. Empty until the step ends.
using Outcome = std::optional<Status>;

/// One end of a transfer: a device buffer, an MPI peer, or a file. A source fills blocks, and a
/// sink drains them. Blocks start and end in order. A block ends before the next block starts in
/// its slot. No function waits for the far end. On a blocking command's thread, functions may wait
/// for the device or the file.
class Endpoint {
public:
    Endpoint() = default;
    Endpoint(const Endpoint &) = delete;
    Endpoint &operator=(const Endpoint &) = delete;
    virtual ~Endpoint() = default;

    /// Called before any block, repeatedly until it returns a result.
    virtual Outcome open() { return Status{}; }
    virtual void start(const Block &block) = 0;
    /// Starts a block of a failed transfer. Does only what the far end needs to finish.
    virtual void skip(const Block &block) = 0;
    /// Called for a started or skipped block, repeatedly until it returns a result.
    virtual Outcome ended(const Block &block) = 0;
    /// The number of bytes that were moved, from the start of a block that has failed.
    [[nodiscard]] virtual std::size_t moved_of_failed(const Block &) const { return 0; }
    /// Called after the last block, repeatedly until it returns a result. If the transfer failed
    /// early, open() may not have been called.
    virtual Outcome close() { return Status{}; }
};

/// The end at the device buffer. It chooses the host memory of each block.
class DeviceEndpoint : public Endpoint {
public:
    virtual std::byte *host(const Block &block) = 0;
};

}  // namespace cldist
