#include "pipeline/transfer_slots.hpp"

#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "ocl/query.hpp"
#include "pipeline/cuda.hpp"

namespace cldist {
namespace {

Descriptor allocate(cl_device_id device) {
    std::size_t size = TransferSlots::bytes;
    return is_cpu(device) ? allocate_shared_memory(size) : cuda::allocate_host(size);
}

}  // namespace

TransferSlots::TransferSlots(cl_context context, cl_device_id device)
    : descriptor_(allocate(device)) {
    open(context, device);
    std::memset(static_cast<void *>(slots_), 0, bytes);
    pool_.add(slots_, boards * slots_per_board, count);
}

TransferSlots::TransferSlots(cl_context context, cl_device_id device, Descriptor descriptor)
    : descriptor_(std::move(descriptor)) {
    open(context, device);
}

void TransferSlots::open(cl_context context, cl_device_id device) {
    imported_.emplace(Descriptor(duplicate(descriptor_.get())), bytes, DeviceUuid{});
    buffer_ = imported_->buffer(context, device);
    mapped_here_ = is_cpu(device);
    slots_ = static_cast<TransferSlot *>(mapped_here_ ? map_shared_memory(descriptor_.get(), bytes)
                                                      : cuda::map_host(descriptor_, bytes));
}

TransferSlots::~TransferSlots() {
    if (mapped_here_ && slots_ != nullptr) munmap(static_cast<void *>(slots_), bytes);
}

}  // namespace cldist
