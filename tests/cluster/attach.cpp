/// Buffers attached to devices, on the cluster platform and on the native platform, where attaching
/// has no effect.

#include <CL/cl_ext_attach.h>

#include <cstring>
#include <future>

#include "fixture.hpp"

using namespace cluster_test;

namespace {

constexpr std::size_t size = 1000;

buffer_handle attached(const setup &cl, std::size_t device, const bytes &data) {
    buffer_handle buffer = cl.buffer(data.size());
    write(cl.queues[device], buffer, 0, data);
    CL_OK(clAttachBufferToDevice(buffer, devices()[device]));
    return buffer;
}

void add(cl_command_queue queue, cl_kernel kernel, std::size_t items) {
    const std::size_t local = 1;
    CL_OK(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &items, &local, 0, nullptr, nullptr));
}

template <typename... Arguments>
void set_args(cl_kernel kernel, const Arguments &...arguments) {
    cl_uint index = 0;
    for (const cl_int code : {clSetKernelArg(kernel, index++, sizeof arguments, &arguments)...})
        CL_OK(code);
}

bytes plus(bytes data, unsigned value) {
    for (auto &byte : data)
        byte = static_cast<std::remove_reference_t<decltype(byte)>>(unsigned(byte) + value);
    return data;
}

}  // namespace

TEST_CASE("an invalid attachment is refused") {
    const setup cl;
    const cl_device_id device = devices().back();
    const buffer_handle buffer = cl.buffer(2 * 4096);
    const buffer_handle part = cl.sub_buffer(buffer, 4096, 4096);
    CL_FAILS(CL_INVALID_MEM_OBJECT, clAttachBufferToDevice(nullptr, device));
    CL_FAILS(CL_INVALID_MEM_OBJECT, clAttachBufferToDevice(part, device));
    CL_FAILS(CL_INVALID_MEM_OBJECT, clDetachBuffer(nullptr));
    CL_FAILS(CL_INVALID_MEM_OBJECT, clDetachBuffer(part));
    CL_FAILS(CL_INVALID_DEVICE, clAttachBufferToDevice(buffer, nullptr));
    CL_OK(clDetachBuffer(buffer));
    if (devices().size() > 1) {
        cl_int code = CL_SUCCESS;
        const context_handle other(
            clCreateContext(nullptr, 1, devices().data(), nullptr, nullptr, &code));
        CL_OK(code);
        const buffer_handle elsewhere(clCreateBuffer(other, CL_MEM_READ_WRITE, 64, nullptr, &code));
        CL_OK(code);
        CL_FAILS(CL_INVALID_DEVICE, clAttachBufferToDevice(elsewhere, device));
        CL_OK(clAttachBufferToDevice(elsewhere, devices().front()));
    }
    cl_bool images = CL_FALSE;
    CL_OK(clGetDeviceInfo(device, CL_DEVICE_IMAGE_SUPPORT, sizeof images, &images, nullptr));
    if (images == CL_TRUE) {
        const cl_image_format format{CL_RGBA, CL_UNORM_INT8};
        cl_image_desc desc{};
        desc.image_type = CL_MEM_OBJECT_IMAGE2D;
        desc.image_width = desc.image_height = 8;
        cl_int code = CL_SUCCESS;
        const buffer_handle image(
            clCreateImage(cl.context, CL_MEM_READ_WRITE, &format, &desc, nullptr, &code));
        CL_OK(code);
        CL_FAILS(CL_INVALID_MEM_OBJECT, clAttachBufferToDevice(image, device));
        CL_FAILS(CL_INVALID_MEM_OBJECT, clDetachBuffer(image));
    }
}

TEST_CASE("the cluster platform's extension functions can be looked up") {
    const auto attach = reinterpret_cast<clAttachBufferToDevice_fn>(
        clGetExtensionFunctionAddressForPlatform(platform(), "clAttachBufferToDevice"));
    const auto detach = reinterpret_cast<clDetachBuffer_fn>(
        clGetExtensionFunctionAddressForPlatform(platform(), "clDetachBuffer"));
    REQUIRE((attach != nullptr) == is_cluster());
    REQUIRE((detach != nullptr) == is_cluster());
    if (!is_cluster()) return;
    const setup cl;
    const buffer_handle buffer = cl.buffer(4096);
    const buffer_handle part = cl.sub_buffer(buffer, 0, 64);
    CL_OK(attach(buffer, devices().back()));
    CL_OK(detach(buffer));
    CL_FAILS(CL_INVALID_MEM_OBJECT, attach(nullptr, devices().back()));
    CL_FAILS(CL_INVALID_MEM_OBJECT, attach(part, devices().back()));
    CL_FAILS(CL_INVALID_DEVICE, attach(buffer, nullptr));
    CL_FAILS(CL_INVALID_MEM_OBJECT, detach(part));
}

