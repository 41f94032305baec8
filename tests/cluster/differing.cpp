// A plain OpenCL program with calls that differ: rank 0 makes the call that the first argument
// selects, all other ranks make the call that the second argument selects.
#include <CL/cl.h>
#include <CL/cl_ext_attach.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "plain_opencl.hpp"

namespace {

using cldist_test::check;

constexpr std::size_t size = 4096;

struct objects {
    objects() {
        cl_int code = CL_SUCCESS;
        context = clCreateContext(nullptr, static_cast<cl_uint>(devices.size()), devices.data(),
                                  nullptr, nullptr, &code);
        check(code, "clCreateContext");
        first = clCreateCommandQueue(context, devices.front(), CL_QUEUE_PROFILING_ENABLE, &code);
        check(code, "clCreateCommandQueue");
        last = clCreateCommandQueue(context, devices.back(), CL_QUEUE_PROFILING_ENABLE, &code);
        check(code, "clCreateCommandQueue");
        for (cl_mem &buffer : buffers) {
            buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, size, nullptr, &code);
            check(code, "clCreateBuffer");
        }
        program = make_program("kernel void k(global int *a) { a[get_global_id(0)] = 1; }");
        check(clBuildProgram(program, 0, nullptr, "", nullptr, nullptr), "clBuildProgram");
        unbuilt = make_program("kernel void k(global int *a) { a[get_global_id(0)] = 1; }");
        kernel = clCreateKernel(program, "k", &code);
        check(code, "clCreateKernel");
        check(clSetKernelArg(kernel, 0, sizeof(cl_mem), buffers.data()), "clSetKernelArg");
        for (std::size_t i = 0; i < events.size(); ++i)
            check(clEnqueueWriteBuffer(i == 0 ? first : last, buffers.at(i), CL_TRUE, 0, size,
                                       host.data(), 0, nullptr, &events.at(i)),
                  "clEnqueueWriteBuffer");
    }

    cl_program make_program(const char *source) const {
        cl_int code = CL_SUCCESS;
        cl_program made = clCreateProgramWithSource(context, 1, &source, nullptr, &code);
        check(code, "clCreateProgramWithSource");
        return made;
    }

    std::vector<cl_device_id> devices = cldist_test::all_devices();
    cl_context context = nullptr;
    cl_command_queue first = nullptr;
    cl_command_queue last = nullptr;
    std::array<cl_mem, 2> buffers{};
    std::array<cl_event, 2> events{};
    cl_program program = nullptr;
    cl_program unbuilt = nullptr;
    cl_kernel kernel = nullptr;
    std::vector<char> host = std::vector<char>(2 * size, 'x');
};

constexpr std::array<std::size_t, 3> zeros{};
constexpr std::size_t items = 256;

