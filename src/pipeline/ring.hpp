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

/// The receiver's answer whether its device reads the memory that the sender's device exports.
/// `unknown_memory`: no, because the receiver has not imported that memory or has released it.
enum class DirectAnswer : std::uint32_t { none, yes, no, unknown_memory };

/// State at the start of a ring's memory, which both processes access. Each counter has one writer.
struct RingControl {
    /// Blocks that the sender has filled or skipped.
    alignas(64) std::atomic<std::uint64_t> filled;
    std::atomic<std::uint64_t> failed_from;          ///< the first block that the sender skipped
    alignas(64) std::atomic<std::uint64_t> drained;  ///< blocks that the receiver has read
    /// Not 0: one process gave up in the middle of a message.
    alignas(64) std::atomic<std::uint32_t> given_up;
    /// The receiver's answer if the sender's device exports memory.
    std::atomic<DirectAnswer> answer;
    std::atomic<std::uint32_t> retired;  ///< not 0: the sender does not use the ring any more
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// Memory that two processes of one host share, and through which the blocks of one message at a
/// time pass. It has no name in any file system. The system frees it when both processes have
/// released it or ended. Thread-safe.
class Ring {
public:
    /// Creates the memory in the sending process, which passes `descriptor` to the receiver. Throws
    /// an Error with the missing resource.
    static std::shared_ptr<Ring> create(Descriptor &descriptor);
    /// Maps the memory of a descriptor from create(). Throws an Error.
    static std::shared_ptr<Ring> open(const Descriptor &descriptor, std::uint32_t id);

    Ring(std::byte *memory, std::uint32_t id);
    ~Ring();

    [[nodiscard]] std::uint32_t id() const { return id_; }
    [[nodiscard]] RingControl &control() const { return *reinterpret_cast<RingControl *>(memory_); }
    /// The memory for blocks: ring_capacity bytes, page-aligned.
    [[nodiscard]] std::byte *data() const;
    /// Page-locks the blocks for a context, unless they are page-locked already. Throws an Error.
    void lock_pages(cl_context context, cl_command_queue queue);

    /// IPC-shareable memory of the sender's device for blocks, landing_capacity bytes. It is
    /// created at the first call for a context and device. Throws an Error.
    std::shared_ptr<ExportedMemory> landing(cl_context context, cl_device_id device);

    /// Reserves the ring for one message. Returns false if it is in use or closed.
    [[nodiscard]] bool take();
    /// Ends the reservation. `clean`: both processes have completed the message. Otherwise the ring
    /// is closed.
    void give_back(bool clean);
    /// Returns true if the ring can't be used any more.
    [[nodiscard]] bool closed() const { return state_ == State::closed; }

    /// Frees rings that this process created and that were idle for `idle_seconds`, and rings that
    /// their creators have retired.
    static void release_idle(double idle_seconds);
    /// Releases the references of all rings to `context`. No transfer in flight may use them.
    static void forget(cl_context context);

private:
    enum class State { idle, taken, closed };

    void release_memory();

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
