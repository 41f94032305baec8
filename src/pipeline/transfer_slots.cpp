#include "pipeline/transfer_slots.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/status.hpp"
#include "ocl/query.hpp"
#include "pipeline/cuda.hpp"

namespace cldist {
namespace {

Descriptor allocate(cl_device_id device) {
    std::size_t size = TransferSlots::bytes;
    if (!is_cpu(device)) return cuda::allocate_host(size);
    Descriptor memory(memfd_create("cldist", MFD_CLOEXEC));
    if (!memory || ftruncate(memory.get(), static_cast<off_t>(size)) != 0)
        throw Error(CL_OUT_OF_HOST_MEMORY, fmt::format("shared memory: {}", std::strerror(errno)));
    return memory;
}

}  // namespace

TransferSlots::TransferSlots(cl_context context, cl_device_id device)
    : descriptor_(allocate(device)) {
    open(context, device);
    std::memset(static_cast<void *>(slots_), 0, bytes);
    for (std::uint32_t i = count; i > boards * slots_per_board; --i) free_.push_back(i - 1);
}

TransferSlots::TransferSlots(cl_context context, cl_device_id device, Descriptor descriptor)
    : descriptor_(std::move(descriptor)) {
    open(context, device);
}

void TransferSlots::open(cl_context context, cl_device_id device) {
    imported_.emplace(Descriptor(duplicate(descriptor_.get())), bytes, DeviceUuid{});
    buffer_ = imported_->buffer(context, device);
    mapped_here_ = is_cpu(device);
    void *const memory = mapped_here_ ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                                             descriptor_.get(), 0)
                                      : cuda::map_host(descriptor_, bytes);
    if (memory == MAP_FAILED)
        throw Error(CL_OUT_OF_HOST_MEMORY,
                    fmt::format("mapping shared memory: {}", std::strerror(errno)));
    slots_ = static_cast<TransferSlot *>(memory);
}

TransferSlots::~TransferSlots() {
    if (mapped_here_ && slots_ != nullptr) munmap(static_cast<void *>(slots_), bytes);
}

std::optional<std::uint32_t> TransferSlots::take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::nullopt;
    const std::uint32_t index = free_.back();
    free_.pop_back();
    std::memset(static_cast<void *>(&slots_[index]), 0, sizeof(TransferSlot));
    return index;
}

void TransferSlots::give_back(std::uint32_t index) {
    const std::lock_guard lock(mutex_);
    free_.push_back(index);
}

}  // namespace cldist
