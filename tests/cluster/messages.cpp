// Counts the messages of queries for which one process must ask another: at most two for each
// process, and none if the query is repeated. The program is plain OpenCL. Its own PMPI_Isend,
// which replaces MPI's, counts the messages.
#include <CL/cl.h>
#include <dlfcn.h>
#include <mpi.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

namespace {

// Messages of this thread only, because the progress thread sends the commands' messages.
thread_local int sent = 0;

void expect(bool right, const char *what, int number = 0) {
    if (right) return;
    std::fprintf(stderr, "UNEXPECTED: %s (%d)\n", what, number);
    std::_Exit(9);
}

/// The number of messages that all processes send during `call`.
int messages_of(const std::function<void()> &call) {
    sent = 0;
    call();
    int mine = sent;
    int all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

}  // namespace

extern "C" int PMPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag,
                          MPI_Comm comm, MPI_Request *request) {
    ++sent;
    decltype(&PMPI_Isend) next = nullptr;
    void *const symbol = dlsym(RTLD_NEXT, "PMPI_Isend");
    std::memcpy(&next, &symbol, sizeof next);
    return next(data, count, type, to, tag, comm, request);
}

int main() {
    cl_platform_id platform = nullptr;
    expect(clGetPlatformIDs(1, &platform, nullptr) == CL_SUCCESS, "clGetPlatformIDs");
    cl_uint count = 0;
    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count);
    std::vector<cl_device_id> devices(count);
    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr);
    cl_int code = CL_SUCCESS;
    const cl_context context =
        clCreateContext(nullptr, count, devices.data(), nullptr, nullptr, &code);
    const cl_command_queue queue =
        clCreateCommandQueue(context, devices.back(), CL_QUEUE_PROFILING_ENABLE, &code);
    const char *source =
        "kernel void one(global int *a) { a[0] = 1; } kernel void two(global int *a) { a[0] = 2; }";
    const cl_program program = clCreateProgramWithSource(context, 1, &source, nullptr, &code);
    const cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, 64, nullptr, &code);
    expect(code == CL_SUCCESS, "clCreateBuffer", code);
    cl_event event = nullptr;
    expect(clEnqueueFillBuffer(queue, buffer, "1234", 4, 0, 64, 0, nullptr, &event) == CL_SUCCESS,
           "fill");
    int processes = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &processes);

    const int building =
        messages_of([&] { code = clBuildProgram(program, 0, nullptr, nullptr, nullptr, nullptr); });
    expect(code == CL_SUCCESS, "clBuildProgram", code);
    expect(building > 0 && building <= 2 * processes, "messages of clBuildProgram", building);

    std::array<char, 4096> answer{};
    const auto program_info = [&](cl_program_info param) {
        return clGetProgramInfo(program, param, answer.size(), answer.data(), nullptr);
    };
    struct Question {
        const char *name;
        std::function<cl_int()> ask;
    };
    const std::vector<Question> questions = {
        {"clCreateKernel",
         [&] {
             cl_int error = CL_SUCCESS;
             clCreateKernel(program, "one", &error);
             return error;
         }},
        {"clCreateKernel, the other one",
         [&] {
             cl_int error = CL_SUCCESS;
             clCreateKernel(program, "two", &error);
             return error;
         }},
        {"CL_PROGRAM_BINARY_SIZES", [&] { return program_info(CL_PROGRAM_BINARY_SIZES); }},
        {"CL_PROGRAM_NUM_KERNELS", [&] { return program_info(CL_PROGRAM_NUM_KERNELS); }},
        {"CL_PROGRAM_KERNEL_NAMES", [&] { return program_info(CL_PROGRAM_KERNEL_NAMES); }},
        {"CL_PROGRAM_BUILD_LOG",
         [&] {
             cl_int first_error = CL_SUCCESS;
             for (const cl_device_id device : devices) {
                 const cl_int error = clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG,
                                                            answer.size(), answer.data(), nullptr);
                 if (first_error == CL_SUCCESS) first_error = error;
             }
             return first_error;
         }},
        {"clGetSupportedImageFormats",
         [&] {
             cl_uint formats = 0;
             return clGetSupportedImageFormats(context, CL_MEM_READ_WRITE, CL_MEM_OBJECT_IMAGE2D, 0,
                                               nullptr, &formats);
         }},
        {"clCreateSubDevices",
         [&] {
             const cl_device_partition_property equally[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
             cl_uint parts = 0;
             const cl_int error = clCreateSubDevices(devices.back(), equally, 0, nullptr, &parts);
             std::vector<cl_device_id> list(parts);
             return error != CL_SUCCESS
                        ? error
                        : clCreateSubDevices(devices.back(), equally, parts, list.data(), nullptr);
         }},
        {"clWaitForEvents", [&] { return clWaitForEvents(1, &event); }},
        {"clGetEventProfilingInfo",
         [&] {
             return clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof(cl_ulong),
                                            answer.data(), nullptr);
         }},
    };
    for (const auto &[name, ask] : questions) {
        const int first = messages_of([&] { code = ask(); });
        expect(code == CL_SUCCESS, name, code);
        expect(first > 0 && first <= 2 * processes, name, first);
        const int again = messages_of([&] { code = ask(); });
        expect(code == CL_SUCCESS && again == 0, name, again);
    }
    // The event's end is already known.
    const int status = messages_of([&] {
        code = clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(cl_int),
                              answer.data(), nullptr);
    });
    expect(code == CL_SUCCESS && status == 0, "CL_EVENT_COMMAND_EXECUTION_STATUS", status);
    // The rebuilt program may have other kernels.
    const int rebuilding =
        messages_of([&] { clBuildProgram(program, 0, nullptr, "-DA", nullptr, nullptr); });
    expect(rebuilding <= 2 * processes, "messages of building again", rebuilding);
    std::printf("well\n");
}
