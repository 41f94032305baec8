#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <vector>

#include "pipeline/free_ranges.hpp"

namespace cldist {

/// The host's order to a waiting kernel.
enum class SlotOrder : std::uint32_t {
    none,
    move,  ///< move the bytes
    leave  ///< end without moving bytes, because the host has moved or discarded them
};

/// The state of one device-ordered command, in host memory that its kernel, the hosts of both
/// processes and the other process's device access. The kernels depend on the layout.
struct TransferSlot {
    static constexpr std::uint32_t spoiled = 2;  ///< value of `sent`

    // Written by hosts.
    std::atomic<SlotOrder> order;
    /// Send: 1 when nobody uses the slot and the landing memory any more. Set by the receiver's
    /// host, or by the sender's host if the message was not sent.
    std::atomic<std::uint32_t> taken;
    std::uint64_t address;  ///< destination of the bytes (send) or their source (receive)
    std::uint64_t size;     ///< receive: bytes of the message
    std::uint64_t flag;     ///< receive: device address of the sender's `sent`
    // Written by the kernel. If a send's kernel failed, the host writes `spoiled` to `sent`.
    alignas(64) std::atomic<std::uint32_t> sent;  ///< the bytes are at `address`
    std::atomic<std::uint32_t> ended;             ///< the kernel does not use the slot any more
    std::atomic<std::uint32_t> running;           ///< the send's kernel has started
};
static_assert(sizeof(TransferSlot) == 128 && offsetof(TransferSlot, sent) == 64);

/// The free slots of a process. Thread-safe.
class SlotPool {
public:
    /// Adds the slots from `first` to `end` of the array.
    void add(TransferSlot *slots, std::uint32_t first, std::uint32_t end) {
        slots_ = slots;
        for (std::uint32_t i = end; i > first; --i) free_.push_back(i - 1);
    }
    [[nodiscard]] TransferSlot &operator[](std::uint32_t index) const { return slots_[index]; }

    /// Returns a free slot with all members zero, or nothing if none is free.
    std::optional<std::uint32_t> take() {
        const std::lock_guard lock(mutex_);
        if (free_.empty()) return std::nullopt;
        const std::uint32_t index = free_.back();
        free_.pop_back();
        std::memset(static_cast<void *>(&slots_[index]), 0, sizeof(TransferSlot));
        return index;
    }
    /// Frees a slot, which nobody may use any more.
    void give_back(std::uint32_t index) {
        const std::lock_guard lock(mutex_);
        free_.push_back(index);
    }

private:
    TransferSlot *slots_ = nullptr;
    std::mutex mutex_;
    std::vector<std::uint32_t> free_;
};

/// The slot and the landing memory of a send by a kernel, until its receiver has taken the bytes.
struct LandingPlace {
    std::uint32_t slot;  ///< of the sender
    std::size_t offset;  ///< in the receiver's landing memory
    std::size_t size;    ///< bytes
};

/// The places of one process's sends to another process. Not thread-safe.
class LandingPlaces {
public:
    explicit LandingPlaces(std::size_t bytes) : room_(0, bytes) {}

    /// Returns a place that nobody uses, or nothing if none is free.
    std::optional<LandingPlace> take(SlotPool &slots, std::size_t size) {
        free_taken(slots);
        const std::optional<std::size_t> offset = room_.take(size);
        if (!offset) return std::nullopt;
        const std::optional<std::uint32_t> slot = slots.take();
        if (slot) return LandingPlace{*slot, *offset, size};
        room_.give_back(*offset, size);
        return std::nullopt;
    }
    /// Frees a place whose send was not enqueued.
    void give_back(SlotPool &slots, const LandingPlace &place) {
        room_.give_back(place.offset, place.size);
        slots.give_back(place.slot);
    }
    /// The send's kernel has ended or will never start. The place becomes free when the slot's
    /// `taken` is set.
    void ended(const LandingPlace &place) { ended_.push_back(place); }

private:
    void free_taken(SlotPool &slots) {
        std::erase_if(ended_, [&](const LandingPlace &place) {
            if (slots[place.slot].taken.load(std::memory_order_acquire) == 0) return false;
            give_back(slots, place);
            return true;
        });
    }

    FreeRanges room_;
    std::vector<LandingPlace> ended_;
};

}  // namespace cldist
