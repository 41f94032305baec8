#include "pipeline/staging.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/status.hpp"
#include "pipeline/cleanup.hpp"
#include "pipeline/page_lock.hpp"

namespace cldist {
namespace {

constexpr std::size_t smallest_piece = 4096;
// Slabs consist of whole huge pages, because MPI's single-copy transports then move bytes at twice
// the speed. Small pieces share a slab, because each page-locking call is expensive.
constexpr std::size_t huge_page = std::size_t{2} << 20U;

// Maps `size` bytes, a multiple of huge_page, at a multiple of huge_page.
std::byte *map_memory(std::size_t size) {
    void *memory =
        mmap(nullptr, size + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw Error(CL_OUT_OF_HOST_MEMORY,
                    fmt::format("cannot allocate {} bytes of staging memory: {}", size,
                                std::strerror(errno)));
    auto *begin = static_cast<std::byte *>(memory);
    const std::size_t before =
        (huge_page - reinterpret_cast<std::uintptr_t>(begin) % huge_page) % huge_page;
    if (before != 0) munmap(begin, before);
    if (before != huge_page) munmap(begin + before + size, huge_page - before);
    // Without huge pages the system uses normal pages.
    madvise(begin + before, size, MADV_HUGEPAGE);
    return begin + before;
}

// Powers of two, so that pieces can be reused. Above a huge page, multiples of huge pages, because
// powers of two would waste gigabytes.
std::size_t piece_for(std::size_t size) {
    return size <= huge_page ? std::bit_ceil(std::max(size, smallest_piece))
                             : (size + huge_page - 1) / huge_page * huge_page;
}

}  // namespace

struct StagingPool::Slab {
    std::size_t piece;
    std::size_t size;
    std::byte *base;
    PageLock lock;
    std::vector<std::byte *> free;

    [[nodiscard]] bool unused() const { return free.size() * piece == size; }
};

StagingPool::StagingPool(cl_context context, cl_command_queue queue, std::size_t keep)
    : context_(Context::share(context)), queue_(Queue::share(queue)), keep_(keep) {}

StagingPool::~StagingPool() {
    for (const auto &slab : slabs_) destroy(*slab);
}

StagingPool::Lease StagingPool::lease(std::size_t size) {
    const std::size_t piece = piece_for(size);
    {
        const std::lock_guard lock(mutex_);
        if (Lease lease = lend_unused(piece)) return lease;
    }
    // Without the lock, because this waits for the queue and perhaps for a platform thread that
    // gives a piece back.
    std::unique_ptr<Slab> slab = make_slab(piece);
    const std::lock_guard lock(mutex_);
    return lend(add(std::move(slab)));
}

StagingPool::Lease StagingPool::lease_unused(std::size_t size) {
    const std::size_t piece = piece_for(size);
    {
        const std::lock_guard lock(mutex_);
        if (Lease lease = lend_unused(piece)) return lease;
        wanted_.insert(piece);
    }
    clean_up_soon();
    return {};
}

void StagingPool::grow() {
    std::unique_lock lock(mutex_);
    for (const std::size_t piece : std::exchange(wanted_, {})) {
        lock.unlock();
        std::unique_ptr<Slab> slab;
        try {
            slab = make_slab(piece);
        } catch (const Error &) {
            // A command that cannot do without the memory reports it.
        }
        lock.lock();
        if (slab) add(std::move(slab));
    }
}

// Lends the smallest sufficient piece, unless more than half of it would be unused.
StagingPool::Lease StagingPool::lend_unused(std::size_t piece) {
    Slab *best = nullptr;
    for (const auto &slab : slabs_)
        if (!slab->free.empty() && slab->piece >= piece && slab->piece / 2 <= piece &&
            (best == nullptr || slab->piece < best->piece))
            best = slab.get();
    return best != nullptr ? lend(*best) : Lease{};
}

StagingPool::Slab &StagingPool::add(std::unique_ptr<Slab> slab) {
    unused_ += slab->size;
    return *slabs_.emplace_back(std::move(slab));
}

StagingPool::Lease StagingPool::lend(Slab &slab) {
    if (slab.unused()) unused_ -= slab.size;
    std::byte *data = slab.free.back();
    slab.free.pop_back();
    lent_ += slab.piece;
    return {data, {shared_from_this(), &slab}};
}

void StagingPool::give_back(Slab *slab, std::byte *data) {
    {
        const std::lock_guard lock(mutex_);
        slab->free.push_back(data);
        lent_ -= slab->piece;
        if (!slab->unused()) return;
        unused_ += slab->size;
        last_unused_ = slab;
        if (unused_ <= keep_ || unused_ == slab->size) return;
    }
    clean_up_soon();
}

void StagingPool::trim() {
    std::vector<std::unique_ptr<Slab>> surplus;
    {
        const std::lock_guard lock(mutex_);
        std::erase_if(slabs_, [&](auto &slab) {
            // Always keep the slab that became unused last, because page-locking it again would
            // cost more than the transfer.
            if (unused_ <= keep_ || slab.get() == last_unused_ || !slab->unused()) return false;
            unused_ -= slab->size;
            surplus.push_back(std::move(slab));
            return true;
        });
    }
    for (const auto &slab : surplus) destroy(*slab);
}

std::unique_ptr<StagingPool::Slab> StagingPool::make_slab(std::size_t piece) const {
    const std::size_t pieces = std::max<std::size_t>(huge_page / piece, 1);
    const std::size_t size = piece * pieces;
    std::byte *memory = map_memory(size);
    auto slab = std::make_unique<Slab>(Slab{piece, size, memory, {}, {}});
    try {
        slab->lock = PageLock(context_.get(), queue_.get(), memory, size);
    } catch (...) {
        munmap(memory, size);
        throw;
    }
    for (std::size_t i = pieces; i-- > 0;) slab->free.push_back(slab->base + i * piece);
    return slab;
}

std::size_t StagingPool::bytes_lent() const {
    const std::lock_guard lock(mutex_);
    return lent_;
}

void StagingPool::destroy(Slab &slab) {
    slab.lock = {};
    munmap(slab.base, slab.size);
}

}  // namespace cldist