TEST_CASE("a buffer keeps its contents when it is attached and detached") {
    const setup cl;
    const bytes data = pattern(1, size);
    const buffer_handle buffer = cl.buffer(size);
    write(cl.queues.front(), buffer, 0, data);
    for (const cl_device_id device : devices()) {
        CL_OK(clAttachBufferToDevice(buffer, device));
        expect(cl, buffer, data);
    }
    CL_OK(clDetachBuffer(buffer));
    expect(cl, buffer, data);
    // Contents that all processes have need no transfer.
    bytes copy = data;
    const buffer_handle everywhere =
        cl.buffer(size, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, copy.data());
    CL_OK(clAttachBufferToDevice(everywhere, devices().back()));
    expect(cl, everywhere, data);
}

TEST_CASE("bytes written by another device return to the device that the buffer is attached to") {
    setup cl;
    const kernel_handle kernel = cl.kernel("add");
    for (std::size_t home = 0; home < cl.count(); ++home) {
        bytes data = pattern(home, size);
        const buffer_handle buffer = attached(cl, home, data);
        const cl_mem memory = buffer;
        for (std::size_t writer = 0; writer < cl.count(); ++writer) {
            const cl_command_queue queue = cl.queues[writer];
            CL_OK(clEnqueueFillBuffer(queue, buffer, "ab", 2, 100, 200, 0, nullptr, nullptr));
            for (std::size_t i = 0; i < 200; ++i) data[100 + i] = i % 2 == 0 ? 'a' : 'b';
            set_args(kernel, memory, static_cast<unsigned char>(writer + 1));
            add(queue, kernel, size / 2);
            for (std::size_t i = 0; i < size / 2; ++i)
                data[i] = static_cast<unsigned char>(data[i] + writer + 1);
            CL_OK(clEnqueueCopyBuffer(queue, buffer, buffer, 0, 700, 100, 0, nullptr, nullptr));
            std::copy_n(data.begin(), 100, data.begin() + 700);
            CL_OK(clFinish(queue));
            check_equal(read(cl.queues[(writer + 1) % cl.count()], buffer, 0, size), data);
        }
        expect(cl, buffer, data);
    }
}

TEST_CASE("each device works on its own attached buffer, and no result is lost") {
    setup cl;
    std::vector<buffer_handle> buffers;
    std::vector<kernel_handle> kernels;
    for (std::size_t d = 0; d < cl.count(); ++d) {
        buffers.push_back(attached(cl, d, pattern(d, size)));
        kernels.push_back(cl.kernel("add"));
        const cl_mem memory = buffers[d];
        set_args(kernels[d], memory, static_cast<unsigned char>(d + 1));
    }
    constexpr unsigned rounds = 50;
    for (unsigned round = 0; round < rounds; ++round)
        for (std::size_t d = 0; d < cl.count(); ++d) add(cl.queues[d], kernels[d], size);
    SUBCASE("read one after the other") {
        for (std::size_t d = 0; d < cl.count(); ++d)
            check_equal(read(cl.queues[d], buffers[d], 0, size),
                        plus(pattern(d, size), rounds * unsigned(d + 1)));
    }
    SUBCASE("behind clFinish and detached") {
        for (std::size_t d = 0; d < cl.count(); ++d) {
            CL_OK(clFinish(cl.queues[d]));
            CL_OK(clDetachBuffer(buffers[d]));
            expect(cl, buffers[d], plus(pattern(d, size), rounds * unsigned(d + 1)));
        }
    }
    SUBCASE("with an event behind them") {
        std::vector<event_handle> events(cl.count());
        for (std::size_t d = 0; d < cl.count(); ++d)
            CL_OK(clEnqueueMarker(cl.queues[d], events[d].out()));
        for (std::size_t d = 0; d < cl.count(); ++d) {
            complete(events[d]);
            expect(cl, buffers[d], plus(pattern(d, size), rounds * unsigned(d + 1)));
        }
    }
    SUBCASE("passed on from device to device") {
        for (std::size_t d = 0; d + 1 < cl.count(); ++d) {
            CL_OK(clFinish(cl.queues[d + 1]));
            CL_OK(clEnqueueCopyBuffer(cl.queues[d], buffers[d], buffers[d + 1], 0, 0, size, 0,
                                      nullptr, nullptr));
            CL_OK(clFinish(cl.queues[d]));
        }
        expect(cl, buffers.back(), plus(pattern(0, size), rounds));
    }
}

