// Launches whose sub-ranges exchange columns of a matrix. A script counts the messages; the program
// itself checks nothing.
#include <CL/cl_ext_split.h>

#include <vector>

#include "one_kernel.hpp"

using cluster_test::OneKernel;
using cluster_test::require;

namespace {

constexpr std::size_t width = 64;
constexpr std::size_t height = 50;
constexpr std::size_t launches = 10;

const char *const source = R"(
kernel void to_the_right(global int *to, const global int *from) {
    const int x = get_global_id(0);
    for (int y = 0; y < 50; ++y) to[y * 64 + x] = from[y * 64 + x] + (x > 0 ? from[y * 64 + x - 1] : 1);
}
)";

int columns(std::ptrdiff_t first, std::size_t count, size_t start, size_t *next_start) {
    const std::size_t total[] = {width, height};
    const std::ptrdiff_t begin[] = {first, 0};
    const std::size_t size[] = {count, height};
    return require_region(2, total, begin, size, sizeof(cl_int), start, next_start);
}

int nothing(size_t *next_start) {
    *next_start = SIZE_MAX;
    return 0;
}

}  // namespace

extern "C" int is_buffer_range_read_to_the_right(const void **, const size_t *,
                                                 const size_t *subrange, const size_t *,
                                                 const size_t *first, unsigned int param,
                                                 size_t start, size_t *next_start) {
    if (param != 1) return nothing(next_start);
    return columns(static_cast<std::ptrdiff_t>(first[0]) - 1, subrange[0] + 1, start, next_start);
}

extern "C" int is_buffer_range_written_to_the_right(const void **, const size_t *,
                                                    const size_t *subrange, const size_t *,
                                                    const size_t *first, unsigned int param,
                                                    size_t start, size_t *next_start) {
    if (param != 0) return nothing(next_start);
    return columns(static_cast<std::ptrdiff_t>(first[0]), subrange[0], start, next_start);
}

int main() {
    const OneKernel cl(source, "to_the_right");
    const cl_kernel kernel = cl.kernel;
    cl_int code = CL_SUCCESS;
    std::vector<cl_int> data(width * height, 1);
    cl_mem buffers[2];
    for (cl_mem &buffer : buffers) {
        buffer = clCreateBuffer(cl.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                data.size() * sizeof(cl_int), data.data(), &code);
        require(code, "clCreateBuffer");
    }
    for (std::size_t i = 0; i < launches; ++i) {
        require(clSetKernelArg(kernel, 0, sizeof(cl_mem), &buffers[1 - i % 2]), "clSetKernelArg");
        require(clSetKernelArg(kernel, 1, sizeof(cl_mem), &buffers[i % 2]), "clSetKernelArg");
        require(clEnqueueNDRangeKernel(cl.queue, kernel, 1, nullptr, &width, nullptr, 0, nullptr,
                                       nullptr),
                "clEnqueueNDRangeKernel");
    }
    require(clFinish(cl.queue), "clFinish");
    for (const cl_mem buffer : buffers) clReleaseMemObject(buffer);
    return 0;
}
