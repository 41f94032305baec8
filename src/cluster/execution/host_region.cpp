#include "cluster/execution/host_region.hpp"

#include <cstring>

#include "ocl/query.hpp"

namespace cldist::cluster {

bool HostRegion::has_gaps() const {
    return (row_pitch != region[0] && region[1] * region[2] > 1) ||
           (slice_pitch != region[0] * region[1] && region[2] > 1);
}

bool boxes_overlap(const std::array<std::size_t, 3> &origin_a, const std::array<std::size_t, 3> &region_a,
                   const std::array<std::size_t, 3> &origin_b, const std::array<std::size_t, 3> &region_b) {
    for (std::size_t i = 0; i < 3; ++i)
        if (origin_a[i] + region_a[i] <= origin_b[i] || origin_b[i] + region_b[i] <= origin_a[i]) return false;
    return true;
}

Result result_in(const HostRegion &host, bool alone) {
    if (alone || !host.has_gaps()) return {host.begin, host.size(), {}};
    std::shared_ptr<std::byte[]> packed = own_memory(host.size());
    Result result{packed.get(), host.size(), {}};
    result.target = {host.begin, host.size_with_gaps()};
    result.arrived = [host, packed = std::move(packed)] {
        const std::byte *row = packed.get();
        for (std::size_t z = 0; z < host.region[2]; ++z)
            for (std::size_t y = 0; y < host.region[1]; ++y, row += host.region[0])
                std::memcpy(host.begin + z * host.slice_pitch + y * host.row_pitch, row, host.region[0]);
    };
    return result;
}

std::shared_ptr<std::byte[]> own_memory(std::size_t size) {
    constexpr std::align_val_t alignment{128};
    auto *const memory = static_cast<std::byte *>(operator new[](size, alignment));
    return {memory, [](std::byte *m) { operator delete[](m, alignment); }};
}

void keep_until(cl_event event, std::shared_ptr<const void> memory) {
    auto *const keeper = new std::shared_ptr<const void>(std::move(memory));
    clSetEventCallback(
        event, CL_COMPLETE,
        [](cl_event, cl_int, void *data) { delete static_cast<std::shared_ptr<const void> *>(data); }, keeper);
}

Result into_mapping(Result result, const MemObject &object, const Mapped &mapped) {
    if (mapped.own != nullptr)
        result.kept = mapped.own;
    else
        result.kept = object.destruction;
    return result;
}

cl_int unmap(const QueueObject &queue, const MemObject &object, cl_mem native, const Mapped &mapped, const Waits &waits,
             HostCopies &copies) {
    // A native mapping is another memory's.
    const bool keeps = mapped.own != nullptr || mapped.is_native;
    cldist::Event own;
    cl_event *const event = waits.event != nullptr || !keeps ? waits.event : own.out();
    cl_int code = CL_SUCCESS;
    if (!mapped.is_written())
        code = clEnqueueMarkerWithWaitList(queue.native.get(), waits.count, waits.events, event);
    else if (object.is_image())
        code = clEnqueueWriteImage(queue.native.get(), native, CL_FALSE, mapped.origin.data(), mapped.region.data(),
                                   mapped.pitches.row, mapped.pitches.native_slice(object.type), mapped.memory,
                                   waits.count, waits.events, event);
    else
        code = clEnqueueWriteBuffer(queue.native.get(), native, CL_FALSE, object.origin + mapped.begin,
                                    mapped.end - mapped.begin, mapped.memory, waits.count, waits.events, event);
    if (code != CL_SUCCESS || !keeps) return code;
    if (mapped.own != nullptr && mapped.is_page_locked)
        copies.keep_until(cldist::Event::share(*event), mapped.own);
    else
        keep_until(*event, mapped.kept);
    return code;
}

}  // namespace cldist::cluster