TEST_CASE("a kernel uses a new argument, attached or not") {
    setup cl;
    const std::size_t last = cl.count() - 1;
    const buffer_handle one = attached(cl, last, pattern(1, size));
    const buffer_handle other = attached(cl, 0, pattern(2, size));
    const buffer_handle third = cl.buffer(size);
    write(cl.queues[0], third, 0, pattern(3, size));
    const kernel_handle kernel = cl.kernel("add");
    for (unsigned round = 0; round < 3; ++round) {
        for (const cl_mem memory : {one.get(), other.get(), third.get()}) {
            set_args(kernel, memory, static_cast<unsigned char>(round + 1));
            add(cl.queues[last], kernel, size);
        }
    }
    CL_OK(clFinish(cl.queues[last]));
    expect(cl, one, plus(pattern(1, size), 6));
    expect(cl, other, plus(pattern(2, size), 6));
    expect(cl, third, plus(pattern(3, size), 6));
}

TEST_CASE("invalid commands on attached buffers are refused in all processes") {
    setup cl;
    for (std::size_t d = 0; d < cl.count(); ++d) {
        const cl_command_queue queue = cl.queues[d];
        const buffer_handle buffer = attached(cl, d, pattern(1, size));
        buffer_handle second = attached(cl, d, pattern(1, size));
        const kernel_handle kernel = cl.kernel("copy");
        const std::size_t items = 10;
        const auto launch = [&](cl_uint dimensions) {
            return clEnqueueNDRangeKernel(queue, kernel, dimensions, nullptr, &items, nullptr, 0,
                                          nullptr, nullptr);
        };
        CL_FAILS(CL_INVALID_KERNEL_ARGS, launch(1));
        const cl_mem to = buffer;
        const cl_mem from = second;
        set_args(kernel, to, from);
        CL_OK(launch(1));
        CL_FAILS(CL_INVALID_WORK_DIMENSION, launch(0));
        CL_FAILS(CL_INVALID_VALUE,
                 clEnqueueCopyBuffer(queue, buffer, second, 0, 1, size, 0, nullptr, nullptr));
        CL_FAILS(CL_MEM_COPY_OVERLAP,
                 clEnqueueCopyBuffer(queue, buffer, buffer, 0, 1, 10, 0, nullptr, nullptr));
        CL_FAILS(CL_INVALID_VALUE,
                 clEnqueueFillBuffer(queue, buffer, "abc", 3, 0, 9, 0, nullptr, nullptr));
        CL_FAILS(CL_INVALID_VALUE,
                 clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, 1, nullptr, 0, nullptr, nullptr));
        CL_FAILS(CL_INVALID_COMMAND_QUEUE,
                 clEnqueueCopyBuffer(nullptr, buffer, second, 0, 0, size, 0, nullptr, nullptr));
        CL_OK(clFinish(queue));
        if (!is_cluster()) continue;  // natively these arguments may stay set
        second = {};
        CL_FAILS(CL_INVALID_KERNEL_ARGS, launch(1));
        buffer_handle part = cl.sub_buffer(buffer, 0, 16);
        const cl_mem of_it = part;
        set_args(kernel, to, of_it);
        CL_OK(launch(1));
        CL_OK(clFinish(queue));
        part = {};
        CL_FAILS(CL_INVALID_KERNEL_ARGS, launch(1));
        const program_handle program =
            cl.program("kernel void sampled(global uchar *data, sampler_t s) { data[0] = 1; }",
                       "-cl-kernel-arg-info");
        const kernel_handle sampled = cl.kernel(program, "sampled");
        cl_int code = CL_SUCCESS;
        const cl_sampler sampler =
            clCreateSampler(cl.context, CL_FALSE, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST, &code);
        CL_OK(code);
        set_args(sampled, to, sampler);
        const auto launch_sampled = [&] {
            return clEnqueueNDRangeKernel(queue, sampled, 1, nullptr, &items, nullptr, 0, nullptr,
                                          nullptr);
        };
        CL_OK(launch_sampled());
        CL_OK(clFinish(queue));
        CL_OK(clReleaseSampler(sampler));
        CL_FAILS(CL_INVALID_KERNEL_ARGS, launch_sampled());
    }
}

