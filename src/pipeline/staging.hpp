#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "ocl/handle.hpp"

namespace cldist {

/// Page-locked host memory of one context, lent in pieces. What is given back is kept for the next lender, up to a limit
/// for long. Thread-safe.
///
/// The memory is the library's own mapping, which OpenCL wraps (CL_MEM_USE_HOST_PTR) and so page-locks: unlike memory
/// from a driver, any MPI library can send from it by any of its ways.
class StagingPool : public std::enable_shared_from_this<StagingPool> {
    struct Slab;

public:
    /// A piece; goes back to the pool when destroyed. Aligned to 4096 bytes.
    class Lease {
    public:
        Lease() = default;
        Lease(Lease &&other) noexcept = default;
        Lease &operator=(Lease &&other) noexcept;
        Lease(const Lease &) = delete;
        Lease &operator=(const Lease &) = delete;
        ~Lease();

        [[nodiscard]] std::byte *data() const { return data_; }
        explicit operator bool() const { return pool_ != nullptr; }

    private:
        friend class StagingPool;
        Lease(std::shared_ptr<StagingPool> pool, Slab *slab, std::byte *data)
            : pool_(std::move(pool)), slab_(slab), data_(data) {}

        std::shared_ptr<StagingPool> pool_;
        Slab *slab_ = nullptr;
        std::byte *data_ = nullptr;
    };

    /// Maps on `queue`. Keeps up to `keep` unused bytes.
    StagingPool(cl_context context, cl_command_queue queue, std::size_t keep);
    StagingPool(const StagingPool &) = delete;
    StagingPool &operator=(const StagingPool &) = delete;
    ~StagingPool();

    /// Throws an Error (CL_OUT_OF_RESOURCES, …) if there is no memory.
    Lease lease(std::size_t size);

    /// Lets go of what is unused above the limit, but not of what came back last. Waits for the platform: pieces are given back on
    /// the platform's own threads, which must not, so this is for another one.
    void trim();

    [[nodiscard]] std::size_t bytes_allocated() const;
    [[nodiscard]] std::size_t bytes_lent() const;

private:
    Lease lend(Slab &slab);
    void give_back(Slab *slab, std::byte *data);
    [[nodiscard]] std::unique_ptr<Slab> make_slab(std::size_t piece, std::size_t pieces) const;
    static void destroy(Slab &slab);

    const Context context_;
    const Queue queue_;
    const std::size_t keep_;
    mutable std::mutex mutex_;
    std::vector<std::unique_ptr<Slab>> slabs_;
    std::size_t unused_ = 0;             ///< bytes of slabs of which no piece is lent
    std::size_t lent_ = 0;               ///< bytes of pieces
    const Slab *last_unused_ = nullptr;  ///< of which a piece came back last and no piece is lent, or was then
};

}  // namespace cldist
