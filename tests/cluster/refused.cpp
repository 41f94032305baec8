// A device's platform refuses memory for bytes from another process. The commands that need the
// bytes must fail in all processes, and all other commands must succeed. The program is plain
// OpenCL. Its own clCreateBuffer, which replaces the loader's, refuses the memory.
#include <CL/cl.h>
#include <CL/cl_ext_attach.h>
#include <CL/cl_ext_collective.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace {

bool refuses = false;
bool refuses_next = false;      // only the next call
bool rejects_launch = false;    // only the platform's next launch
bool refuses_platform = false;  // refuses only calls that the platform makes

void expect(bool right, const char *what, int code = 0) {
    if (right) return;
    std::fprintf(stderr, "UNEXPECTED: %s (%d)\n", what, code);
    std::_Exit(9);
}

}  // namespace

// Also gets the platform's own calls. `within`: nested in a call of this thread.
extern "C" CL_API_ENTRY cl_mem CL_API_CALL clCreateBuffer(cl_context context, cl_mem_flags flags,
                                                          size_t size, void *host, cl_int *code) {
    static thread_local bool within = false;
    if (refuses || std::exchange(refuses_next, false) || (refuses_platform && within)) {
        if (code != nullptr) *code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
        return nullptr;
    }
    decltype(&clCreateBuffer) next = nullptr;
    void *const symbol = dlsym(RTLD_NEXT, "clCreateBuffer");
    std::memcpy(&next, &symbol, sizeof next);
    const bool outer = !within;
    within = true;
    const cl_mem memory = next(context, flags, size, host, code);
    within = !outer;
    return memory;
}

extern "C" CL_API_ENTRY cl_int CL_API_CALL
clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                       const size_t *offset, const size_t *global, const size_t *local,
                       cl_uint count, const cl_event *waits, cl_event *event) {
    static thread_local bool within = false;
    if (within && std::exchange(rejects_launch, false)) return CL_OUT_OF_RESOURCES;
    decltype(&clEnqueueNDRangeKernel) next = nullptr;
    void *const symbol = dlsym(RTLD_NEXT, "clEnqueueNDRangeKernel");
    std::memcpy(&next, &symbol, sizeof next);
    const bool outer = !within;
    within = true;
    const cl_int code = next(queue, kernel, dimensions, offset, global, local, count, waits, event);
    within = !outer;
    return code;
}

namespace {

/// In one process, the driver rejects the first command that needs bytes of another device. The
/// next one must wait for these bytes, too.
void run_after_rejected_launch(const std::vector<cl_device_id> &devices) {
    cl_int code = CL_SUCCESS;
    const cl_context context = clCreateContext(nullptr, 2, devices.data(), nullptr, nullptr, &code);
    const cl_command_queue first = clCreateCommandQueue(context, devices[0], 0, &code);
    const cl_command_queue second = clCreateCommandQueue(context, devices[1], 0, &code);
    const char *source =
        "kernel void slow(global uint *to) {\n"
        "    uint value = 1;\n"
        "    for (int i = 0; i < 200000000; ++i) value = value * 1664525u + 1013904223u;\n"
        "    *to = value | 1;\n"
        "}\n"
        "kernel void copy(global uint *to, const global uint *from) { *to = *from; }\n";
    const cl_program program = clCreateProgramWithSource(context, 1, &source, nullptr, &code);
    expect(clBuildProgram(program, 2, devices.data(), "", nullptr, nullptr) == CL_SUCCESS,
           "a build");
    const cl_kernel slow = clCreateKernel(program, "slow", &code);
    const cl_kernel copy = clCreateKernel(program, "copy", &code);
    unsigned found = 0;
    const auto make = [&] {
        return clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof found,
                              &found, &code);
    };
    const cl_mem from = make();
    const cl_mem to = make();
    clSetKernelArg(slow, 0, sizeof from, &from);
    clSetKernelArg(copy, 0, sizeof to, &to);
    clSetKernelArg(copy, 1, sizeof from, &from);
    const std::size_t one = 1;
    code = clEnqueueNDRangeKernel(first, slow, 1, nullptr, &one, nullptr, 0, nullptr, nullptr);
    expect(code == CL_SUCCESS, "the slow launch", code);
    rejects_launch = true;
    code = clEnqueueNDRangeKernel(second, copy, 1, nullptr, &one, nullptr, 0, nullptr, nullptr);
    expect(code == CL_OUT_OF_RESOURCES, "the rejected launch", code);
    code = clEnqueueReadBuffer(second, from, CL_TRUE, 0, sizeof found, &found, 0, nullptr, nullptr);
    expect(code == CL_SUCCESS && found != 0, "the read after the rejected launch", code);
    for (const cl_mem buffer : {from, to}) clReleaseMemObject(buffer);
    for (const cl_kernel kernel : {slow, copy}) clReleaseKernel(kernel);
    clReleaseProgram(program);
    for (const cl_command_queue queue : {first, second}) clReleaseCommandQueue(queue);
    clReleaseContext(context);
    std::printf("well\n");
}

