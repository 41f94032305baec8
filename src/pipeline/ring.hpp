#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "pipeline/descriptor.hpp"
#include "pipeline/exported_memory.hpp"
#include "pipeline/page_lock.hpp"
#include "pipeline/plan.hpp"

namespace cldist {

/// Whether the receiver's device can import what the sender's exports.
enum class DirectAnswer : std::uint32_t { none, yes, no, unknown_memory };

/// What the two processes of a ring tell each other; lies at its begin. Each counter has one writer.
struct RingControl {
    alignas(64) std::atomic<std::uint64_t> filled;    ///< blocks that the sender has filled, or skipped
    std::atomic<std::uint64_t> failed_from;           ///< the first block that the sender skipped
    alignas(64) std::atomic<std::uint64_t> drained;   ///< blocks that the receiver no longer needs
    alignas(64) std::atomic<std::uint32_t> given_up;  ///< one of the two left in the middle of a message
    std::atomic<DirectAnswer> answer;                 ///< of the receiver, where the sender's device exports memory
    std::atomic<std::uint32_t> retired;               ///< the sender uses the ring no more
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// Memory that two processes of one host share, and through which the blocks of one message at a time pass. It has no name
/// in any file system, and is gone when both have let go of it, however they end. Thread-safe.
class Ring {
public:
    /// Memory that no other process knows yet; the descriptor is to be passed to one. Throws an Error that says what is
    /// missing.
    static std::shared_ptr<Ring> create(Descriptor &descriptor);
    /// The memory of such a descriptor. Throws an Error.
    static std::shared_ptr<Ring> open(const Descriptor &descriptor, std::uint32_t id);

    Ring(std::byte *memory, std::uint32_t id);
    Ring(const Ring &) = delete;
    Ring &operator=(const Ring &) = delete;
    ~Ring();

    [[nodiscard]] std::uint32_t id() const { return id_; }
    [[nodiscard]] RingControl &control() const { return *reinterpret_cast<RingControl *>(memory_); }
    /// Where the blocks lie, ring_capacity bytes, aligned to pages.
    [[nodiscard]] std::byte *data() const;
    /// Page-locks the blocks for a context, if they aren't yet. Throws an Error.
    void lock_pages(cl_context context, cl_command_queue queue);

    /// Memory of the sender's device for blocks, landing_capacity bytes, which another process can import. Throws an Error.
    std::shared_ptr<ExportedMemory> landing(cl_context context, cl_device_id device);

    /// Takes the ring for one message; false if it is in use, or let go of.
    [[nodiscard]] bool take();
    /// Gives it back. `clean`: both sides have seen all of the message; else it is not used again.
    void give_back(bool clean);
    /// Whether the ring is of no use any more.
    [[nodiscard]] bool closed() const { return state_ == State::closed; }

    /// Lets go of the rings that this process made and has not used for so long, and of those whose makers let go of them.
    static void release_idle(double idle_seconds);
    /// Has no ring hold that context, which nothing in flight uses.
    static void forget(cl_context context);

private:
    enum class State { idle, taken, closed };

    void let_go();

    std::byte *const memory_;
    const std::uint32_t id_;
    bool made_here_ = false;
    std::atomic<State> state_{State::idle};
    std::atomic<std::uint64_t> last_used_ns_{0};
    std::mutex mutex_;
    std::map<cl_context, PageLock> locks_;
    std::shared_ptr<ExportedMemory> landing_;
    cl_context landing_context_ = nullptr;
    cl_device_id landing_device_ = nullptr;
};

}  // namespace cldist