// Ignores results, because some calls depend on calls that the other ranks never make.
void fill(objects &cl, const cl_event *wait_list, std::size_t offset = 0) {
    clEnqueueFillBuffer(cl.last, cl.buffers[0], "1234", 4, offset, size / 2,
                        wait_list != nullptr ? 1 : 0, wait_list, nullptr);
}
// Rank 0 leaves out this command, because the buffer is attached to a device of another process.
void fill_attached(objects &cl, std::size_t offset) {
    check(clAttachBufferToDevice(cl.buffers[0], cl.devices.back()), "clAttachBufferToDevice");
    fill(cl, nullptr, offset);
    clFinish(cl.first);
}
void read_rect(objects &cl, std::size_t buffer_pitch, std::size_t host_pitch) {
    const std::array<std::size_t, 3> region{64, 8, 1};
    clEnqueueReadBufferRect(cl.last, cl.buffers[0], CL_TRUE, zeros.data(), zeros.data(),
                            region.data(), buffer_pitch, 0, host_pitch, 0, cl.host.data(), 0,
                            nullptr, nullptr);
}
void launch(objects &cl, std::size_t offset, std::size_t local) {
    clEnqueueNDRangeKernel(cl.last, cl.kernel, 1, &offset, &items, local != 0 ? &local : nullptr, 0,
                           nullptr, nullptr);
}
void sub_buffer(objects &cl, std::size_t origin, std::size_t bytes) {
    const cl_buffer_region region{origin, bytes};
    clCreateSubBuffer(cl.buffers[0], 0, CL_BUFFER_CREATE_TYPE_REGION, &region, nullptr);
}
void build(objects &cl, cl_uint count, const cl_device_id *devices, const char *options = "") {
    clBuildProgram(cl.unbuilt, count, devices, options, nullptr, nullptr);
}
void map_and_unmap(objects &cl, std::size_t which) {
    std::array<void *, 2> mapped{};
    for (std::size_t i = 0; i < 2; ++i)
        mapped.at(i) = clEnqueueMapBuffer(cl.last, cl.buffers[0], CL_TRUE, CL_MAP_READ,
                                          i * size / 2, size / 2, 0, nullptr, nullptr, nullptr);
    clEnqueueUnmapMemObject(cl.last, cl.buffers[0], mapped.at(which), 0, nullptr, nullptr);
}
// The bytes must first move to the first device.
void read_moved(objects &cl, std::size_t bytes) {
    constexpr std::size_t most = std::size_t{16} << 20U;
    cl_mem buffer = clCreateBuffer(cl.context, CL_MEM_READ_WRITE, most, nullptr, nullptr);
    clEnqueueFillBuffer(cl.last, buffer, "1234", 4, 0, most, 0, nullptr, nullptr);
    clFinish(cl.last);
    std::vector<char> host(most);
    clEnqueueReadBuffer(cl.first, buffer, CL_TRUE, 0, bytes, host.data(), 0, nullptr, nullptr);
}
void event_info(objects &cl, std::size_t which, cl_event_info param) {
    std::array<char, 64> value{};
    clGetEventInfo(cl.events.at(which), param, sizeof(cl_int), value.data(), nullptr);
}

