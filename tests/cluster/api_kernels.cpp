#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <future>
#include <random>
#include <string>
#include <thread>

#include <unistd.h>

#include "fixture.hpp"

using namespace cluster_test;

namespace {

const char *const source = R"(
typedef struct { int a; float b; char c[5]; } pack;
kernel void scalars(global float *out, char c, ushort s, int i, ulong l, float f, float4 v, pack p) {
    out[0] = c; out[1] = s; out[2] = i; out[3] = l; out[4] = f;
    out[5] = v.x; out[6] = v.w; out[7] = p.a; out[8] = p.b; out[9] = p.c[4];
}
kernel void pointers(global int *out, constant int *table, local int *scratch, const global int *in) {
    const int i = get_local_id(0);
    scratch[i] = in[get_global_id(0)] * table[i % 4];
    barrier(CLK_LOCAL_MEM_FENCE);
    out[get_global_id(0)] = scratch[get_local_size(0) - 1 - i];
}
kernel void maybe(global int *out, global int *other) { out[0] = other == 0 ? 42 : other[0]; }
kernel __attribute__((reqd_work_group_size(4, 2, 1))) void required(global int *out) {
    out[get_global_id(1) * get_global_size(0) + get_global_id(0)] = get_local_id(1) * 4 + get_local_id(0);
}
kernel void where(global int *out) {
    const int x = get_global_id(0) - get_global_offset(0);
    const int y = get_global_id(1) - get_global_offset(1);
    const int z = get_global_id(2) - get_global_offset(2);
    out[(z * get_global_size(1) + y) * get_global_size(0) + x] =
        get_global_id(0) + 100 * get_global_id(1) + 10000 * get_global_id(2);
}
kernel void uses_local(global int *out, local int *scratch) {
    local int fixed[16];
    fixed[get_local_id(0) % 16] = get_local_id(0);
    scratch[get_local_id(0)] = 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    out[get_global_id(0)] = fixed[0] + scratch[0];
}
kernel void set(global int *out, int value) { out[get_global_id(0)] = value; }
kernel void copy(global int *to, const global int *from) { to[get_global_id(0)] = from[get_global_id(0)]; }
)";

struct kernels : setup {
    kernels() : all(program(source, "-cl-kernel-arg-info")) {}

    kernel_handle operator[](const char *name) const { return kernel(all, name); }
    program_handle all;
};

template <typename T>
cl_int set(cl_kernel kernel, cl_uint index, const T &value) {
    return clSetKernelArg(kernel, index, sizeof value, &value);
}
cl_int set(cl_kernel kernel, cl_uint index, const buffer_handle &buffer) {
    const cl_mem memory = buffer;
    return clSetKernelArg(kernel, index, sizeof memory, &memory);
}

cl_int run(cl_command_queue queue, cl_kernel kernel, const std::vector<std::size_t> &global,
           const std::vector<std::size_t> &local = {},
           const std::vector<std::size_t> &offset = {}) {
    return clEnqueueNDRangeKernel(queue, kernel, static_cast<cl_uint>(global.size()),
                                  offset.empty() ? nullptr : offset.data(), global.data(),
                                  local.empty() ? nullptr : local.data(), 0, nullptr, nullptr);
}

template <typename T>
std::vector<T> values(cl_command_queue queue, cl_mem buffer, std::size_t count) {
    std::vector<T> list(count);
    CL_OK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, count * sizeof(T), list.data(), 0, nullptr,
                              nullptr));
    return list;
}

}  // namespace

TEST_CASE("values of all sizes reach the kernel on each device") {
    const kernels cl;
    const kernel_handle kernel = cl["scalars"];
    struct {
        cl_int a;
        cl_float b;
        cl_char c[5];
    } pack = {-7, 2.5F, {1, 2, 3, 4, 99}};
    // The kernel does not read this value, so it may differ between processes.
    const auto unused = static_cast<cl_float>(getpid());
    for (std::size_t i = 0; i < cl.count(); ++i) {
        const buffer_handle out = cl.buffer(10 * sizeof(float));
        CL_OK(set(kernel, 0, out));
        CL_OK(set(kernel, 1, cl_char{-3}));
        CL_OK(set(kernel, 2, cl_ushort{40000}));
        CL_OK(set(kernel, 3, static_cast<cl_int>(i)));
        CL_OK(set(kernel, 4, cl_ulong{1} << 40U));
        CL_OK(set(kernel, 5, cl_float{0.5F}));
        CL_OK(set(kernel, 6, cl_float4{{1, unused, unused, 4}}));
        CL_OK(set(kernel, 7, pack));
        CL_OK(run(cl.queues[i], kernel, {1}));
        const std::vector<float> wanted = {
            -3, 40000, static_cast<float>(i), 1099511627776.0F, 0.5F, 1, 4, -7, 2.5F, 99};
        CHECK(values<float>(cl.queues[(i + 1) % cl.count()], out, 10) == wanted);
    }
}

