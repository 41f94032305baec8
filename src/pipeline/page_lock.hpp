#pragma once

#include <cstddef>

#include "ocl/handle.hpp"

namespace cldist {

/// Memory of the library's that OpenCL wraps (CL_MEM_USE_HOST_PTR) and so page-locks for one context. The memory outlives
/// the lock.
class PageLock {
public:
    PageLock() = default;
    /// Page-locked memory may be limited; where there is none the memory stays as it is, which is slower. Throws an Error
    /// if the platform maps the buffer elsewhere.
    PageLock(cl_context context, cl_command_queue queue, std::byte *memory, std::size_t size);
    PageLock(PageLock &&other) noexcept = default;
    PageLock &operator=(PageLock &&other) noexcept;
    PageLock(const PageLock &) = delete;
    PageLock &operator=(const PageLock &) = delete;
    ~PageLock();

private:
    Queue queue_;
    Mem buffer_;
    std::byte *memory_ = nullptr;
};

}  // namespace cldist