/// The device of one process has no memory for these collectives. They must end with an error in
/// all processes, and later ones must succeed.
void run_collectives(cl_context context, const std::vector<cl_device_id> &devices,
                     bool lacks_memory) {
    // Reductions are left out: PoCL 3.1 aborts in the commands that use missing bytes, and the
    // platform then ends the job with a message.
    constexpr std::size_t size = 1'200'000;
    cl_int code = CL_SUCCESS;
    const auto n = static_cast<cl_uint>(devices.size());
    std::vector<cl_command_queue> queues;
    for (const cl_device_id device : devices)
        queues.push_back(clCreateCommandQueue(context, device, 0, &code));
    const auto make = [&](std::size_t bytes) {
        const cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, nullptr, &code);
        expect(code == CL_SUCCESS, "clCreateBuffer", code);
        return buffer;
    };
    for (const bool gathers : {false, true})
        for (const bool refused : {true, false}) {
            std::vector<cl_mem> from;
            std::vector<cl_mem> to;
            const std::size_t got = gathers ? n * size : size;
            const std::vector<unsigned char> ones(size, 1);
            for (cl_uint i = 0; i < n; ++i) {
                from.push_back(make(size));
                to.push_back(make(got));
                code = clEnqueueWriteBuffer(queues[i], from[i], CL_TRUE, 0, size, ones.data(), 0,
                                            nullptr, nullptr);
                expect(code == CL_SUCCESS, "clEnqueueWriteBuffer", code);
            }
            refuses = refused && lacks_memory;
            cl_event event = nullptr;
            code = gathers ? clEnqueueAllGatherBuffer(queues.data(), n, from.data(), to.data(),
                                                      nullptr, nullptr, size, 0, nullptr, &event)
                           : clEnqueueBroadcastBuffer(queues.data(), from[0], n, to.data(), 0,
                                                      nullptr, size, 0, nullptr, &event);
            expect(code == CL_SUCCESS, "a collective", code);
            code = clWaitForEvents(1, &event);
            cl_int status = CL_QUEUED;
            clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                           nullptr);
            refuses = false;
            expect(
                refused ? code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST && status < 0
                        : code == CL_SUCCESS,
                refused ? "a collective without memory" : "a collective after one without memory",
                code);
            clReleaseEvent(event);
            std::vector<unsigned char> found(got);
            const std::vector<unsigned char> wanted(got, 1);
            for (cl_uint i = 0; !refused && i < n; ++i) {
                code = clEnqueueReadBuffer(queues[i], to[i], CL_TRUE, 0, got, found.data(), 0,
                                           nullptr, nullptr);
                expect(code == CL_SUCCESS && found == wanted, "the result of a collective", code);
            }
            for (const cl_mem buffer : from) clReleaseMemObject(buffer);
            for (const cl_mem buffer : to) clReleaseMemObject(buffer);
        }
    for (const cl_command_queue queue : queues) {
        expect(clFinish(queue) == CL_SUCCESS, "clFinish");
        clReleaseCommandQueue(queue);
    }
}