TEST_CASE("global, constant and local pointers reach the kernel on each device") {
    const kernels cl;
    const kernel_handle kernel = cl["pointers"];
    const std::array<int, 4> table = {1, 10, 100, 1000};
    for (std::size_t i = 0; i < cl.count(); ++i) {
        for (const std::size_t group : {std::size_t{4}, std::size_t{8}}) {
            std::vector<int> in(64);
            std::vector<int> wanted(64);
            for (std::size_t at = 0; at < 64; ++at) in[at] = static_cast<int>(at + i);
            for (std::size_t at = 0; at < 64; ++at) {
                const std::size_t mirrored = at / group * group + group - 1 - at % group;
                wanted[at] = in[mirrored] * table[mirrored % group % 4];
            }
            const buffer_handle out = cl.buffer(64 * sizeof(int), CL_MEM_WRITE_ONLY);
            const buffer_handle from =
                cl.buffer(64 * sizeof(int), CL_MEM_COPY_HOST_PTR | CL_MEM_READ_ONLY, in.data());
            const buffer_handle constants = cl.buffer(sizeof table, CL_MEM_READ_ONLY);
            CL_OK(clEnqueueWriteBuffer(cl.queues[0], constants, CL_TRUE, 0, sizeof table,
                                       table.data(), 0, nullptr, nullptr));
            CL_OK(set(kernel, 0, out));
            CL_OK(set(kernel, 1, constants));
            CL_OK(clSetKernelArg(kernel, 2, group * sizeof(int), nullptr));
            CL_OK(set(kernel, 3, from));
            CL_OK(run(cl.queues[i], kernel, {64}, {group}));
            CHECK(values<int>(cl.queues[i], out, 64) == wanted);
        }
    }
}

TEST_CASE(
    "kernels use overlapping sub-buffers while other bytes of the buffer arrive from another "
    "device") {
    const kernels cl;
    const kernel_handle set_all = cl["set"];
    const kernel_handle copy = cl["copy"];
    const std::size_t count = 4096;
    const std::size_t size = count * sizeof(cl_int);
    for (int round = 0; round < 50; ++round) {
        CAPTURE(round);
        const cl_command_queue queue = cl.queues[static_cast<std::size_t>(round) % cl.count()];
        const cl_command_queue others = cl.queues[static_cast<std::size_t>(round + 1) % cl.count()];
        const buffer_handle whole = cl.buffer(2 * size);
        const buffer_handle written = cl.sub_buffer(whole, 0, size);
        const buffer_handle read = cl.sub_buffer(whole, 0, size);
        const buffer_handle rest = cl.sub_buffer(whole, size, size);
        const std::array<buffer_handle, 2> copies = {cl.buffer(size), cl.buffer(size)};
        CL_OK(set(set_all, 0, rest));
        CL_OK(set(set_all, 1, cl_int{-round}));
        event_handle other_half;
        event_handle half;
        CL_OK(clEnqueueNDRangeKernel(others, set_all, 1, nullptr, &count, nullptr, 0, nullptr,
                                     other_half.out()));
        CL_OK(set(set_all, 0, written));
        CL_OK(set(set_all, 1, cl_int{round + 1}));
        CL_OK(clEnqueueNDRangeKernel(queue, set_all, 1, nullptr, &count, nullptr, 0, nullptr,
                                     half.out()));
        for (const cl_command_queue each : {queue, others}) CL_OK(clFlush(each));
        const queue_handle free = cl.out_of_order(static_cast<std::size_t>(round) % cl.count());
        const std::array<cl_event, 2> wait = {half, other_half};
        for (const std::size_t i : {0, 1}) {
            CL_OK(set(copy, 0, copies[i]));
            CL_OK(set(copy, 1, i == 0 ? read : rest));
            CL_OK(clEnqueueNDRangeKernel(free, copy, 1, nullptr, &count, nullptr, 1, &wait[i],
                                         nullptr));
        }
        CL_OK(clFinish(free));
        const std::vector<cl_int> first(count, round + 1);
        const std::vector<cl_int> second(count, -round);
        CHECK(values<cl_int>(queue, copies[0], count) == first);
        CHECK(values<cl_int>(queue, copies[1], count) == second);
        CHECK(values<cl_int>(others, written, count) == first);
    }
}

