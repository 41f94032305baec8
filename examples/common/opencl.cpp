#include "opencl.hpp"

#include <vector>

namespace examples {
namespace {

std::vector<cl_device_id> devices_of(cl_device_type type) {
    cl_uint count = 0;
    if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS) return {};
    std::vector<cl_platform_id> platforms(count);
    check(clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
    std::vector<cl_device_id> devices;
    for (cl_platform_id platform : platforms) {
        if (clGetDeviceIDs(platform, type, 0, nullptr, &count) != CL_SUCCESS) continue;
        devices.resize(devices.size() + count);
        check(clGetDeviceIDs(platform, type, count, &*devices.end() - count, nullptr),
              "clGetDeviceIDs");
    }
    return devices;
}

}  // namespace

int rank_of(MPI_Comm comm) {
    int rank;
    MPI_Comm_rank(comm, &rank);
    return rank;
}

int size_of(MPI_Comm comm) {
    int size;
    MPI_Comm_size(comm, &size);
    return size;
}

Device Device::choose(int index, MPI_Comm comm) {
    std::vector<cl_device_id> devices = devices_of(CL_DEVICE_TYPE_GPU);
    const bool is_gpu = !devices.empty();
    if (!is_gpu) devices = devices_of(CL_DEVICE_TYPE_CPU);
    if (devices.empty()) throw std::runtime_error("no OpenCL device found");
    if (index < 0) {
        MPI_Comm host;
        MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
        index = rank_of(host) % int(devices.size());
        MPI_Comm_free(&host);
    }
    if (index >= int(devices.size()))
        throw std::runtime_error(
            fmt::format("there is no device {}, only {}", index, devices.size()));
    std::size_t size;
    check(clGetDeviceInfo(devices[index], CL_DEVICE_NAME, 0, nullptr, &size), "clGetDeviceInfo");
    std::string name(size, '\0');
    check(clGetDeviceInfo(devices[index], CL_DEVICE_NAME, size, name.data(), nullptr),
          "clGetDeviceInfo");
    name.pop_back();  // the terminating zero
    return {devices[index], is_gpu, name};
}

Context make_context(const Device &device) {
    cl_int status;
    Context context(clCreateContext(nullptr, 1, &device.id, nullptr, nullptr, &status));
    check(status, "clCreateContext");
    return context;
}

Queue make_queue(const Context &context, const Device &device) {
    cl_int status;
    const cl_queue_properties properties[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0};
    Queue queue(clCreateCommandQueueWithProperties(context.get(), device.id, properties, &status));
    check(status, "clCreateCommandQueueWithProperties");
    return queue;
}

Kernel build_kernel(const Context &context, const Device &device, const char *source,
                    const std::string &options, const char *name) {
    cl_int status;
    const Program program(clCreateProgramWithSource(context.get(), 1, &source, nullptr, &status));
    check(status, "clCreateProgramWithSource");
    check(clBuildProgram(program.get(), 1, &device.id, options.c_str(), nullptr, nullptr),
          "clBuildProgram");
    Kernel kernel(clCreateKernel(program.get(), name, &status));
    check(status, "clCreateKernel");
    return kernel;
}

Buffer make_buffer(const Context &context, std::size_t bytes, cl_mem_flags flags) {
    cl_int status;
    Buffer buffer(clCreateBuffer(context.get(), flags, bytes, nullptr, &status));
    check(status, "clCreateBuffer");
    return buffer;
}

PinnedMemory::PinnedMemory(const Context &context, const Device &device, std::size_t bytes)
    : queue_(make_queue(context, device)),
      buffer_(make_buffer(context, bytes, CL_MEM_ALLOC_HOST_PTR)) {
    cl_int status;
    data_ = static_cast<std::byte *>(clEnqueueMapBuffer(queue_.get(), buffer_.get(), CL_TRUE,
                                                        CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0,
                                                        nullptr, nullptr, &status));
    check(status, "mapping page-locked memory");
}

PinnedMemory::~PinnedMemory() {
    if (!buffer_) return;
    clEnqueueUnmapMemObject(queue_.get(), buffer_.get(), data_, 0, nullptr, nullptr);
    clFinish(queue_.get());
}

}  // namespace examples