/// On the single virtual device: two devices of a process share a memory, and the transfer that
/// brings the input of both fails. No part of the launch there may use the missing bytes.
void run_split_kernel(cl_device_id device, bool lacks_memory) {
    constexpr std::size_t count = 64;
    cl_int code = CL_SUCCESS;
    const cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
    const cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    const char *source =
        "kernel void set(global int *to) { for (int i = 0; i < 64; ++i) to[i] = i; }\n"
        "kernel void sum(global int *to, const global int *from) {\n"
        "    int sum = 0;\n"
        "    for (int i = 0; i < 64; ++i) sum += from[i];\n"
        "    to[get_global_id(0)] = sum;\n"
        "}\n";
    const cl_program program = clCreateProgramWithSource(context, 1, &source, nullptr, &code);
    expect(clBuildProgram(program, 1, &device, "", nullptr, nullptr) == CL_SUCCESS, "a build");
    const cl_kernel set = clCreateKernel(program, "set", &code);
    const cl_kernel sum = clCreateKernel(program, "sum", &code);
    std::vector<int> found(count, -1);
    const cl_mem from =
        clCreateBuffer(context, CL_MEM_READ_WRITE, count * sizeof(int), nullptr, &code);
    const cl_mem to = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                     count * sizeof(int), found.data(), &code);
    clSetKernelArg(set, 0, sizeof from, &from);
    clSetKernelArg(sum, 0, sizeof to, &to);
    clSetKernelArg(sum, 1, sizeof from, &from);
    const std::size_t one = 1;
    code = clEnqueueNDRangeKernel(queue, set, 1, nullptr, &one, nullptr, 0, nullptr, nullptr);
    expect(code == CL_SUCCESS, "the first launch", code);
    refuses_next = lacks_memory;
    cl_event event = nullptr;
    code = clEnqueueNDRangeKernel(queue, sum, 1, nullptr, &count, nullptr, 0, nullptr, &event);
    expect(code == CL_SUCCESS && !refuses_next, "the second launch", code);
    code = clWaitForEvents(1, &event);
    expect(code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "a launch without input", code);
    code = clEnqueueReadBuffer(queue, to, CL_TRUE, 0, count * sizeof(int), found.data(), 0, nullptr,
                               nullptr);
    expect(code == CL_SUCCESS, "clEnqueueReadBuffer", code);
    for (const int each : found) expect(each == -1 || each == 2016, "an output", each);
    expect(found.front() == 2016 && found.back() == -1, "the outputs", found.back());
    clReleaseEvent(event);
    for (const cl_mem buffer : {from, to}) clReleaseMemObject(buffer);
    for (const cl_kernel kernel : {set, sum}) clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    std::printf("well\n");
}

}  // namespace