TEST_CASE("a buffer argument may be NULL, as a pointer or as a handle") {
    const kernels cl;
    const kernel_handle kernel = cl["maybe"];
    const buffer_handle out = cl.buffer(sizeof(int));
    CL_OK(set(kernel, 0, out));
    for (std::size_t i = 0; i < cl.count(); ++i) {
        const cl_mem none = nullptr;
        for (const cl_mem *const value : {&none, static_cast<const cl_mem *>(nullptr)}) {
            CL_OK(clSetKernelArg(kernel, 1, sizeof(cl_mem), value));
            CL_OK(run(cl.queues[i], kernel, {1}));
            CHECK(values<int>(cl.queues[i], out, 1) == std::vector<int>{42});
        }
        int seven = 7;
        const buffer_handle other = cl.buffer(sizeof(int), CL_MEM_COPY_HOST_PTR, &seven);
        CL_OK(set(kernel, 1, other));
        CL_OK(run(cl.queues[i], kernel, {1}));
        CHECK(values<int>(cl.queues[i], out, 1) == std::vector<int>{7});
    }
}

TEST_CASE("an argument has the last value and the last buffer that were set, changed or not") {
    const kernels cl;
    const kernel_handle kernel = cl["set"];
    buffer_handle first = cl.buffer(sizeof(int));
    const buffer_handle second = cl.buffer(sizeof(int));
    for (const queue_handle &queue : cl.queues) {
        for (const int value : {1, 1, 2, 1}) {
            for (const cl_mem buffer :
                 {cl_mem(first), cl_mem(first), cl_mem(second), cl_mem(first)}) {
                CL_OK(clSetKernelArg(kernel, 0, sizeof buffer, &buffer));
                CL_OK(set(kernel, 1, cl_int{-1}));
                CL_OK(set(kernel, 1, cl_int{value}));
                CL_OK(run(queue, kernel, {1}));
                CHECK(values<int>(queue, buffer, 1) == std::vector<int>{value});
            }
        }
        // The new buffer's handle may have the address of the old one.
        first = buffer_handle();
        first = cl.buffer(sizeof(int));
    }
}

TEST_CASE("an argument has the value that it had at the enqueue") {
    const kernels cl;
    const kernel_handle kernel = cl["set"];
    std::vector<buffer_handle> buffers;
    const event_handle gate = cl.user_event();
    const cl_event wait = gate;
    const std::size_t four = 4;
    std::vector<event_handle> done(3 * cl.count());
    for (std::size_t n = 0; n < done.size(); ++n) {
        buffers.push_back(cl.buffer(4 * sizeof(int)));
        CL_OK(set(kernel, 0, buffers.back()));
        CL_OK(set(kernel, 1, static_cast<cl_int>(n)));
        CL_OK(clEnqueueNDRangeKernel(cl.queues[n % cl.count()], kernel, 1, nullptr, &four, nullptr,
                                     1, &wait, done[n].out()));
    }
    CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
    for (std::size_t n = 0; n < done.size(); ++n) {
        complete(done[n]);
        CHECK(values<int>(cl.queues[0], buffers[n], 4) == std::vector<int>(4, static_cast<int>(n)));
    }
}

