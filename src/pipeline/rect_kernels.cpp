#include "pipeline/rect_kernels.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/error_code.hpp"
#include "base/log.hpp"
#include "ocl/build_log.hpp"
#include "ocl/query.hpp"
#include "ocl/quirks.hpp"
#include "pipeline/copy_source.hpp"

namespace cldist {
namespace {

constexpr const char *rect_source = R"(
kernel void copy_region(uint packs, global uchar *memory, ulong first, Region region, uint2 start,
                        global uchar *packed, ulong packed_offset, ulong size) {
    move_region(team_from(0, get_num_groups(0)), packs, memory + first, region, start, packed + packed_offset, size);
}
)";

// Each work-group copies at least so many bytes.
constexpr std::size_t bytes_per_group = 4096;

// The kernel counts elements and rows in 32 bits.
bool is_countable(const RectCopy &copy) {
    constexpr std::size_t most = std::numeric_limits<cl_uint>::max();
    const RectRegion &r = copy.region;
    return copy.size <= most && r.width <= most - copy.size && r.rows <= most - copy.size;
}

// Enqueues a copy for each slice, or for each part of a row. Each copy waits for the previous one.
cl_int enqueue_copies(bool pack, cl_command_queue queue, const RectCopy &copy, cl_event after,
                      cl_event *event) {
    const std::pair<cl_mem, std::size_t> root = for_rect_copies(copy.buffer);
    const cl_mem buffer = root.first;
    const std::size_t first = root.second + copy.first;
    cl_int code = CL_SUCCESS;
    Event last = Event::share(after);
    for_each_row_run(copy.region, copy.offset, copy.size, [&](const RowRun &run) {
        if (code != CL_SUCCESS) return;
        // Some drivers require an origin within a row.
        const std::size_t pitch = run.count > 1 ? copy.region.row_pitch : run.width;
        const std::size_t start = first + run.memory;
        const std::size_t memory[] = {start % pitch, start / pitch, 0};
        const std::size_t packed_start = copy.packed_offset + run.message;
        const std::size_t packed[] = {packed_start % run.width, packed_start / run.width, 0};
        const std::size_t region[] = {run.width, run.count, 1};
        const cl_event before = last.get();
        Event done;
        code = clEnqueueCopyBufferRect(
            queue, pack ? buffer : copy.packed, pack ? copy.packed : buffer, pack ? memory : packed,
            pack ? packed : memory, region, pack ? pitch : run.width, 0, pack ? run.width : pitch,
            0, before != nullptr ? 1 : 0, before != nullptr ? &before : nullptr, done.out());
        last = std::move(done);
    });
    if (code == CL_SUCCESS) *event = last.give();
    return code;
}

}  // namespace

RectKernels::RectKernels(cl_context context, cl_device_id device)
    : group_(is_cpu(device) ? 1 : 256),
      most_groups_(query<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS).value_or(1) *
                   (is_cpu(device) ? 1U : 2U)) {
    std::array<const char *, 2> text{copy_source, rect_source};
    cl_int code = CL_SUCCESS;
    program_ = Program::adopt(clCreateProgramWithSource(context, 2, text.data(), nullptr, &code));
    if (code == CL_SUCCESS) code = clBuildProgram(program_.get(), 1, &device, "", nullptr, nullptr);
    if (code != CL_SUCCESS) {
        log_warning(
            "the device's compiler rejected the kernel for strided regions ({}); the regions are "
            "copied slice by slice. {}",
            code_text(code), program_ ? build_log(program_.get(), device) : "");
        return;
    }
    kernel_ = create("clCreateKernel", clCreateKernel, program_.get(), "copy_region");
    std::size_t most = 1;
    clGetKernelWorkGroupInfo(kernel_.get(), device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most,
                             nullptr);
    group_ = std::min(group_, most);
}

cl_int RectKernels::enqueue(Way way, cl_command_queue queue, const RectCopy &copy, cl_event after,
                            cl_event *event) {
    const bool pack = way == Way::pack;
    const cl_mem_flags flags = query<cl_mem_flags>(copy.buffer, CL_MEM_FLAGS).value_or(0);
    const bool closed_to_kernels = (flags & (pack ? CL_MEM_WRITE_ONLY : CL_MEM_READ_ONLY)) != 0;
    if (!kernel_ || closed_to_kernels || !is_countable(copy))
        return enqueue_copies(pack, queue, copy, after, event);
    const RectRegion &r = copy.region;
    const std::size_t row = copy.offset / r.width;
    const std::lock_guard lock(mutex_);
    const cl_int code = set_arguments(
        kernel_.get(), cl_uint{pack ? 1U : 0U}, copy.buffer,
        cl_ulong{copy.first + row / r.rows * r.slice_pitch},
        cl_ulong4{{r.width, r.rows, r.row_pitch, r.slice_pitch}},
        cl_uint2{{static_cast<cl_uint>(copy.offset % r.width), static_cast<cl_uint>(row % r.rows)}},
        copy.packed, cl_ulong{copy.packed_offset}, cl_ulong{copy.size});
    if (code != CL_SUCCESS) return code;
    const std::size_t global =
        group_ * std::clamp<std::size_t>(copy.size / bytes_per_group, 1, most_groups_);
    return clEnqueueNDRangeKernel(queue, kernel_.get(), 1, nullptr, &global, &group_,
                                  after != nullptr ? 1 : 0, after != nullptr ? &after : nullptr,
                                  event);
}

}  // namespace cldist
