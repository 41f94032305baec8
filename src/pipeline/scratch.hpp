#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

#include "ocl/handle.hpp"

namespace cldist {

/// Device buffers of one context, leased to transfers of strided regions. Returned buffers are kept
/// for later leases, up to a limit. Thread-safe.
class ScratchPool : public std::enable_shared_from_this<ScratchPool> {
    struct GiveBack {
        std::shared_ptr<ScratchPool> pool;
        std::size_t size = 0;

        void operator()(cl_mem buffer) const { pool->give_back(Mem::adopt(buffer), size); }
    };

public:
    /// A leased buffer. Its destructor returns it to the pool.
    using Lease = std::unique_ptr<std::remove_pointer_t<cl_mem>, GiveBack>;

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