TEST_CASE("events of commands on attached buffers support every way of waiting") {
    setup cl;
    constexpr unsigned rounds = 20;
    enum class Way {
        one_by_one,
        together,
        status,
        copy,
        circle,
        marker,
        callback,
        times,
        not_at_all,
        end
    };
    for (std::size_t home = 0; home < cl.count(); ++home)
        for (Way way{}; way != Way::end; way = Way(int(way) + 1)) {
            CAPTURE(home);
            CAPTURE(int(way));
            const cl_command_queue queue = cl.queues[home];
            const cl_command_queue other = cl.queues[(home + 1) % cl.count()];
            const buffer_handle buffer = attached(cl, home, pattern(home, size));
            const buffer_handle target = cl.buffer(size);
            const kernel_handle kernel = cl.kernel("add");
            const cl_mem memory = buffer;
            set_args(kernel, memory, static_cast<unsigned char>(1));
            const std::size_t items = size;
            const auto launch = [&](cl_uint count, const cl_event *waits, cl_event *event) {
                CL_OK(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &items, nullptr, count,
                                             waits, event));
            };
            std::vector<event_handle> events(rounds);
            for (event_handle &event : events) launch(0, nullptr, event.out());
            const cl_event first = events.front();
            const cl_event last = events.back();
            CHECK(info<cl_command_type>(clGetEventInfo, CL_EVENT_COMMAND_TYPE, last) ==
                  CL_COMMAND_NDRANGE_KERNEL);
            CHECK(info<cl_command_queue>(clGetEventInfo, CL_EVENT_COMMAND_QUEUE, last) == queue);
            if (is_cluster())
                CHECK(info<cl_uint>(clGetEventInfo, CL_EVENT_REFERENCE_COUNT, last) == 1);
            bytes wanted = plus(pattern(home, size), rounds);
            event_handle event;
            switch (way) {
                case Way::one_by_one:
                    for (const event_handle &each : events) complete(each);
                    break;
                case Way::together: {
                    const std::vector<cl_event> all(events.begin(), events.end());
                    CL_OK(clWaitForEvents(rounds, all.data()));
                    for (const cl_event each : all) CHECK(status_of(each) == CL_COMPLETE);
                    break;
                }
                case Way::status:
                    CL_OK(clFlush(queue));
                    while (status_of(last) > CL_COMPLETE) {
                    }
                    CHECK(status_of(first) == CL_COMPLETE);
                    break;
                case Way::copy:
                    CL_OK(clEnqueueCopyBuffer(other, buffer, target, 0, 0, size, 1, &last,
                                              event.out()));
                    complete(event);
                    expect(cl, target, wanted);
                    break;
                case Way::circle: {  // to another device and back
                    CL_OK(
                        clEnqueueFillBuffer(other, buffer, "x", 1, 0, size, 1, &last, event.out()));
                    const cl_event wait = event;
                    event_handle added;
                    launch(1, &wait, added.out());
                    complete(added);
                    wanted.assign(size, static_cast<unsigned char>('x' + 1));
                    break;
                }
                case Way::marker:
                    CL_OK(clEnqueueMarkerWithWaitList(other, 1, &last, event.out()));
                    CL_OK(clEnqueueBarrierWithWaitList(other, 1, &first, nullptr));
                    complete(event);
                    break;
                case Way::callback: {
                    std::promise<cl_int> ended;
                    const auto note = [](cl_event, cl_int status, void *data) {
                        static_cast<std::promise<cl_int> *>(data)->set_value(status);
                    };
                    CL_OK(clSetEventCallback(last, CL_COMPLETE, note, &ended));
                    CL_OK(clFlush(queue));
                    CHECK(ended.get_future().get() == CL_COMPLETE);
                    break;
                }
                case Way::times: {
                    complete(last);
                    const auto start =
                        info<cl_ulong>(clGetEventProfilingInfo, CL_PROFILING_COMMAND_START, last);
                    CHECK(info<cl_ulong>(clGetEventProfilingInfo, CL_PROFILING_COMMAND_END, last) >=
                          start);
                    CHECK(start >=
                          info<cl_ulong>(clGetEventProfilingInfo, CL_PROFILING_COMMAND_END, first));
                    break;
                }
                default: events.clear();
            }
            CL_OK(clFinish(queue));
            expect(cl, buffer, wanted);
        }
}

