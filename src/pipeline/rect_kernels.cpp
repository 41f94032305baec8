#include "pipeline/rect_kernels.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error_code.hpp"
#include "base/log.hpp"
#include "ocl/build_log.hpp"
#include "ocl/query.hpp"

namespace cldist {
namespace {

// One work-item copies one element of the message. All numbers count elements.
constexpr const char *source = R"(
ulong place(ulong element, ulong first, ulong width, ulong rows, ulong row_pitch, ulong slice_pitch) {
    const ulong row = element / width;
    return first + row / rows * slice_pitch + row % rows * row_pitch + element % width;
}

#define RECT_KERNELS(bytes, element)                                                                              \
    kernel void pack##bytes(global const element *memory, global element *packed, ulong first, ulong width,       \
                            ulong rows, ulong row_pitch, ulong slice_pitch, ulong offset, ulong packed_offset,    \
                            ulong count) {                                                                        \
        const ulong i = get_global_id(0);                                                                         \
        if (i < count)                                                                                            \
            packed[packed_offset + i] = memory[place(offset + i, first, width, rows, row_pitch, slice_pitch)];    \
    }                                                                                                             \
    kernel void unpack##bytes(global element *memory, global const element *packed, ulong first, ulong width,     \
                              ulong rows, ulong row_pitch, ulong slice_pitch, ulong offset, ulong packed_offset,  \
                              ulong count) {                                                                      \
        const ulong i = get_global_id(0);                                                                         \
        if (i < count)                                                                                            \
            memory[place(offset + i, first, width, rows, row_pitch, slice_pitch)] = packed[packed_offset + i];    \
    }

RECT_KERNELS(1, uchar)
RECT_KERNELS(2, ushort)
RECT_KERNELS(4, uint)
RECT_KERNELS(8, uint2)
RECT_KERNELS(16, uint4)
)";

bool consists_of(const RectCopy &copy, std::size_t width) {
    const RectRegion &r = copy.region;
    return (r.width | r.row_pitch | r.slice_pitch | copy.first | copy.offset | copy.size) % width ==
           0;
}

// Enqueues a copy for each slice, or for each part of a row. Each copy waits for the previous one.
cl_int enqueue_copies(bool pack, cl_command_queue queue, const RectCopy &copy, cl_event after,
                      cl_event *event) {
    cl_int code = CL_SUCCESS;
    Event last = Event::share(after);
    for_each_row_run(copy.region, copy.offset, copy.size, [&](const RowRun &run) {
        if (code != CL_SUCCESS) return;
        // Some drivers require an origin within a row.
        const std::size_t pitch = run.count > 1 ? copy.region.row_pitch : run.width;
        const std::size_t start = copy.first + run.memory;
        const std::size_t memory[] = {start % pitch, start / pitch, 0};
        const std::size_t packed_start = copy.packed_offset + run.message;
        const std::size_t packed[] = {packed_start % run.width, packed_start / run.width, 0};
        const std::size_t region[] = {run.width, run.count, 1};
        const cl_event before = last.get();
        Event done;
        code = clEnqueueCopyBufferRect(queue, pack ? copy.buffer : copy.packed,
                                       pack ? copy.packed : copy.buffer, pack ? memory : packed,
                                       pack ? packed : memory, region, pack ? pitch : run.width, 0,
                                       pack ? run.width : pitch, 0, before != nullptr ? 1 : 0,
                                       before != nullptr ? &before : nullptr, done.out());
        last = std::move(done);
    });
    if (code == CL_SUCCESS) *event = last.give();
    return code;
}

}  // namespace

RectKernels::RectKernels(cl_context context, cl_device_id device)
    : built_(build(context, device)) {}

bool RectKernels::build(cl_context context, cl_device_id device) {
    const char *text = source;
    cl_int code = CL_SUCCESS;
    program_ = Program::adopt(clCreateProgramWithSource(context, 1, &text, nullptr, &code));
    if (code == CL_SUCCESS) code = clBuildProgram(program_.get(), 1, &device, "", nullptr, nullptr);
    if (code != CL_SUCCESS) {
        log_warning(
            "the device's compiler rejected the kernels for strided regions ({}); the regions are "
            "copied slice by "
            "slice. {}",
            code_text(code), program_ ? build_log(program_.get(), device) : "");
        return false;
    }
    const auto make = [&](const char *way, std::size_t width) {
        const std::string name = fmt::format("{}{}", way, width);
        Kernel kernel = create("clCreateKernel", clCreateKernel, program_.get(), name.c_str());
        std::size_t most = 1;
        clGetKernelWorkGroupInfo(kernel.get(), device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most,
                                 &most, nullptr);
        group_ = std::min(group_, most);
        return kernel;
    };
    std::size_t width = 16;
    for (Kernels &k : kernels_) {
        k = {width, make("pack", width), make("unpack", width)};
        width /= 2;
    }
    return true;
}

cl_int RectKernels::enqueue(Way way, cl_command_queue queue, const RectCopy &copy, cl_event after,
                            cl_event *event) {
    const bool pack = way == Way::pack;
    const cl_mem_flags flags = query<cl_mem_flags>(copy.buffer, CL_MEM_FLAGS).value_or(0);
    const bool closed_to_kernels = (flags & (pack ? CL_MEM_WRITE_ONLY : CL_MEM_READ_ONLY)) != 0;
    if (!built_ || closed_to_kernels) return enqueue_copies(pack, queue, copy, after, event);
    const auto widest = std::find_if(kernels_.begin(), kernels_.end(),
                                     [&](const Kernels &k) { return consists_of(copy, k.width); });
    return enqueue_kernel(
        pack ? widest->pack.get() : widest->unpack.get(), widest->width, queue, copy,
        after != nullptr ? std::span(&after, 1) : std::span<const cl_event>{}, event);
}

cl_int RectKernels::enqueue_kernel(cl_kernel kernel, std::size_t width, cl_command_queue queue,
                                   const RectCopy &copy, std::span<const cl_event> after,
                                   cl_event *event) {
    const RectRegion &r = copy.region;
    const std::size_t count = copy.size / width;
    const std::lock_guard lock(mutex_);
    cl_int code = clSetKernelArg(kernel, 0, sizeof copy.buffer, &copy.buffer);
    if (code == CL_SUCCESS) code = clSetKernelArg(kernel, 1, sizeof copy.packed, &copy.packed);
    cl_uint index = 2;
    for (const cl_ulong value :
         {copy.first / width, r.width / width, r.rows, r.row_pitch / width, r.slice_pitch / width,
          copy.offset / width, copy.packed_offset / width, count})
        if (code == CL_SUCCESS) code = clSetKernelArg(kernel, index++, sizeof value, &value);
    if (code != CL_SUCCESS) return code;
    const std::size_t global = (count + group_ - 1) / group_ * group_;
    return clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &global, &group_,
                                  static_cast<cl_uint>(after.size()),
                                  after.empty() ? nullptr : after.data(), event);
}

}  // namespace cldist