TEST_CASE("a kernel works on sub-buffers, and on ranges that other devices wrote") {
    const kernels cl;
    const kernel_handle kernel = cl["set"];
    const std::size_t part = 4096;
    const buffer_handle buffer = cl.buffer(part * (cl.count() + 1));
    std::vector<int> model(part / sizeof(int) * (cl.count() + 1), -1);
    CL_OK(clEnqueueWriteBuffer(cl.queues[0], buffer, CL_TRUE, 0, model.size() * sizeof(int),
                               model.data(), 0, nullptr, nullptr));
    for (std::size_t i = 0; i < cl.count(); ++i) {
        const buffer_handle mine = cl.sub_buffer(buffer, i * part, part);
        CL_OK(set(kernel, 0, mine));
        CL_OK(set(kernel, 1, static_cast<cl_int>(i)));
        CL_OK(run(cl.queues[i], kernel, {100}));
        std::fill_n(model.begin() + static_cast<std::ptrdiff_t>(i * part / sizeof(int)), 100,
                    static_cast<int>(i));
    }
    for (const queue_handle &queue : cl.queues) CL_OK(clFinish(queue));
    for (const queue_handle &queue : cl.queues)
        CHECK(values<int>(queue, buffer, model.size()) == model);
}

TEST_CASE("ranges of one to three dimensions with offsets reach each device") {
    const kernels cl;
    const kernel_handle kernel = cl["where"];
    for (std::size_t i = 0; i < cl.count(); ++i) {
        for (const std::vector<std::size_t> &global :
             {std::vector<std::size_t>{12}, std::vector<std::size_t>{6, 4},
              std::vector<std::size_t>{4, 2, 6}}) {
            const std::vector<std::size_t> offset = {3, 5, 7};
            const std::vector<std::size_t> local = {2, 2, 1};
            std::size_t items = 1;
            for (const std::size_t size : global) items *= size;
            const std::vector<std::size_t> own_local(
                local.begin(), local.begin() + static_cast<int>(global.size()));
            const std::vector<std::size_t> own_offset(
                offset.begin(), offset.begin() + static_cast<int>(global.size()));
            const buffer_handle out = cl.buffer(items * sizeof(int));
            CL_OK(set(kernel, 0, out));
            CL_OK(run(cl.queues[i], kernel, global, own_local, own_offset));
            std::vector<int> wanted;
            for (std::size_t z = 0; z < (global.size() > 2 ? global[2] : 1); ++z)
                for (std::size_t y = 0; y < (global.size() > 1 ? global[1] : 1); ++y)
                    for (std::size_t x = 0; x < global[0]; ++x)
                        wanted.push_back(
                            static_cast<int>(x + 3 + (global.size() > 1 ? 100 * (y + 5) : 0) +
                                             (global.size() > 2 ? 10000 * (z + 7) : 0)));
            CHECK(values<int>(cl.queues[i], out, items) == wanted);
        }
    }
}