TEST_CASE(
    "a buffer that one device has used alone for a while is correct when other devices use it, "
    "repeatedly") {
    setup cl;
    enum class Use { read, write, fill, attach, migrate, map, copy, end };
    for (Use use{}; use != Use::end; use = Use(int(use) + 1)) {
        CAPTURE(int(use));
        const kernel_handle kernel = cl.kernel("add");
        const buffer_handle buffer = cl.buffer(size);
        bytes data(size, 3);
        CL_OK(clEnqueueFillBuffer(cl.queues[0], buffer, data.data(), 1, 0, size, 0, nullptr,
                                  nullptr));
        CL_OK(clFinish(cl.queues[0]));
        const cl_mem memory = buffer;
        const auto use_alone = [&](std::size_t device, unsigned times) {
            set_args(kernel, memory, static_cast<unsigned char>(1));
            for (unsigned n = 0; n < times; ++n) add(cl.queues[device], kernel, size);
            CL_OK(clFinish(cl.queues[device]));
            data = plus(data, times);
        };
        // The number of commands doubles, because a detached buffer is reattached only after twice
        // as many commands.
        for (unsigned times = 17; times < 100; times = 2 * times + 1)
            for (std::size_t device = 0; device < cl.count(); ++device) {
                const std::size_t next = (device + 1) % cl.count();
                const cl_command_queue own = cl.queues[device];
                const cl_command_queue other = cl.queues[next];
                use_alone(device, times);
                switch (use) {
                    case Use::read: check_equal(read(other, buffer, 0, size), data); break;
                    case Use::write:
                        CL_OK(clEnqueueWriteBuffer(other, buffer, CL_FALSE, 10, 1, "z", 0, nullptr,
                                                   nullptr));
                        data[10] = 'z';
                        break;
                    case Use::fill:
                        CL_OK(clEnqueueFillBuffer(other, buffer, "q", 1, 0, size / 2, 0, nullptr,
                                                  nullptr));
                        CL_OK(clFinish(other));
                        std::fill_n(data.begin(), size / 2, static_cast<unsigned char>('q'));
                        use_alone(device, 2 * times);
                        break;
                    case Use::attach:
                        CL_OK(clAttachBufferToDevice(buffer, devices()[next]));
                        use_alone(device, 3);
                        CL_OK(clDetachBuffer(buffer));
                        use_alone(device, times);
                        break;
                    case Use::migrate:
                        CL_OK(
                            clEnqueueMigrateMemObjects(other, 1, &memory, 0, 0, nullptr, nullptr));
                        break;
                    case Use::map: {
                        cl_int code = CL_SUCCESS;
                        void *const mapped = clEnqueueMapBuffer(other, buffer, CL_TRUE,
                                                                CL_MAP_WRITE_INVALIDATE_REGION, 5,
                                                                7, 0, nullptr, nullptr, &code);
                        CL_OK(code);
                        std::memset(mapped, 'm', 7);
                        CL_OK(clEnqueueUnmapMemObject(other, buffer, mapped, 0, nullptr, nullptr));
                        std::fill_n(data.begin() + 5, 7, static_cast<unsigned char>('m'));
                        break;
                    }
                    default:
                        CL_OK(clEnqueueCopyBuffer(own, buffer, buffer, 0, 500, 100, 0, nullptr,
                                                  nullptr));
                        CL_OK(clFinish(own));
                        CL_OK(clEnqueueCopyBuffer(other, buffer, buffer, 500, 700, 100, 0, nullptr,
                                                  nullptr));
                        std::copy_n(data.begin(), 100, data.begin() + 500);
                        std::copy_n(data.begin() + 500, 100, data.begin() + 700);
                }
                CL_OK(clFinish(other));
                expect(cl, buffer, data);
            }
    }
}

TEST_CASE("buffers may be released while commands that some processes leave out use them") {
    setup cl;
    const kernel_handle kernel = cl.kernel("copy");
    for (std::size_t device = 0; device < cl.count(); ++device) {
        const cl_command_queue queue = cl.queues[device];
        const bytes data = pattern(device, size);
        buffer_handle from = attached(cl, device, data);
        const buffer_handle to = attached(cl, device, bytes(size));
        for (int n = 0; n < 40; ++n) {
            const buffer_handle between = cl.buffer(size);
            CL_OK(clAttachBufferToDevice(between, devices()[device]));
            const cl_mem source = from;
            const cl_mem target = between;
            set_args(kernel, target, source);
            add(queue, kernel, size);
            event_handle event;
            CL_OK(clEnqueueCopyBuffer(queue, between, to, 0, 0, size, 0, nullptr,
                                      n % 2 == 0 ? event.out() : nullptr));
        }
        CL_OK(clEnqueueFillBuffer(queue, from, "x", 1, 0, size, 0, nullptr, nullptr));
        from = {};
        CL_OK(clFinish(queue));
        expect(cl, to, data);
    }
}
