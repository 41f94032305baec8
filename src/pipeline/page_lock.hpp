#pragma once

#include <cstddef>

#include "ocl/handle.hpp"

namespace cldist {

/// Page-locks memory of the library for one context: OpenCL wraps it in a buffer with
/// CL_MEM_USE_HOST_PTR. The memory must outlive the lock.
class PageLock {
public:
    PageLock() = default;
    /// If the system cannot page-lock more memory, the memory stays pageable, and transfers are
    /// slower. Throws an Error if the platform maps the buffer at another address.
    PageLock(cl_context context, cl_command_queue queue, std::byte *memory, std::size_t size);
    PageLock(PageLock &&other) noexcept = default;
    PageLock &operator=(PageLock &&other) noexcept;
    ~PageLock();

private:
    Queue queue_;
    Mem buffer_;
    std::byte *memory_ = nullptr;
};

}  // namespace cldist