TEST_CASE("a kernel reports its name, arguments and work-group sizes") {
    const kernels cl;
    const kernel_handle kernel = cl["pointers"];
    CHECK(info_text(clGetKernelInfo, CL_KERNEL_FUNCTION_NAME, kernel.get()) == "pointers");
    CHECK(info<cl_uint>(clGetKernelInfo, CL_KERNEL_NUM_ARGS, kernel.get()) == 4);
    CHECK(info<cl_context>(clGetKernelInfo, CL_KERNEL_CONTEXT, kernel.get()) == cl.context);
    CHECK(info<cl_program>(clGetKernelInfo, CL_KERNEL_PROGRAM, kernel.get()) == cl.all);
    CHECK(info<cl_uint>(clGetKernelInfo, CL_KERNEL_REFERENCE_COUNT, kernel.get()) == 1);
    CL_OK(clRetainKernel(kernel));
    CHECK(info<cl_uint>(clGetKernelInfo, CL_KERNEL_REFERENCE_COUNT, kernel.get()) == 2);
    CL_OK(clReleaseKernel(kernel));
    check_info_arguments(clGetKernelInfo, CL_KERNEL_FUNCTION_NAME, kernel.get());
    CHECK(info_text(clGetKernelInfo, CL_KERNEL_ATTRIBUTES, cl["required"].get())
              .find("reqd_work_group_size") != std::string::npos);

    struct {
        const char *name;
        const char *type;
        cl_kernel_arg_address_qualifier address;
        cl_kernel_arg_type_qualifier qualifier;
    } const arguments[] = {
        {"out", "int*", CL_KERNEL_ARG_ADDRESS_GLOBAL, CL_KERNEL_ARG_TYPE_NONE},
        {"table", "int*", CL_KERNEL_ARG_ADDRESS_CONSTANT, CL_KERNEL_ARG_TYPE_CONST},
        {"scratch", "int*", CL_KERNEL_ARG_ADDRESS_LOCAL, CL_KERNEL_ARG_TYPE_NONE},
        {"in", "int*", CL_KERNEL_ARG_ADDRESS_GLOBAL, CL_KERNEL_ARG_TYPE_CONST},
    };
    for (cl_uint n = 0; n < 4; ++n) {
        CAPTURE(n);
        const auto &wanted = arguments[n];
        CHECK(info_text(clGetKernelArgInfo, CL_KERNEL_ARG_NAME, kernel.get(), n) == wanted.name);
        CHECK(info_text(clGetKernelArgInfo, CL_KERNEL_ARG_TYPE_NAME, kernel.get(), n) ==
              wanted.type);
        CHECK(info<cl_kernel_arg_address_qualifier>(clGetKernelArgInfo,
                                                    CL_KERNEL_ARG_ADDRESS_QUALIFIER, kernel.get(),
                                                    n) == wanted.address);
        // PoCL 3.1 does not report constant arguments as const.
        if (wanted.address != CL_KERNEL_ARG_ADDRESS_CONSTANT)
            CHECK(info<cl_kernel_arg_type_qualifier>(clGetKernelArgInfo,
                                                     CL_KERNEL_ARG_TYPE_QUALIFIER, kernel.get(),
                                                     n) == wanted.qualifier);
        CHECK(info<cl_kernel_arg_access_qualifier>(clGetKernelArgInfo,
                                                   CL_KERNEL_ARG_ACCESS_QUALIFIER, kernel.get(),
                                                   n) == CL_KERNEL_ARG_ACCESS_NONE);
    }
    const program_handle silent = cl.program("kernel void one(global int *out) { out[0] = 1; }");
    CL_FAILS(
        CL_KERNEL_ARG_INFO_NOT_AVAILABLE,
        clGetKernelArgInfo(cl.kernel(silent, "one"), 0, CL_KERNEL_ARG_NAME, 0, nullptr, nullptr));
    CL_FAILS(CL_INVALID_ARG_INDEX,
             clGetKernelArgInfo(kernel, 4, CL_KERNEL_ARG_NAME, 0, nullptr, nullptr));
    CL_FAILS(CL_INVALID_VALUE, clGetKernelArgInfo(kernel, 0, 0x7777, 0, nullptr, nullptr));
    CL_FAILS(CL_INVALID_KERNEL,
             clGetKernelArgInfo(nullptr, 0, CL_KERNEL_ARG_NAME, 0, nullptr, nullptr));

    using triple = std::array<std::size_t, 3>;
    const kernel_handle required = cl["required"];
    const kernel_handle with_local = cl["uses_local"];
    CL_OK(clSetKernelArg(with_local, 1, 1024, nullptr));
    for (const cl_device_id device : devices()) {
        CHECK(info<std::size_t>(clGetKernelWorkGroupInfo, CL_KERNEL_WORK_GROUP_SIZE, kernel.get(),
                                device) >= 1);
        CHECK(info<std::size_t>(clGetKernelWorkGroupInfo,
                                CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, kernel.get(),
                                device) >= 1);
        CHECK(info<triple>(clGetKernelWorkGroupInfo, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                           kernel.get(), device) == triple{0, 0, 0});
        CHECK(info<triple>(clGetKernelWorkGroupInfo, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                           required.get(), device) == triple{4, 2, 1});
        info<cl_ulong>(clGetKernelWorkGroupInfo, CL_KERNEL_PRIVATE_MEM_SIZE, kernel.get(), device);
        const auto local = info<cl_ulong>(clGetKernelWorkGroupInfo, CL_KERNEL_LOCAL_MEM_SIZE,
                                          with_local.get(), device);
        // PoCL 5 does not count the memory of local arguments.
        if (is_cluster() || local != 0) CHECK(local >= 1024);
        CL_FAILS(CL_INVALID_VALUE,
                 clGetKernelWorkGroupInfo(kernel, device, 0x7777, 0, nullptr, nullptr));
        CL_FAILS(CL_INVALID_VALUE,
                 clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_GLOBAL_WORK_SIZE,
                                          sizeof(triple), nullptr, nullptr));
    }
    CL_FAILS(CL_INVALID_KERNEL,
             clGetKernelWorkGroupInfo(nullptr, devices()[0], CL_KERNEL_WORK_GROUP_SIZE, 0, nullptr,
                                      nullptr));
    if (devices().size() > 1)
        CL_FAILS(CL_INVALID_DEVICE,
                 clGetKernelWorkGroupInfo(kernel, nullptr, CL_KERNEL_WORK_GROUP_SIZE, 0, nullptr,
                                          nullptr));
}