int main() {
    constexpr std::size_t size = 3'000'000;
    cl_platform_id platform = nullptr;
    expect(clGetPlatformIDs(1, &platform, nullptr) == CL_SUCCESS, "clGetPlatformIDs");
    cl_uint count = 0;
    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count);
    std::vector<cl_device_id> devices(count);
    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr);
    const char *rank = std::getenv("OMPI_COMM_WORLD_RANK");
    if (rank == nullptr) rank = std::getenv("PMI_RANK");  // MPICH
    const bool is_one = rank != nullptr && std::strcmp(rank, "1") == 0;
    if (std::getenv("CLDIST_VIEW") != nullptr) {
        run_split_kernel(devices.front(), is_one);
        return 0;
    }
    expect(count > 1, "one device", static_cast<int>(count));
    if (std::getenv("CLDIST_DEVICE_MEMORIES") != nullptr) {
        run_after_rejected_launch(devices);
        return 0;
    }
    cl_int code = CL_SUCCESS;
    const cl_context context =
        clCreateContext(nullptr, count, devices.data(), nullptr, nullptr, &code);
    const cl_command_queue first = clCreateCommandQueue(context, devices.front(), 0, &code);
    const cl_command_queue last = clCreateCommandQueue(context, devices.back(), 0, &code);
    const cl_mem refused = clCreateBuffer(context, CL_MEM_READ_WRITE, size, nullptr, &code);
    const cl_mem other = clCreateBuffer(context, CL_MEM_READ_WRITE, size, nullptr, &code);
    expect(code == CL_SUCCESS, "clCreateBuffer", code);
    const std::vector<char> data(size, 'x');
    std::vector<char> found(size);
    const auto is_read = [&](cl_command_queue queue, cl_mem buffer) {
        found.assign(size, 0);
        code =
            clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, size, found.data(), 0, nullptr, nullptr);
        return code == CL_SUCCESS && found == data;
    };

    const auto write = [&](cl_mem buffer) {
        code =
            clEnqueueWriteBuffer(first, buffer, CL_TRUE, 0, size, data.data(), 0, nullptr, nullptr);
        expect(code == CL_SUCCESS, "clEnqueueWriteBuffer", code);
    };
    write(refused);
    write(other);
    // This read makes the library allocate its staging memory.
    expect(is_read(last, other), "a read of another process's bytes", code);
    refuses = true;
    is_read(last, refused);
    expect(code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "the read without memory", code);
    refuses = false;
    is_read(last, refused);
    expect(code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "a second read of lost bytes",
           code);
    write(other);
    expect(is_read(last, other), "the read of another buffer", code);
    expect(is_read(first, refused), "the read where the bytes are", code);
    write(refused);
    expect(is_read(last, refused), "the read of bytes that were written again", code);
    // Bytes that move to a buffer's device, when the buffer is bound and after a write elsewhere.
    const cl_mem bound = clCreateBuffer(context, CL_MEM_READ_WRITE, size, nullptr, &code);
    write(bound);
    refuses = true;
    code = clAttachBufferToDevice(bound, devices.back());
    refuses = false;
    expect(code == CL_SUCCESS, "clAttachBufferToDevice", code);
    is_read(last, bound);
    expect(code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "the read where it is bound",
           code);
    const cl_mem written = clCreateBuffer(context, CL_MEM_READ_WRITE, size, nullptr, &code);
    code = clAttachBufferToDevice(written, devices.back());
    expect(code == CL_SUCCESS, "clAttachBufferToDevice", code);
    refuses = rank != nullptr && std::atoi(rank) == static_cast<int>(count) - 1;
    write(written);
    refuses = false;
    is_read(last, written);
    expect(code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "the read of a lost write", code);
    // The last device lacks the bytes, so it cannot send them when the buffer is bound elsewhere.
    // That transfer has failed before the read, because messages between two devices stay in order.
    // On PoCL 3.1, the job ends with a message, unless CLDIST_ON_ERROR=event.
    const cl_mem unsent = clCreateBuffer(context, CL_MEM_READ_WRITE, size, nullptr, &code);
    if (std::getenv("CLDIST_ON_ERROR") != nullptr) {
        write(unsent);
        refuses = true;
        code = clAttachBufferToDevice(unsent, devices.back());
        refuses = false;
        expect(code == CL_SUCCESS, "clAttachBufferToDevice", code);
        code = clAttachBufferToDevice(unsent, devices.front());
        expect(code == CL_SUCCESS, "clAttachBufferToDevice", code);
        code =
            clEnqueueWriteBuffer(last, other, CL_TRUE, 0, size, data.data(), 0, nullptr, nullptr);
        expect(code == CL_SUCCESS && is_read(first, other), "the read of another buffer", code);
        is_read(first, unsent);
        expect(code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "the read of unsent bytes",
               code);
        write(unsent);
        expect(is_read(first, unsent), "the read of bytes that were written again", code);
    }
    for (const cl_mem buffer : {bound, written, unsent}) clReleaseMemObject(buffer);
    // If one process lacks the memory for a new buffer with contents, the call fails everywhere.
    refuses_platform = is_one;
    std::vector<char> contents(size, 'y');
    const cl_mem none = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, size, contents.data(), &code);
    refuses_platform = false;
    expect(none == nullptr && code == CL_MEM_OBJECT_ALLOCATION_FAILURE,
           "memory that one process lacks", code);
    const cl_mem some = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, size, contents.data(), &code);
    expect(some != nullptr && code == CL_SUCCESS, "memory for all", code);
    clReleaseMemObject(some);
    // With four devices, one of them forwards another's bytes. Its command waits for a failed
    // command, PoCL 3.1 aborts, and the platform ends the job with a message.
    if (devices.size() <= 3) run_collectives(context, devices, is_one);

    expect(clFinish(first) == CL_SUCCESS && clFinish(last) == CL_SUCCESS, "clFinish");
    for (const cl_mem buffer : {refused, other}) clReleaseMemObject(buffer);
    for (const cl_command_queue queue : {first, last}) clReleaseCommandQueue(queue);
    clReleaseContext(context);
    std::printf("well\n");
}
