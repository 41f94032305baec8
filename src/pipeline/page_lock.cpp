#include "pipeline/page_lock.hpp"

#include <utility>

#include "base/error_code.hpp"
#include "base/log.hpp"
#include "base/status.hpp"

namespace cldist {

PageLock::PageLock(cl_context context, cl_command_queue queue, std::byte *memory, std::size_t size)
    : memory_(memory) {
    cl_int code = CL_SUCCESS;
    buffer_ = Mem::adopt(
        clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, size, memory, &code));
    void *mapped = nullptr;
    if (code == CL_SUCCESS)
        mapped = clEnqueueMapBuffer(queue, buffer_.get(), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                    size, 0, nullptr, nullptr, &code);
    if (code != CL_SUCCESS) {
        log_info("{} bytes of staging memory are not page-locked, so transfers are slower: {}",
                 size, code_text(code));
        buffer_.reset();
        return;
    }
    if (mapped != memory)
        throw Error(
            CL_MEM_OBJECT_ALLOCATION_FAILURE,
            "the platform mapped a CL_MEM_USE_HOST_PTR buffer at another address than its memory");
    queue_ = Queue::share(queue);
}

PageLock &PageLock::operator=(PageLock &&other) noexcept {
    std::swap(queue_, other.queue_);
    std::swap(buffer_, other.buffer_);
    std::swap(memory_, other.memory_);
    return *this;
}

PageLock::~PageLock() {
    if (!buffer_) return;
    clEnqueueUnmapMemObject(queue_.get(), buffer_.get(), memory_, 0, nullptr, nullptr);
    clFinish(queue_.get());
}

}  // namespace cldist
