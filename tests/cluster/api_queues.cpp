#include <array>

#include "fixture.hpp"

using namespace cluster_test;

TEST_CASE("a queue reports its context, device, properties and references") {
    const setup cl;
    for (std::size_t i = 0; i < cl.count(); ++i) {
        for (const cl_command_queue_properties properties :
             {cl_command_queue_properties{0},
              cl_command_queue_properties{CL_QUEUE_PROFILING_ENABLE},
              cl_command_queue_properties{CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE}}) {
            const queue_handle queue = cl.queue(i, properties);
            CHECK(info<cl_context>(clGetCommandQueueInfo, CL_QUEUE_CONTEXT, queue.get()) ==
                  cl.context);
            CHECK(info<cl_device_id>(clGetCommandQueueInfo, CL_QUEUE_DEVICE, queue.get()) ==
                  devices()[i]);
            CHECK(info<cl_command_queue_properties>(clGetCommandQueueInfo, CL_QUEUE_PROPERTIES,
                                                    queue.get()) == properties);
            CHECK(info<cl_uint>(clGetCommandQueueInfo, CL_QUEUE_REFERENCE_COUNT, queue.get()) == 1);
            CL_OK(clRetainCommandQueue(queue));
            CHECK(info<cl_uint>(clGetCommandQueueInfo, CL_QUEUE_REFERENCE_COUNT, queue.get()) == 2);
            CL_OK(clReleaseCommandQueue(queue));
            check_info_arguments(clGetCommandQueueInfo, CL_QUEUE_PROPERTIES, queue.get());
        }
    }
}

TEST_CASE("a queue created with a list of properties reports it") {
    const setup cl;
    const std::array<cl_queue_properties, 3> list = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE,
                                                     0};
    cl_int error = CL_INVALID_VALUE;
    for (const cl_device_id device : devices()) {
        const queue_handle queue(
            clCreateCommandQueueWithProperties(cl.context, device, list.data(), &error));
        CL_OK(error);
        CHECK(info<cl_command_queue_properties>(clGetCommandQueueInfo, CL_QUEUE_PROPERTIES,
                                                queue.get()) == CL_QUEUE_PROFILING_ENABLE);
        CHECK(info_list<cl_queue_properties>(clGetCommandQueueInfo, CL_QUEUE_PROPERTIES_ARRAY,
                                             queue.get()) ==
              std::vector<cl_queue_properties>(list.begin(), list.end()));
        const queue_handle plain(
            clCreateCommandQueueWithProperties(cl.context, device, nullptr, &error));
        CL_OK(error);
        CHECK(info<cl_command_queue_properties>(clGetCommandQueueInfo, CL_QUEUE_PROPERTIES,
                                                plain.get()) == 0);
        CHECK(info_list<cl_queue_properties>(clGetCommandQueueInfo, CL_QUEUE_PROPERTIES_ARRAY,
                                             plain.get())
                  .empty());
    }
}

TEST_CASE("functions of queues refuse invalid arguments") {
    const setup cl;
    const cl_device_id device = devices().back();
    CL_FAILS_TO_MAKE(CL_INVALID_CONTEXT, clCreateCommandQueue(nullptr, device, 0, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_DEVICE, clCreateCommandQueue(cl.context, nullptr, 0, &error));
    CL_FAILS_TO_MAKE(
        CL_INVALID_VALUE,
        clCreateCommandQueue(cl.context, device, cl_command_queue_properties{1} << 30U, &error));
    const std::array<cl_queue_properties, 3> unknown = {0x7777, 1, 0};
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE, clCreateCommandQueueWithProperties(cl.context, device,
                                                                          unknown.data(), &error));
    CL_FAILS(CL_INVALID_COMMAND_QUEUE, clRetainCommandQueue(nullptr));
    CL_FAILS(CL_INVALID_COMMAND_QUEUE, clReleaseCommandQueue(nullptr));
    CL_FAILS(CL_INVALID_COMMAND_QUEUE, clFlush(nullptr));
    CL_FAILS(CL_INVALID_COMMAND_QUEUE, clFinish(nullptr));
    CL_FAILS(CL_INVALID_COMMAND_QUEUE,
             clGetCommandQueueInfo(nullptr, CL_QUEUE_CONTEXT, 0, nullptr, nullptr));
    CL_FAILS(CL_INVALID_COMMAND_QUEUE, clGetCommandQueueInfo(cl.queues.front(), CL_QUEUE_SIZE,
                                                             sizeof(cl_uint), nullptr, nullptr));
    if (devices().size() > 1) {
        cl_int code = CL_SUCCESS;
        const context_handle of_first(
            clCreateContext(nullptr, 1, devices().data(), nullptr, nullptr, &code));
        CL_OK(code);
        CL_FAILS_TO_MAKE(CL_INVALID_DEVICE, clCreateCommandQueue(of_first, device, 0, &error));
    }
}

TEST_CASE(
    "clFinish waits for all commands of its queue, and a released queue completes its commands") {
    const setup cl;
    for (std::size_t i = 0; i < cl.count(); ++i) {
        const buffer_handle buffer = cl.buffer(MiB);
        bytes data = pattern(i, MiB);
        bytes found(MiB);
        CL_OK(clFinish(cl.queues[i]));
        CL_OK(clEnqueueWriteBuffer(cl.queues[i], buffer, CL_FALSE, 0, MiB, data.data(), 0, nullptr,
                                   nullptr));
        CL_OK(clEnqueueReadBuffer(cl.queues[i], buffer, CL_FALSE, 0, MiB, found.data(), 0, nullptr,
                                  nullptr));
        CL_OK(clFlush(cl.queues[i]));
        CL_OK(clFinish(cl.queues[i]));
        check_equal(found, data);
        CL_OK(clFinish(cl.queues[i]));
        event_handle written;
        {
            const queue_handle queue = cl.queue(i, 0);
            CL_OK(clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, MiB, found.data(), 0, nullptr,
                                       written.out()));
        }
        complete(written);
    }
}
