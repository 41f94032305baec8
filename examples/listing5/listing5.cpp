// Receives a message into host memory. A device waits for it while the host continues.
//
// Rank 0 computes on its device and sends the result from there. Rank 1 receives it into host
// memory with MPI_Irecv, as MPI programs usually do, but with the datatype MPI_CL_MEM. It creates
// an event from the request. A write to the device and a kernel wait for this event. Another kernel
// does not depend on the message and runs at the same time. The host of rank 1 waits once, at the
// end.
//
// The program follows Listing 5 in "clDataTransfer" (Takizawa et al. 2015).

#include <CL/cl_ext_dist.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr size_t count = 1 << 20;  // floats
constexpr size_t size = count * sizeof(float);
constexpr int tag = 1;

const char *const source = R"(
    kernel void fill(global float *data) { data[get_global_id(0)] = get_global_id(0) % 1000; }
    kernel void twice(global float *data) { data[get_global_id(0)] *= 2; }
    kernel void busy(global float *data) {
        float x = get_global_id(0) % 7;
        for (int i = 0; i < 100; ++i) x = x * 0.5f + 1;
        data[get_global_id(0)] = x;
    }
)";

void check(cl_int code, const char *call) {
    if (code == CL_SUCCESS) return;
    std::fprintf(stderr, "%s gave %d\n", call, code);
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::abort();
}

cl_kernel make_kernel(cl_program program, const char *name, cl_mem buffer) {
    cl_int code = CL_SUCCESS;
    cl_kernel kernel = clCreateKernel(program, name, &code);
    check(code, "clCreateKernel");
    check(clSetKernelArg(kernel, 0, sizeof buffer, &buffer), "clSetKernelArg");
    return kernel;
}

void launch(cl_command_queue queue, cl_kernel kernel, cl_uint waits, const cl_event *wait_list,
            cl_event *event) {
    check(
        clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &count, nullptr, waits, wait_list, event),
        "clEnqueueNDRangeKernel");
}

}  // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    int ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2) {
        std::fprintf(stderr, "listing5 runs on 2 processes, not on %d\n", ranks);
        MPI_Finalize();
        return 2;
    }

    cl_int code = CL_SUCCESS;
    cl_platform_id platform = nullptr;
    cl_device_id device = nullptr;
    check(clGetPlatformIDs(1, &platform, nullptr), "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr), "clGetDeviceIDs");
    cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
    check(code, "clCreateContext");
    // Two in-order queues. Only the commands of `dependent` depend on the message.
    cl_command_queue dependent = clCreateCommandQueue(context, device, 0, &code);
    check(code, "clCreateCommandQueue");
    cl_command_queue independent = clCreateCommandQueue(context, device, 0, &code);
    check(code, "clCreateCommandQueue");
    cl_program program =
        clCreateProgramWithSource(context, 1, const_cast<const char **>(&source), nullptr, &code);
    check(code, "clCreateProgramWithSource");
    check(clBuildProgram(program, 1, &device, nullptr, nullptr, nullptr), "clBuildProgram");
    cl_mem data = clCreateBuffer(context, CL_MEM_READ_WRITE, size, nullptr, &code);
    check(code, "clCreateBuffer");
    cl_mem other = clCreateBuffer(context, CL_MEM_READ_WRITE, size, nullptr, &code);
    check(code, "clCreateBuffer");
    cl_kernel fill = make_kernel(program, "fill", data);
    cl_kernel twice = make_kernel(program, "twice", data);
    cl_kernel busy = make_kernel(program, "busy", other);

    size_t wrong = 0;
    std::vector<float> host(count);
    if (rank == 0) {
        launch(dependent, fill, 0, nullptr, nullptr);
        check(clEnqueueSendBuffer(dependent, data, CL_TRUE, 0, size, 1, tag, MPI_COMM_WORLD, 0,
                                  nullptr, nullptr),
              "clEnqueueSendBuffer");
    } else {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Irecv(host.data(), static_cast<int>(size), MPI_CL_MEM, 0, tag, MPI_COMM_WORLD,
                  &request);
        cl_event received = clCreateEventFromMPIRequest(context, &request, &code);
        check(code, "clCreateEventFromMPIRequest");

        check(clEnqueueWriteBuffer(dependent, data, CL_FALSE, 0, size, host.data(), 1, &received,
                                   nullptr),
              "clEnqueueWriteBuffer");
        launch(dependent, twice, 0, nullptr, nullptr);
        check(clFlush(dependent), "clFlush");
        launch(independent, busy, 0, nullptr, nullptr);  // runs during the message
        check(clFlush(independent), "clFlush");

        std::vector<float> result(count);
        check(clEnqueueReadBuffer(dependent, data, CL_TRUE, 0, size, result.data(), 0, nullptr,
                                  nullptr),
              "clEnqueueReadBuffer");
        MPI_Wait(&request, MPI_STATUS_IGNORE);  // the request is complete; this call releases it
        check(clFinish(independent), "clFinish");
        for (size_t i = 0; i < count; ++i) wrong += result[i] != 2 * static_cast<float>(i % 1000);
        clReleaseEvent(received);
        std::printf("%zu of %zu values are wrong\n", wrong, count);
    }

    for (cl_kernel kernel : {fill, twice, busy}) clReleaseKernel(kernel);
    for (cl_mem buffer : {data, other}) clReleaseMemObject(buffer);
    clReleaseProgram(program);
    for (cl_command_queue queue : {dependent, independent}) clReleaseCommandQueue(queue);
    clReleaseContext(context);
    MPI_Finalize();
    return wrong == 0 ? 0 : 1;
}
