// Kernels with wrong access functions, which CLDIST_CHECK_ACCESS must report. The argument selects
// the error. Each kernel writes its first argument and reads its second, except `moved`, which
// reads its first.
#include <CL/cl_ext_split.h>

#include <string>
#include <vector>

#include "one_kernel.hpp"

using cluster_test::OneKernel;
using cluster_test::require;

namespace {

constexpr std::size_t count = 64;

const char *const source = R"(
kernel void next(global int *to, const global int *from) {
    const size_t i = get_global_id(0);
    to[i] = from[i] + (i + 1 < 64 ? from[i + 1] : 0);
}
kernel void even(global int *to, const global int *from) {
    const size_t i = get_global_id(0);
    if (i % 2 == 0) to[i] = from[i];
}
// The written elements can't be derived.
kernel void scattered(global int *to, const global int *from) {
    const size_t i = get_global_id(0);
    to[from[i] < 0 ? 63 - i : i] = from[i];
}
kernel void shifted(global int *to, const global int *from) {
    const size_t i = get_global_id(0);
    to[(i + 1) % 64] = from[i];
}
// It reads bytes that the access function does not list. The check finds that only if such bytes
// differ between copies.
kernel void copied(global int *to, const global int *from) { to[get_global_id(0)] = from[get_global_id(0)]; }
kernel void moved(global int *to, const global int *from) { to[get_global_id(0)] = to[get_global_id(0) + 64]; }
)";

std::string wrong;

/// Reports the elements of the sub-range and `more` elements behind it.
int items(const size_t *subrange, const size_t *first, std::size_t more, size_t start,
          size_t *next_start) {
    const std::size_t total = count;
    const auto begin = static_cast<std::ptrdiff_t>(first[0]);
    const std::size_t size = subrange[0] + more;
    return require_region(1, &total, &begin, &size, sizeof(cl_int), start, next_start);
}

bool says_nothing() { return wrong == "copied" || wrong == "moved"; }

int is_read(const void **, const size_t *, const size_t *subrange, const size_t *,
            const size_t *first, unsigned int param, size_t start, size_t *next_start) {
    if (param == 1 && !says_nothing())
        return items(subrange, first, wrong == "unwritten" || wrong == "right" ? 1 : 0, start,
                     next_start);
    *next_start = SIZE_MAX;
    return 0;
}

int is_written(const void **, const size_t *, const size_t *subrange, const size_t *,
               const size_t *first, unsigned int param, size_t start, size_t *next_start) {
    if (param == 0 && !says_nothing())
        return items(subrange, first, wrong == "overlap" || wrong == "unknown" ? 1 : 0, start,
                     next_start);
    *next_start = SIZE_MAX;
    return 0;
}

}  // namespace

int main(int argc, char **argv) {
    wrong = argc > 1 ? argv[1] : "";
    const std::string name = wrong == "left-alone" ? "even"
                             : wrong == "written"  ? "shifted"
                             : wrong == "unknown"  ? "scattered"
                             : says_nothing()      ? wrong
                                                   : "next";
    const OneKernel cl(source, name.c_str());
    const cl_kernel kernel = cl.kernel;
    cl_int code = CL_SUCCESS;
    require(clSetKernelAccessFunctions(kernel, is_read, is_written), "clSetKernelAccessFunctions");
    std::vector<cl_int> data(2 * count);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<cl_int>(3 * i + 1);
    const cl_mem to =
        clCreateBuffer(cl.context, CL_MEM_READ_WRITE, 2 * count * sizeof(cl_int), nullptr, &code);
    require(code, "clCreateBuffer");
    const cl_mem from =
        clCreateBuffer(cl.context, CL_MEM_READ_WRITE, 2 * count * sizeof(cl_int), nullptr, &code);
    require(code, "clCreateBuffer");
    const std::size_t filled = wrong == "unwritten" ? count / 2 : count;
    require(clEnqueueWriteBuffer(cl.queue, from, CL_TRUE, 0, filled * sizeof(cl_int), data.data(),
                                 0, nullptr, nullptr),
            "clEnqueueWriteBuffer");
    require(clSetKernelArg(kernel, 0, sizeof to, &to), "clSetKernelArg");
    require(clSetKernelArg(kernel, 1, sizeof from, &from), "clSetKernelArg");
    const std::size_t local = 1;
    require(
        clEnqueueNDRangeKernel(cl.queue, kernel, 1, nullptr, &count, &local, 0, nullptr, nullptr),
        "clEnqueueNDRangeKernel");
    require(clFinish(cl.queue), "clFinish");
    clReleaseMemObject(from);
    clReleaseMemObject(to);
    return 0;
}
