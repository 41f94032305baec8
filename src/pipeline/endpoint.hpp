#pragma once

#include <cstddef>
#include <optional>

#include "base/status.hpp"

namespace cldist {

/// A part of a transfer.
struct Block {
    std::size_t index;
    std::size_t offset;  ///< bytes from the start of the transfer
    std::size_t size;
    unsigned slot;              ///< index modulo depth
    std::byte *host = nullptr;  ///< where its bytes lie, or will lie, in host memory
    bool skipped = false;       ///< it carries nothing: the transfer had failed
    bool shortened = false;     ///< its source failed after `size` bytes, which are moved on
};

/// How something ended; nothing while it is still going on.
using Outcome = std::optional<Status>;

/// One end of a transfer: a device buffer, an MPI peer, a file. A source fills blocks, a sink drains them. Blocks are
/// started in order and end in order; a block ends before another starts in its slot. Nothing here blocks.
class Endpoint {
public:
    Endpoint() = default;
    Endpoint(const Endpoint &) = delete;
    Endpoint &operator=(const Endpoint &) = delete;
    virtual ~Endpoint() = default;

    /// Asked until it answers, before any block.
    virtual Outcome open() { return Status{}; }
    virtual void start(const Block &block) = 0;
    /// Starts a block of a transfer that has failed: only what the far end needs to get to its end.
    virtual void skip(const Block &block) = 0;
    /// Asked until it answers, for a block that was started or skipped.
    virtual Outcome ended(const Block &block) = 0;
    /// Of a block that ended with a failure: how many bytes from its start were moved all the same.
    [[nodiscard]] virtual std::size_t moved_of_failed(const Block &) const { return 0; }
    /// Asked until it answers, after the last block; also where open() was not, since the transfer had failed before.
    virtual Outcome close() { return Status{}; }
};

/// The end that has the device's bytes, and so decides where blocks lie in host memory.
class DeviceEndpoint : public Endpoint {
public:
    virtual std::byte *host(const Block &block) = 0;
};

}  // namespace cldist
