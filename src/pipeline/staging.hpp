#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "ocl/handle.hpp"

namespace cldist {

/// Page-locked host memory of one context, leased in pieces. Returned memory is kept for later
/// leases. Memory above a limit is kept only for a short time. Thread-safe.
///
/// The library maps the memory, and OpenCL wraps it in a buffer (CL_MEM_USE_HOST_PTR), which
/// page-locks it. Unlike memory from a driver, every transport of every MPI library can send it.
class StagingPool : public std::enable_shared_from_this<StagingPool> {
    struct Slab;
    struct GiveBack {
        std::shared_ptr<StagingPool> pool;
        Slab *slab = nullptr;

        void operator()(std::byte *data) const { pool->give_back(slab, data); }
    };

public:
    /// A leased piece, aligned to 4096 bytes. Its destructor returns it to the pool.
    using Lease = std::unique_ptr<std::byte, GiveBack>;

    /// Page-locks memory through `queue`. Keeps at most `keep` unused bytes.
    StagingPool(cl_context context, cl_command_queue queue, std::size_t keep);
    ~StagingPool();

    /// Returns at least `size` bytes. Throws an Error (CL_OUT_OF_HOST_MEMORY, …).
    Lease lease(std::size_t size);

    /// The same, but returns null if no memory is unused. The cleanup thread then page-locks some
    /// for later calls. Does not wait, so a callback of the program may call it.
    Lease lease_unused(std::size_t size);

    /// Page-locks memory that lease_unused() did not find. The cleanup thread calls it.
    void grow();

    /// Frees unused slabs above the limit, except the slab that became unused last. It waits for
    /// the platform. Threads that return pieces must not wait, so the cleanup thread calls it.
    void trim();

    [[nodiscard]] std::size_t bytes_lent() const;

private:
    Lease lend_unused(std::size_t piece);
    Lease lend(Slab &slab);
    Slab &add(std::unique_ptr<Slab> slab);
    void give_back(Slab *slab, std::byte *data);
    [[nodiscard]] std::unique_ptr<Slab> make_slab(std::size_t piece) const;
    static void destroy(Slab &slab);

    const Context context_;
    const Queue queue_;
    const std::size_t keep_;
    mutable std::mutex mutex_;
    std::vector<std::unique_ptr<Slab>> slabs_;
    std::set<std::size_t> wanted_;       ///< pieces that lease_unused() did not find
    std::size_t unused_ = 0;             ///< bytes of slabs without leased pieces
    std::size_t lent_ = 0;               ///< bytes of leased pieces
    const Slab *last_unused_ = nullptr;  ///< the slab that became unused last
};

}  // namespace cldist
