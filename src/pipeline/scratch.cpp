#include "pipeline/scratch.hpp"

#include <algorithm>
#include <bit>

#include "ocl/query.hpp"

namespace cldist {

ScratchPool::ScratchPool(cl_context context, std::size_t keep)
    : context_(Context::share(context)), keep_(keep) {}

ScratchPool::Lease ScratchPool::lease(std::size_t size) {
    // Few distinct sizes, so that kept buffers fit later requests.
    const std::size_t room = std::bit_ceil(std::max<std::size_t>(size, 4096));
    {
        const std::lock_guard lock(mutex_);
        const auto fitting =
            std::find_if(unused_.rbegin(), unused_.rend(), [&](auto &u) { return u.size == room; });
        if (fitting != unused_.rend()) {
            Lease lease(fitting->buffer.give(), {shared_from_this(), room});
            unused_bytes_ -= room;
            unused_.erase(std::next(fitting).base());
            return lease;
        }
    }
    Mem buffer =
        create("clCreateBuffer", clCreateBuffer, context_.get(), CL_MEM_READ_WRITE, room, nullptr);
    return {buffer.give(), {shared_from_this(), room}};
}

void ScratchPool::give_back(Mem buffer, std::size_t size) {
    std::vector<Unused> surplus;  // released without the lock
    const std::lock_guard lock(mutex_);
    unused_.push_back({std::move(buffer), size});
    unused_bytes_ += size;
    while (unused_bytes_ > keep_) {
        unused_bytes_ -= unused_.front().size;
        surplus.push_back(std::move(unused_.front()));
        unused_.erase(unused_.begin());
    }
}

}  // namespace cldist