TEST_CASE("a kernel with a required work-group size runs only with that size") {
    const kernels cl;
    const kernel_handle kernel = cl["required"];
    const buffer_handle out = cl.buffer(32 * sizeof(int));
    CL_OK(set(kernel, 0, out));
    for (const queue_handle &queue : cl.queues) {
        CL_OK(run(queue, kernel, {8, 4}, {4, 2}));
        std::vector<int> wanted;
        for (int y = 0; y < 4; ++y)
            for (int x = 0; x < 8; ++x) wanted.push_back(y % 2 * 4 + x % 4);
        CHECK(values<int>(queue, out, 32) == wanted);
        CL_FAILS(CL_INVALID_WORK_GROUP_SIZE, run(queue, kernel, {8, 4}, {2, 2}));
        CL_FAILS(CL_INVALID_WORK_GROUP_SIZE, run(queue, kernel, {8, 4}, {8, 4}));
        CL_FAILS(CL_INVALID_WORK_GROUP_SIZE, run(queue, kernel, {8}, {4}));
    }
}

TEST_CASE("a range without sizes, or with a size of 0, only waits for its wait list") {
    const kernels cl;
    const kernel_handle kernel = cl["set"];
    for (const queue_handle &queue : cl.queues) {
        const buffer_handle out = cl.buffer(sizeof(int));
        CL_OK(set(kernel, 0, out));
        CL_OK(set(kernel, 1, cl_int{3}));
        CL_OK(run(queue, kernel, {1}));
        CL_OK(set(kernel, 1, cl_int{4}));
        CL_OK(clEnqueueNDRangeKernel(queue, kernel, 2, nullptr, nullptr, nullptr, 0, nullptr,
                                     nullptr));
        event_handle event;
        const std::array<std::size_t, 2> none{1, 0};
        CL_OK(clEnqueueNDRangeKernel(queue, kernel, 2, nullptr, none.data(), nullptr, 0, nullptr,
                                     event.out()));
        complete(event);
        CHECK(values<int>(queue, out, 1) == std::vector<int>{3});
    }
}

TEST_CASE(
    "after an argument was released a kernel refuses to run, and runs again with a new argument") {
    const kernels cl;
    const kernel_handle kernel = cl["set"];
    CL_OK(set(kernel, 1, cl_int{5}));
    std::promise<void> gone;
    {
        const buffer_handle out = cl.buffer(sizeof(int));
        CL_OK(clSetMemObjectDestructorCallback(
            out,
            [](cl_mem, void *promise) { static_cast<std::promise<void> *>(promise)->set_value(); },
            &gone));
        CL_OK(set(kernel, 0, out));
        for (const queue_handle &queue : cl.queues) CL_OK(run(queue, kernel, {1}));
    }
    gone.get_future().wait();
    // Native platforms may still run the kernel.
    if (is_cluster()) CL_FAILS(CL_INVALID_KERNEL_ARGS, run(cl.queues.back(), kernel, {1}));
    const buffer_handle out = cl.buffer(sizeof(int));
    CL_OK(set(kernel, 0, out));
    CL_OK(run(cl.queues.back(), kernel, {1}));
    CHECK(values<int>(cl.queues.back(), out, 1) == std::vector<int>{5});
}

TEST_CASE("a kernel may require the largest work-group of its device") {
    const setup cl;
    for (std::size_t i = 0; i < cl.count(); ++i) {
        const auto items = std::min(
            info<std::size_t>(clGetDeviceInfo, CL_DEVICE_MAX_WORK_GROUP_SIZE, devices()[i]),
            info_list<std::size_t>(clGetDeviceInfo, CL_DEVICE_MAX_WORK_ITEM_SIZES, devices()[i])
                .front());
        const program_handle program = cl.program(
            "kernel __attribute__((reqd_work_group_size(" + std::to_string(items) +
            ", 1, 1))) void number(global int *out) { out[get_global_id(0)] = get_local_id(0); }");
        const kernel_handle kernel = cl.kernel(program, "number");
        const buffer_handle out = cl.buffer(2 * items * sizeof(int));
        CL_OK(set(kernel, 0, out));
        CL_OK(run(cl.queues[i], kernel, {2 * items}, {items}));
        std::vector<int> wanted;
        for (std::size_t n = 0; n < 2 * items; ++n) wanted.push_back(static_cast<int>(n % items));
        CHECK(values<int>(cl.queues[i], out, 2 * items) == wanted);
        CL_FAILS(CL_INVALID_WORK_GROUP_SIZE, run(cl.queues[i], kernel, {2 * items}, {items / 2}));
    }
}

