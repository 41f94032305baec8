#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include "pipeline/peer_memory.hpp"

namespace cldist::collectives {

/// Memory through which bytes move from one device of a context to another. Commands take pieces of
/// it in turn.
class Landing {
public:
    /// Bytes of a piece.
    static constexpr std::size_t piece_size = std::size_t{8} << 20U;

    /// Null if the devices share no memory. The memory of the last few contexts is kept.
    /// Thread-safe.
    static std::shared_ptr<Landing> between(cl_context context, cl_device_id writer,
                                            cl_device_id owner);

    explicit Landing(std::shared_ptr<const PeerMemory> memory) : memory_(std::move(memory)) {}

    [[nodiscard]] const PeerMemory &memory() const { return *memory_; }

    struct Piece {
        std::size_t offset;       ///< bytes
        Event last;               ///< the end of the last use; null if it was seen
        cl_command_queue writer;  ///< the queues of the last use, if both are in-order
        cl_command_queue owner;
    };
    /// Hold it from take() until the piece's other members are set.
    [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
    /// The next piece that is unused, or whose last use these in-order queues order before the next
    /// one; `writer` is null if the queues are not in-order. Null if there is none: a command must
    /// not wait for commands of other queues.
    [[nodiscard]] Piece *take(cl_command_queue writer, cl_command_queue owner);

private:
    const std::shared_ptr<const PeerMemory> memory_;
    std::mutex mutex_;
    std::array<Piece, PeerMemory::capacity / piece_size> pieces_{};
    std::size_t next_ = 0;
};

}  // namespace cldist::collectives