const std::map<std::string, std::function<void(objects &)>> ways = {
    // Calls with and without results that processes exchange.
    {"kernel", [](objects &cl) { clCreateKernel(cl.program, "k", nullptr); }},
    {"kernels", [](objects &cl) { clCreateKernelsInProgram(cl.program, 0, nullptr, nullptr); }},
    {"build", [](objects &cl) { build(cl, 0, nullptr); }},
    {"log",
     [](objects &cl) {
         clGetProgramBuildInfo(cl.program, cl.devices.back(), CL_PROGRAM_BUILD_LOG, cl.host.size(),
                               cl.host.data(), nullptr);
     }},
    {"names",
     [](objects &cl) {
         clGetProgramInfo(cl.program, CL_PROGRAM_KERNEL_NAMES, cl.host.size(), cl.host.data(),
                          nullptr);
     }},
    {"binary-sizes",
     [](objects &cl) {
         clGetProgramInfo(cl.program, CL_PROGRAM_BINARY_SIZES, cl.host.size(), cl.host.data(),
                          nullptr);
     }},
    {"buffer",
     [](objects &cl) { clCreateBuffer(cl.context, CL_MEM_READ_WRITE, 64, nullptr, nullptr); }},
    {"queue",
     [](objects &cl) { clCreateCommandQueue(cl.context, cl.devices.front(), 0, nullptr); }},
    {"read",
     [](objects &cl) {
         clEnqueueReadBuffer(cl.last, cl.buffers[0], CL_TRUE, 0, size, cl.host.data(), 0, nullptr,
                             nullptr);
     }},
    {"status", [](objects &cl) { event_info(cl, 1, CL_EVENT_COMMAND_EXECUTION_STATUS); }},
    {"times",
     [](objects &cl) {
         cl_ulong time = 0;
         clGetEventProfilingInfo(cl.events[1], CL_PROFILING_COMMAND_END, sizeof time, &time,
                                 nullptr);
     }},
    {"wait", [](objects &cl) { clWaitForEvents(1, &cl.events[1]); }},
    {"finish", [](objects &cl) { clFinish(cl.last); }},
    {"formats",
     [](objects &cl) {
         clGetSupportedImageFormats(cl.context, CL_MEM_READ_ONLY, CL_MEM_OBJECT_IMAGE2D, 0, nullptr,
                                    nullptr);
     }},
    {"sub-devices",
     [](objects &cl) {
         constexpr std::array<cl_device_partition_property, 3> one_each{CL_DEVICE_PARTITION_EQUALLY,
                                                                        1, 0};
         clCreateSubDevices(cl.devices.back(), one_each.data(), 0, nullptr, nullptr);
     }},

    // The same function with different arguments.
    {"sub-buffer", [](objects &cl) { sub_buffer(cl, 0, size / 2); }},
    {"sub-buffer-2", [](objects &cl) { sub_buffer(cl, size / 2, size / 2); }},
    {"sub-buffer-3", [](objects &cl) { sub_buffer(cl, 0, size); }},
    {"fill", [](objects &cl) { fill(cl, nullptr); }},
    {"fill-behind", [](objects &cl) { fill(cl, cl.events.data()); }},
    {"fill-behind-2", [](objects &cl) { fill(cl, &cl.events[1]); }},
    {"fill-elsewhere", [](objects &cl) { fill(cl, nullptr, 4); }},
    {"fill-attached", [](objects &cl) { fill_attached(cl, 0); }},
    {"fill-attached-elsewhere", [](objects &cl) { fill_attached(cl, 4); }},
    {"source", [](objects &cl) { cl.make_program("kernel void k(global int *a) { a[0] = 1; }"); }},
    {"source-2",
     [](objects &cl) { cl.make_program("kernel void k(global int *a) { a[0] = 2; }"); }},
    {"migration",
     [](objects &cl) {
         clEnqueueMigrateMemObjects(cl.last, 1, &cl.buffers[0], 0, 0, nullptr, nullptr);
     }},
    {"migration-2",
     [](objects &cl) {
         clEnqueueMigrateMemObjects(cl.last, 1, &cl.buffers[1], 0, 0, nullptr, nullptr);
     }},
    {"read-little", [](objects &cl) { read_moved(cl, 64); }},
    {"read-much", [](objects &cl) { read_moved(cl, std::size_t{16} << 20U); }},
    {"rect", [](objects &cl) { read_rect(cl, 64, 64); }},
    {"rect-2", [](objects &cl) { read_rect(cl, 128, 64); }},
    {"rect-3", [](objects &cl) { read_rect(cl, 64, 128); }},
    {"launch", [](objects &cl) { launch(cl, 0, 0); }},
    {"launch-2", [](objects &cl) { launch(cl, items, 0); }},
    {"launch-3", [](objects &cl) { launch(cl, 0, 4); }},
    {"build-options", [](objects &cl) { build(cl, 0, nullptr, "-DA"); }},
    {"build-first", [](objects &cl) { build(cl, 1, cl.devices.data()); }},
    {"build-last", [](objects &cl) { build(cl, 1, &cl.devices.back()); }},
    {"wait-first", [](objects &cl) { clWaitForEvents(1, cl.events.data()); }},
    {"wait-both", [](objects &cl) { clWaitForEvents(2, cl.events.data()); }},
    {"unmap", [](objects &cl) { map_and_unmap(cl, 0); }},
    {"unmap-2", [](objects &cl) { map_and_unmap(cl, 1); }},
    {"event-wanted",
     [](objects &cl) {
         cl_event event = nullptr;
         clEnqueueMarkerWithWaitList(cl.last, 0, nullptr, &event);
     }},
    {"thread", [](objects &cl) { std::thread([&] { fill(cl, nullptr); }).join(); }},
    {"thread-elsewhere", [](objects &cl) { std::thread([&] { fill(cl, nullptr, 4); }).join(); }},
    {"no-event", [](objects &cl) { clEnqueueMarkerWithWaitList(cl.last, 0, nullptr, nullptr); }},
};

bool is_first() {
    const char *const rank = std::getenv("OMPI_COMM_WORLD_RANK");
    return rank != nullptr && std::string(rank) == "0";
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 3 || !ways.contains(argv[1]) || !ways.contains(argv[2])) {
        std::fprintf(stderr, "UNEXPECTED: usage: %s WAY OTHER\n", argv[0]);
        return 9;
    }
    objects cl;
    ways.at(argv[is_first() ? 1 : 2])(cl);
    // All ranks continue with the same calls.
    clFinish(cl.first);
    clFinish(cl.last);
    return 0;
}
