#include "cluster/execution/host_region.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <vector>

#include "cluster/calls/call.hpp"
#include "cluster/objects/errors.hpp"
#include "ocl/query.hpp"

namespace cldist::cluster {
namespace {

constexpr std::align_val_t alignment{128};

/// Large memory that is used again after it was freed, because page faults are most of its cost.
/// Meanwhile, the kernel may take its pages, which nevertheless count as resident. Thread-safe.
class KeptBlocks {
public:
    static constexpr std::size_t least = std::size_t{4} << 20U;  ///< smallest size of a block
    struct Block {
        std::byte *memory;
        std::size_t size;
    };

    /// Returns a block of at least `wanted` bytes. Throws OutOfMemory.
    Block take(std::size_t wanted) {
        const std::size_t size = (wanted + huge_page - 1) / huge_page * huge_page;
        const std::lock_guard lock(mutex_);
        const auto at = std::ranges::find_if(
            blocks_, [size](const Block &b) { return size <= b.size && b.size / 2 <= size; });
        if (at != blocks_.end()) {
            const Block block = *at;
            blocks_.erase(at);
            bytes_ -= block.size;
            return block;
        }
        std::byte *memory = allocate(size);
        if (memory == nullptr) {
            trim(0);
            memory = allocate(size);
        }
        if (memory == nullptr) throw OutOfMemory(wanted);
        madvise(memory, size, MADV_HUGEPAGE);  // may be refused
        return {memory, size};
    }
    void give_back(Block block) {
        if (madvise(block.memory, block.size, MADV_FREE) != 0) return free(block);
        const std::lock_guard lock(mutex_);
        blocks_.push_back(block);
        bytes_ += block.size;
        trim(most);
    }

private:
    static constexpr std::size_t huge_page = std::size_t{2} << 20U;
    static constexpr std::size_t most = std::size_t{1} << 30U;  ///< bytes of free blocks

    static std::byte *allocate(std::size_t size) {
        return static_cast<std::byte *>(operator new (size, std::align_val_t{huge_page},
                                                      std::nothrow));
    }
    static void free(Block block) { operator delete (block.memory, std::align_val_t{huge_page}); }
    /// Under the lock.
    void trim(std::size_t keep) {
        while (bytes_ > keep) {
            bytes_ -= blocks_.front().size;
            free(blocks_.front());
            blocks_.pop_front();
        }
    }

    std::mutex mutex_;
    std::deque<Block> blocks_;  ///< free ones, in the order of their return
    std::size_t bytes_ = 0;     ///< of `blocks_`
};

}  // namespace

bool boxes_overlap(const std::size_t *origin_a, const std::size_t *origin_b,
                   const std::size_t *region) {
    for (std::size_t i = 0; i < 3; ++i)
        if (origin_a[i] + region[i] <= origin_b[i] || origin_b[i] + region[i] <= origin_a[i])
            return false;
    return true;
}

std::shared_ptr<std::byte[]> own_memory(std::size_t size) {
    static auto &kept = *new KeptBlocks;
    if (size < KeptBlocks::least) {
        auto *const memory = new (alignment, std::nothrow) std::byte[size];
        if (memory == nullptr) throw OutOfMemory(size);
        return {memory, [](std::byte *m) { operator delete[](m, alignment); }};
    }
    const KeptBlocks::Block block = kept.take(size);
    return {block.memory, [block](std::byte *) { kept.give_back(block); }};
}

void keep_until(cl_event event, std::shared_ptr<const void> memory) {
    auto *const keeper = new std::shared_ptr<const void>(std::move(memory));
    clSetEventCallback(
        event, CL_COMPLETE,
        [](cl_event, cl_int, void *data) {
            delete static_cast<std::shared_ptr<const void> *>(data);
        },
        keeper);
}

namespace {

constexpr std::size_t largest_guard = 65536;

// Returns a pattern that programs do not write by chance.
const std::byte *guard_bytes() {
    static const std::vector<std::byte> bytes = [] {
        std::vector<std::byte> made(largest_guard);
        for (std::size_t i = 0; i < made.size(); ++i)
            made[i] = static_cast<std::byte>(mixed(i + 1));
        return made;
    }();
    return bytes.data();
}

}  // namespace

std::size_t guard_size(MemObject &object, const Mapped &mapped) {
    constexpr std::size_t least = 4096;
    const std::size_t rest = object.is_image() ? object.size - std::min(object.size, mapped.size)
                                               : object.root().size - object.origin - mapped.end;
    return std::clamp(rest, least, largest_guard);
}

void set_guard(const Mapped &mapped) {
    std::memcpy(mapped.own.get() + mapped.size, guard_bytes(), mapped.guard);
}

std::size_t bytes_beyond(const Mapped &mapped) {
    if (mapped.guard == 0) return 0;
    const std::byte *const guard = mapped.own.get() + mapped.size;
    const std::byte *const known = guard_bytes();
    if (std::memcmp(guard, known, mapped.guard) == 0) return 0;
    std::size_t end = mapped.guard;
    while (guard[end - 1] == known[end - 1]) --end;
    return end;
}

Result into_mapping(Result result, const MemObject &object, const Mapped &mapped) {
    if (result.kept != nullptr) return result;  // on its way to another process's mapping
    if (mapped.own != nullptr)
        result.kept = mapped.own;
    else
        result.kept = object.destruction;
    return result;
}

HostRegion written_region(const MemObject &object, const Mapped &mapped) {
    auto *const memory = static_cast<std::byte *>(mapped.memory);
    if (!object.is_image()) return plain_region(memory, mapped.end - mapped.begin);
    return {memory,
            {mapped.region[0] * object.element_size, mapped.region[1], mapped.region[2],
             mapped.pitches.row, mapped.pitches.slice}};
}

cl_int write_back(const QueueObject &queue, const MemObject &object, cl_mem native,
                  const Mapped &mapped, const void *bytes, const Pitches &pitches,
                  const Waits &waits) {
    if (object.is_image())
        return clEnqueueWriteImage(queue.native.get(), native, CL_FALSE, mapped.origin.data(),
                                   mapped.region.data(), pitches.row,
                                   pitches.native_slice(object.type), bytes, waits.count,
                                   waits.events, waits.event);
    return clEnqueueWriteBuffer(queue.native.get(), native, CL_FALSE, object.origin + mapped.begin,
                                mapped.end - mapped.begin, bytes, waits.count, waits.events,
                                waits.event);
}

cl_int unmap(const QueueObject &queue, const MemObject &object, cl_mem native, const Mapped &mapped,
             const Waits &waits, HostCopies &copies) {
    // If the mapping is native, it belongs to another device's memory.
    const bool keeps = mapped.own != nullptr || mapped.is_native;
    Event own;
    cl_event *const event = waits.event != nullptr || !keeps ? waits.event : own.out();
    const Waits all{waits.count, waits.events, event};
    const cl_int code = mapped.is_written() ? write_back(queue, object, native, mapped,
                                                         mapped.memory, mapped.pitches, all)
                                            : enqueue_marker_behind(queue, all);
    if (code != CL_SUCCESS || !keeps) return code;
    if (mapped.own != nullptr && mapped.is_page_locked)
        copies.keep_until(Event::share(*event), mapped.own);
    else
        keep_until(*event, mapped.kept);
    return code;
}

}  // namespace cldist::cluster
