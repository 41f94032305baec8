#include "cluster/objects/piece_kernels.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error_code.hpp"
#include "base/log.hpp"
#include "ocl/query.hpp"

namespace cldist::cluster {
namespace {

// Each work-group copies one piece. Offsets and sizes are in elements.
constexpr const char *source = R"(
#define PIECE_KERNELS(name, element)                                                                              \
    kernel void gather_##name(global const element *memory, global element *packed, global const ulong *pieces) { \
        global const ulong *piece = pieces + 3 * get_group_id(0);                                                 \
        for (ulong i = get_local_id(0); i < piece[2]; i += get_local_size(0))                                     \
            packed[piece[1] + i] = memory[piece[0] + i];                                                          \
    }                                                                                                             \
    kernel void scatter_##name(global element *memory, global const element *packed,                              \
                               global const ulong *pieces) {                                                      \
        global const ulong *piece = pieces + 3 * get_group_id(0);                                                 \
        for (ulong i = get_local_id(0); i < piece[2]; i += get_local_size(0))                                     \
            memory[piece[0] + i] = packed[piece[1] + i];                                                          \
    }

PIECE_KERNELS(bytes, uchar)
PIECE_KERNELS(words, uint)
)";

}  // namespace

PieceKernels::PieceKernels(cl_context context, cl_device_id device)
    : context_(Context::share(context)) {
    const char *text = source;
    cl_int code = CL_SUCCESS;
    program_ = Program::adopt(clCreateProgramWithSource(context, 1, &text, nullptr, &code));
    if (code == CL_SUCCESS) code = clBuildProgram(program_.get(), 1, &device, "", nullptr, nullptr);
    for (const auto &[kernel, name] :
         {std::pair(&gather_[0], "gather_bytes"), std::pair(&gather_[1], "gather_words"),
          std::pair(&scatter_[0], "scatter_bytes"), std::pair(&scatter_[1], "scatter_words")}) {
        if (code == CL_SUCCESS)
            *kernel = Kernel::adopt(clCreateKernel(program_.get(), name, &code));
        if (code != CL_SUCCESS) {
            log_warning(
                "the device's compiler rejected the kernels that pack pieces of buffers ({}); the "
                "pieces are copied "
                "one by one, which is slower",
                code_text(code));
            return;
        }
        std::size_t most = 1;
        clGetKernelWorkGroupInfo(kernel->get(), device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most,
                                 &most, nullptr);
        group_ = std::min(group_, most);
    }
    built_ = true;
}

bool PieceKernels::may_use(cl_mem buffer, bool gather) const {
    const cl_mem_flags closed = gather ? CL_MEM_WRITE_ONLY : CL_MEM_READ_ONLY;
    return built_ && (query<cl_mem_flags>(buffer, CL_MEM_FLAGS).value_or(closed) & closed) == 0;
}

cl_int PieceKernels::enqueue(bool gather, cl_command_queue queue, cl_mem buffer, cl_mem packed,
                             std::span<const PieceCopy> pieces, const WaitArguments &waits,
                             cl_event *event) {
    const bool by_words = std::ranges::all_of(pieces, [](const PieceCopy &piece) {
        return (piece.begin | piece.packed | piece.size) % sizeof(cl_uint) == 0;
    });
    const std::size_t width = by_words ? sizeof(cl_uint) : 1;
    std::vector<cl_ulong> numbers;
    for (const PieceCopy &piece : pieces)
        numbers.insert(numbers.end(),
                       {piece.begin / width, piece.packed / width, piece.size / width});
    cl_int code = CL_SUCCESS;
    const Mem table =
        Mem::adopt(clCreateBuffer(context_.get(), CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                                  numbers.size() * sizeof(cl_ulong), numbers.data(), &code));
    if (code != CL_SUCCESS) return code;
    const cl_kernel kernel = (gather ? gather_ : scatter_)[by_words ? 1 : 0].get();
    code = set_arguments(kernel, buffer, packed, table.get());
    if (code != CL_SUCCESS) return code;
    const std::size_t global = pieces.size() * group_;
    return clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &global, &group_, waits.count,
                                  waits.events, event);
}

}  // namespace cldist::cluster