TEST_CASE("all kernels of a program are created at once") {
    const kernels cl;
    cl_uint count = 0;
    CL_OK(clCreateKernelsInProgram(cl.all, 0, nullptr, &count));
    CHECK(count == 8);
    std::vector<cl_kernel> list(count);
    CL_FAILS(CL_INVALID_VALUE, clCreateKernelsInProgram(cl.all, count - 1, list.data(), nullptr));
    CL_OK(clCreateKernelsInProgram(cl.all, count, list.data(), nullptr));
    const buffer_handle out = cl.buffer(sizeof(int));
    for (const cl_kernel handle : list) {
        const kernel_handle kernel(handle);
        if (info_text(clGetKernelInfo, CL_KERNEL_FUNCTION_NAME, kernel.get()) != "set") continue;
        CL_OK(set(kernel, 0, out));
        CL_OK(set(kernel, 1, cl_int{77}));
        CL_OK(run(cl.queues.back(), kernel, {1}));
        CHECK(values<int>(cl.queues.front(), out, 1) == std::vector<int>{77});
    }
    CL_FAILS(CL_INVALID_PROGRAM, clCreateKernelsInProgram(nullptr, 0, nullptr, &count));
}

TEST_CASE("threads may create the same kernel at the same time") {
    const setup cl;
    constexpr int kernels_of_program = 100;
    std::string source;
    for (int i = 0; i < kernels_of_program; ++i)
        source += "kernel void k" + std::to_string(i) + "(global int *out) { out[0] = 1; }\n";
    const program_handle program = cl.program(source);
    std::barrier together(2);
    std::atomic<int> failures = 0;
    // In each process, the threads call at other moments.
    const auto create = [&](unsigned seed) {
        std::mt19937 random(seed);
        for (int i = 0; i < kernels_of_program; ++i) {
            cl_int code = CL_SUCCESS;
            together.arrive_and_wait();
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
            const kernel_handle kernel(
                clCreateKernel(program, ("k" + std::to_string(i)).c_str(), &code));
            if (code != CL_SUCCESS) ++failures;
            together.arrive_and_wait();
        }
    };
    const auto process = static_cast<unsigned>(getpid());
    std::thread other(create, process);
    create(process + 1);
    other.join();
    CHECK(failures == 0);
}

TEST_CASE("a clone copies its kernel's arguments, and changes only its own") {
    const kernels cl;
    const kernel_handle kernel = cl["set"];
    const buffer_handle out = cl.buffer(sizeof(int));
    CL_OK(set(kernel, 0, out));
    CL_OK(set(kernel, 1, cl_int{5}));
    cl_int error = CL_INVALID_VALUE;
    const kernel_handle clone(clCloneKernel(kernel, &error));
    CL_OK(error);
    CL_OK(set(kernel, 1, cl_int{6}));
    for (const queue_handle &queue : cl.queues) {
        CL_OK(run(queue, clone, {1}));
        CHECK(values<int>(queue, out, 1) == std::vector<int>{5});
        CL_OK(run(queue, kernel, {1}));
        CHECK(values<int>(queue, out, 1) == std::vector<int>{6});
    }
    CL_FAILS_TO_MAKE(CL_INVALID_KERNEL, clCloneKernel(nullptr, &error));
}

TEST_CASE("a task is one work-item") {
    const kernels cl;
    const kernel_handle kernel = cl["set"];
    std::vector<int> zeros(4);
    for (const queue_handle &queue : cl.queues) {
        const buffer_handle out = cl.buffer(4 * sizeof(int), CL_MEM_COPY_HOST_PTR, zeros.data());
        CL_OK(set(kernel, 0, out));
        CL_OK(set(kernel, 1, cl_int{9}));
        event_handle event;
        CL_OK(clEnqueueTask(queue, kernel, 0, nullptr, event.out()));
        complete(event);
        CHECK(values<int>(queue, out, 4) == std::vector<int>{9, 0, 0, 0});
    }
}

