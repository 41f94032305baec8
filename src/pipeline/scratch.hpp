#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ocl/handle.hpp"

namespace cldist {

/// Device buffers of one context, leased to transfers of strided regions. Returned buffers are kept
/// for later leases, up to a limit. Thread-safe.
class ScratchPool : public std::enable_shared_from_this<ScratchPool> {
public:
    /// A leased buffer. Its destructor returns it to the pool.
    class Lease {
    public:
        Lease() = default;
        Lease(Lease &&other) noexcept = default;
        Lease &operator=(Lease &&other) noexcept;
        Lease(const Lease &) = delete;
        Lease &operator=(const Lease &) = delete;
        ~Lease();

        [[nodiscard]] cl_mem buffer() const { return buffer_.get(); }

    private:
        friend class ScratchPool;
        Lease(std::shared_ptr<ScratchPool> pool, Mem buffer, std::size_t size)
            : pool_(std::move(pool)), buffer_(std::move(buffer)), size_(size) {}

        std::shared_ptr<ScratchPool> pool_;
        Mem buffer_;
        std::size_t size_ = 0;
    };

    /// Keeps at most `keep` unused bytes.
    ScratchPool(cl_context context, std::size_t keep);

    /// Returns a buffer of at least `size` bytes. Throws an Error
    /// (CL_MEM_OBJECT_ALLOCATION_FAILURE, …).
    Lease lease(std::size_t size);

private:
    struct Unused {
        Mem buffer;
        std::size_t size;
    };

    void give_back(Mem buffer, std::size_t size);

    const Context context_;
    const std::size_t keep_;
    std::mutex mutex_;
    std::vector<Unused> unused_;  ///< the most recently used buffer is the last
    std::size_t unused_bytes_ = 0;
};

}  // namespace cldist
