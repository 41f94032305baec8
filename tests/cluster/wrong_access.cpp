// Kernels whose meta-functions are wrong in a way that the argument names; CLDIST_CHECK_ACCESS finds it. The first argument of each is
// written, the second read.
#include <CL/cl_ext_split.h>

#include <cstdio>
#include <string>
#include <vector>

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
kernel void shifted(global int *to, const global int *from) {
    const size_t i = get_global_id(0);
    to[(i + 1) % 64] = from[i];
}
)";

std::string wrong;

/// The elements of the sub-range and so many behind it.
int items(const size_t *subrange, const size_t *first, std::size_t more, size_t start, size_t *next_start) {
    const std::size_t total = count;
    const auto begin = static_cast<std::ptrdiff_t>(first[0]);
    const std::size_t size = subrange[0] + more;
    return require_region(1, &total, &begin, &size, sizeof(cl_int), start, next_start);
}

int is_read(const void **, const size_t *, const size_t *subrange, const size_t *, const size_t *first,
            unsigned int param, size_t start, size_t *next_start) {
    if (param == 1) return items(subrange, first, wrong == "unwritten" || wrong == "right" ? 1 : 0, start, next_start);
    *next_start = SIZE_MAX;
    return 0;
}

int is_written(const void **, const size_t *, const size_t *subrange, const size_t *, const size_t *first,
               unsigned int param, size_t start, size_t *next_start) {
    if (param == 0) return items(subrange, first, wrong == "overlap" ? 1 : 0, start, next_start);
    *next_start = SIZE_MAX;
    return 0;
}

void require(cl_int code, const char *call) {
    if (code == CL_SUCCESS) return;
    std::fprintf(stderr, "%s: %d\n", call, code);
    std::exit(1);
}

}  // namespace

int main(int argc, char **argv) {
    wrong = argc > 1 ? argv[1] : "";
    const std::string name = wrong == "left-alone" ? "even" : wrong == "written" ? "shifted" : "next";
    cl_platform_id platform = nullptr;
    cl_device_id device = nullptr;
    require(clGetPlatformIDs(1, &platform, nullptr), "clGetPlatformIDs");
    require(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr), "clGetDeviceIDs");
    cl_int code = CL_SUCCESS;
    const cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
    require(code, "clCreateContext");
    const cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    require(code, "clCreateCommandQueue");
    const char *text = source;
    const cl_program program = clCreateProgramWithSource(context, 1, &text, nullptr, &code);
    require(code, "clCreateProgramWithSource");
    require(clBuildProgram(program, 0, nullptr, "", nullptr, nullptr), "clBuildProgram");
    const cl_kernel kernel = clCreateKernel(program, name.c_str(), &code);
    require(code, "clCreateKernel");
    require(clSetKernelAccessFunctions(kernel, is_read, is_written), "clSetKernelAccessFunctions");
    std::vector<cl_int> data(count);
    for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<cl_int>(3 * i + 1);
    const cl_mem to = clCreateBuffer(context, CL_MEM_READ_WRITE, count * sizeof(cl_int), nullptr, &code);
    require(code, "clCreateBuffer");
    const cl_mem from = clCreateBuffer(context, CL_MEM_READ_WRITE, count * sizeof(cl_int), nullptr, &code);
    require(code, "clCreateBuffer");
    const std::size_t filled = wrong == "unwritten" ? count / 2 : count;
    require(clEnqueueWriteBuffer(queue, from, CL_TRUE, 0, filled * sizeof(cl_int), data.data(), 0, nullptr, nullptr),
            "clEnqueueWriteBuffer");
    require(clSetKernelArg(kernel, 0, sizeof to, &to), "clSetKernelArg");
    require(clSetKernelArg(kernel, 1, sizeof from, &from), "clSetKernelArg");
    const std::size_t local = 1;
    require(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &count, &local, 0, nullptr, nullptr),
            "clEnqueueNDRangeKernel");
    require(clFinish(queue), "clFinish");
    clReleaseMemObject(from);
    clReleaseMemObject(to);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return 0;
}