TEST_CASE("functions of kernels refuse invalid arguments") {
    const kernels cl;
    const kernel_handle kernel = cl["set"];
    const kernel_handle local = cl["uses_local"];
    const buffer_handle out = cl.buffer(400);
    const cl_command_queue queue = cl.queues.back();
    CL_FAILS_TO_MAKE(CL_INVALID_PROGRAM, clCreateKernel(nullptr, "set", &error));
    CL_FAILS_TO_MAKE(CL_INVALID_KERNEL_NAME, clCreateKernel(cl.all, "no_such_kernel", &error));
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE, clCreateKernel(cl.all, nullptr, &error));
    CL_FAILS(CL_INVALID_KERNEL, clRetainKernel(nullptr));
    CL_FAILS(CL_INVALID_KERNEL, clReleaseKernel(nullptr));
    CL_FAILS(CL_INVALID_KERNEL, clGetKernelInfo(nullptr, CL_KERNEL_NUM_ARGS, 0, nullptr, nullptr));

    const cl_int value = 1;
    const cl_mem memory = out;
    CL_FAILS(CL_INVALID_KERNEL, clSetKernelArg(nullptr, 0, 4, &value));
    CL_FAILS(CL_INVALID_ARG_INDEX, clSetKernelArg(kernel, 2, 4, &value));
    // PoCL 3.1 accepts this size.
    if (is_cluster()) CL_FAILS(CL_INVALID_ARG_SIZE, clSetKernelArg(kernel, 1, 3, &value));
    CL_FAILS(CL_INVALID_ARG_SIZE, clSetKernelArg(kernel, 0, 4, &memory));
    CL_FAILS(CL_INVALID_ARG_VALUE, clSetKernelArg(kernel, 1, 4, nullptr));
    CL_FAILS(CL_INVALID_ARG_VALUE, clSetKernelArg(local, 1, 4, &value));
    CL_FAILS(CL_INVALID_ARG_SIZE, clSetKernelArg(local, 1, 0, nullptr));

    CL_FAILS(CL_INVALID_KERNEL_ARGS, run(queue, kernel, {1}));
    CL_OK(set(kernel, 0, out));
    CL_OK(set(kernel, 1, value));
    CL_FAILS(CL_INVALID_COMMAND_QUEUE, run(nullptr, kernel, {1}));
    CL_FAILS(CL_INVALID_WORK_DIMENSION, run(queue, kernel, {1, 1, 1, 1}));
    const std::size_t one = 1;
    CL_FAILS(CL_INVALID_WORK_DIMENSION,
             clEnqueueNDRangeKernel(queue, kernel, ~0U, nullptr, &one, &one, 0, nullptr, nullptr));
    CL_FAILS(CL_INVALID_WORK_DIMENSION,
             clEnqueueNDRangeKernel(queue, kernel, 0, nullptr, &one, nullptr, 0, nullptr, nullptr));
    if (!is_cluster()) return;  // PoCL 3.1 crashes in some of these calls
    CL_FAILS(CL_INVALID_WORK_ITEM_SIZE,
             run(queue, kernel, {std::size_t{1} << 24U}, {std::size_t{1} << 24U}));
    CL_FAILS(CL_INVALID_EVENT_WAIT_LIST,
             clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &one, nullptr, 1, nullptr, nullptr));
    const setup other(setup::of::its_own);
    CL_FAILS(CL_INVALID_CONTEXT, run(other.queues.back(), kernel, {1}));
    const event_handle event = other.user_event();
    const cl_event wait = event;
    CL_FAILS(CL_INVALID_CONTEXT,
             clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &one, nullptr, 1, &wait, nullptr));
    CL_OK(clSetUserEventStatus(event, CL_COMPLETE));
    CL_FAILS(CL_INVALID_WORK_GROUP_SIZE, run(queue, kernel, {1}, {0}));
    CL_FAILS(CL_INVALID_KERNEL, run(queue, nullptr, {1}));
    const std::size_t most = ~std::size_t{0};
    CL_FAILS(CL_INVALID_GLOBAL_OFFSET,
             clEnqueueNDRangeKernel(queue, kernel, 1, &most, &one, nullptr, 0, nullptr, nullptr));
}
