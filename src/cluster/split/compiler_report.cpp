#include "cluster/split/compiler_report.hpp"

#include "ocl/query.hpp"

namespace cldist::cluster {

std::string report_of_compiler(const Space &space, cl_device_id device,
                               const Conditionals &conditionals, const std::string &options) {
    const cl_context context = space.context.get();
    const std::string source = conditionals.program();
    const char *text = source.c_str();
    const Program program =
        create("clCreateProgramWithSource", clCreateProgramWithSource, context, 1U, &text, nullptr);
    check(clBuildProgram(program.get(), 1, &device, options.c_str(), nullptr, nullptr),
          "clBuildProgram");
    const Kernel kernel =
        create("clCreateKernel", clCreateKernel, program.get(), Conditionals::kernel_name);
    std::string report(conditionals.report_size(), '\1');
    const auto size = static_cast<cl_uint>(report.size());
    const Mem memory =
        create("clCreateBuffer", clCreateBuffer, context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
               report.size(), report.data());
    const cl_mem native = memory.get();
    check(clSetKernelArg(kernel.get(), 0, sizeof native, &native), "clSetKernelArg");
    check(clSetKernelArg(kernel.get(), 1, sizeof size, &size), "clSetKernelArg");
    const Queue queue = create("clCreateCommandQueue", clCreateCommandQueue, context, device, 0U);
    const std::size_t one = 1;
    check(clEnqueueNDRangeKernel(queue.get(), kernel.get(), 1, nullptr, &one, &one, 0, nullptr,
                                 nullptr),
          "clEnqueueNDRangeKernel");
    check(clEnqueueReadBuffer(queue.get(), native, CL_TRUE, 0, report.size(), report.data(), 0,
                              nullptr, nullptr),
          "clEnqueueReadBuffer");
    return report.substr(0, report.find('\0') + 1);
}

}  // namespace cldist::cluster
