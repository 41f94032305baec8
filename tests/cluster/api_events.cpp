// Events: waiting, status, callbacks and profiling, across queues, devices and processes.
#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <random>
#include <thread>

#include <unistd.h>

#include "fixture.hpp"

using namespace cluster_test;

namespace {

struct call {
    cl_event event;
    cl_int status;
};
void CL_CALLBACK note_call(cl_event event, cl_int status, void *data) {
    static_cast<std::promise<call> *>(data)->set_value({event, status});
}

cl_ulong time_of(cl_event event, cl_profiling_info param) {
    return info<cl_ulong>(clGetEventProfilingInfo, param, event);
}

/// Adds `value` to each of the first `size` bytes once `waits` have ended.
event_handle add(setup &cl, cl_command_queue queue, cl_mem buffer, std::size_t size,
                 unsigned char value, const std::vector<cl_event> &waits = {}) {
    const kernel_handle kernel = cl.kernel("add");
    event_handle event;
    CL_OK(clSetKernelArg(kernel, 0, sizeof buffer, &buffer));
    CL_OK(clSetKernelArg(kernel, 1, 1, &value));
    CL_OK(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &size, nullptr,
                                 static_cast<cl_uint>(waits.size()),
                                 waits.empty() ? nullptr : waits.data(), event.out()));
    return event;
}

}  // namespace

TEST_CASE("an event reports its queue, context, command and references") {
    setup cl;
    const buffer_handle buffer = cl.buffer(64);
    write(cl.queues[0], buffer, 0, pattern(1, 64));
    for (const queue_handle &queue : cl.queues) {
        const event_handle event = add(cl, queue, buffer, 64, 1);
        CHECK(info<cl_command_queue>(clGetEventInfo, CL_EVENT_COMMAND_QUEUE, event.get()) == queue);
        CHECK(info<cl_context>(clGetEventInfo, CL_EVENT_CONTEXT, event.get()) == cl.context);
        CHECK(info<cl_command_type>(clGetEventInfo, CL_EVENT_COMMAND_TYPE, event.get()) ==
              CL_COMMAND_NDRANGE_KERNEL);
        CHECK(info<cl_uint>(clGetEventInfo, CL_EVENT_REFERENCE_COUNT, event.get()) >= 1);
        CL_OK(clRetainEvent(event));
        CL_OK(clReleaseEvent(event));
        check_info_arguments(clGetEventInfo, CL_EVENT_COMMAND_TYPE, event.get());
        complete(event);
    }
}

TEST_CASE("repeated status queries of a command finally return CL_COMPLETE") {
    setup cl;
    const buffer_handle buffer = cl.buffer(4096);
    write(cl.queues[0], buffer, 0, pattern(1, 4096));
    for (const queue_handle &queue : cl.queues) {
        const event_handle event = add(cl, queue, buffer, 4096, 1);
        CL_OK(clFlush(queue));
        cl_int status = CL_QUEUED;
        while (status > CL_COMPLETE) {
            status = status_of(event);
            REQUIRE(status >= CL_COMPLETE);
            REQUIRE(status <= CL_QUEUED);
        }
    }
}

TEST_CASE(
    "a status query sees the end of a command as soon as another call has reported it, on all "
    "devices") {
    setup cl(0);
    for (std::size_t i = 0; i < cl.count(); ++i) {
        const buffer_handle buffer = cl.buffer(64);
        write(cl.queues[i], buffer, 0, bytes(64, 0));
        for (int round = 0; round < 50; ++round) {
            const event_handle first = add(cl, cl.queues[i], buffer, 64, 1);
            status_of(first);
            read(cl.queues[i], buffer, 0, 64);
            CHECK(status_of(first) == CL_COMPLETE);
            const event_handle second = add(cl, cl.queues[i], buffer, 64, 1);
            const event_handle third = add(cl, cl.queues[i], buffer, 64, 1);
            status_of(second);
            CL_OK(clFinish(cl.queues[i]));
            CHECK(status_of(second) == CL_COMPLETE);
            CHECK(status_of(third) == CL_COMPLETE);
            const event_handle fourth = add(cl, cl.queues[i], buffer, 64, 1);
            const event_handle fifth = add(cl, cl.queues[i], buffer, 64, 1);
            CL_OK(clFlush(cl.queues[i]));
            while (status_of(fifth) != CL_COMPLETE) std::this_thread::yield();
            CHECK(status_of(fourth) == CL_COMPLETE);
        }
    }
}

TEST_CASE("the event of every command reports the command's type") {
    setup cl;
    const buffer_handle a = cl.buffer(4096);
    const buffer_handle b = cl.buffer(4096);
    bytes host(4096);
    write(cl.queues[0], a, 0, pattern(1, 4096));
    write(cl.queues[0], b, 0, pattern(1, 4096));
    const std::array<std::size_t, 3> origin = {0, 0, 0};
    const std::array<std::size_t, 3> region = {16, 4, 2};
    for (const queue_handle &queue : cl.queues) {
        const auto type_is = [&](cl_command_type wanted, auto &&enqueue) {
            event_handle event;
            CL_OK(enqueue(event.out()));
            CHECK(info<cl_command_type>(clGetEventInfo, CL_EVENT_COMMAND_TYPE, event.get()) ==
                  wanted);
            complete(event);
        };
        const unsigned char zero = 0;
        const cl_mem memory = a;
        type_is(CL_COMMAND_READ_BUFFER, [&](cl_event *e) {
            return clEnqueueReadBuffer(queue, a, CL_FALSE, 0, 10, host.data(), 0, nullptr, e);
        });
        type_is(CL_COMMAND_WRITE_BUFFER, [&](cl_event *e) {
            return clEnqueueWriteBuffer(queue, a, CL_FALSE, 0, 10, host.data(), 0, nullptr, e);
        });
        type_is(CL_COMMAND_FILL_BUFFER, [&](cl_event *e) {
            return clEnqueueFillBuffer(queue, a, &zero, 1, 0, 10, 0, nullptr, e);
        });
        type_is(CL_COMMAND_COPY_BUFFER, [&](cl_event *e) {
            return clEnqueueCopyBuffer(queue, a, b, 0, 0, 10, 0, nullptr, e);
        });
        type_is(CL_COMMAND_READ_BUFFER_RECT, [&](cl_event *e) {
            return clEnqueueReadBufferRect(queue, a, CL_FALSE, origin.data(), origin.data(),
                                           region.data(), 0, 0, 0, 0, host.data(), 0, nullptr, e);
        });
        type_is(CL_COMMAND_WRITE_BUFFER_RECT, [&](cl_event *e) {
            return clEnqueueWriteBufferRect(queue, a, CL_FALSE, origin.data(), origin.data(),
                                            region.data(), 0, 0, 0, 0, host.data(), 0, nullptr, e);
        });
        type_is(CL_COMMAND_COPY_BUFFER_RECT, [&](cl_event *e) {
            return clEnqueueCopyBufferRect(queue, a, b, origin.data(), origin.data(), region.data(),
                                           0, 0, 0, 0, 0, nullptr, e);
        });
        type_is(CL_COMMAND_MIGRATE_MEM_OBJECTS, [&](cl_event *e) {
            return clEnqueueMigrateMemObjects(queue, 1, &memory, 0, 0, nullptr, e);
        });
        void *mapped = nullptr;
        type_is(CL_COMMAND_MAP_BUFFER, [&](cl_event *e) {
            cl_int code = CL_SUCCESS;
            mapped =
                clEnqueueMapBuffer(queue, a, CL_FALSE, CL_MAP_READ, 0, 100, 0, nullptr, e, &code);
            return code;
        });
        type_is(CL_COMMAND_UNMAP_MEM_OBJECT, [&](cl_event *e) {
            return clEnqueueUnmapMemObject(queue, a, mapped, 0, nullptr, e);
        });
        type_is(CL_COMMAND_MARKER,
                [&](cl_event *e) { return clEnqueueMarkerWithWaitList(queue, 0, nullptr, e); });
        type_is(CL_COMMAND_BARRIER,
                [&](cl_event *e) { return clEnqueueBarrierWithWaitList(queue, 0, nullptr, e); });
    }
}

TEST_CASE("wait lists order commands of all devices, in queues of both kinds") {
    setup cl;
    for (const bool in_order : {true, false}) {
        std::vector<queue_handle> queues;
        for (std::size_t i = 0; i < cl.count(); ++i)
            queues.push_back(in_order ? cl.queue(i, 0) : cl.out_of_order(i));
        const buffer_handle buffer = cl.buffer(1000);
        bytes model = pattern(4, 1000);
        write(cl.queues[0], buffer, 0, model);
        std::vector<event_handle> events;
        const std::size_t steps = 5 * cl.count() + 3;
        for (std::size_t n = 0; n < steps; ++n) {
            // Each command waits for the last two, so wait lists contain events of several devices.
            std::vector<cl_event> waits;
            for (std::size_t back = 1; back <= std::min<std::size_t>(n, 2); ++back)
                waits.push_back(events[n - back]);
            events.push_back(add(cl, queues[n % cl.count()], buffer, 1000,
                                 static_cast<unsigned char>(n + 1), waits));
            for (unsigned char &byte : model) byte = static_cast<unsigned char>(byte + n + 1);
        }
        std::vector<cl_event> all(events.begin(), events.end());
        CL_OK(clWaitForEvents(static_cast<cl_uint>(all.size()), all.data()));
        expect(cl, buffer, model);
    }
}

TEST_CASE("commands that depend on a user event wait for it, on all devices") {
    setup cl;
    for (const bool in_order : {true, false}) {
        const event_handle gate = cl.user_event();
        CHECK(status_of(gate) == CL_SUBMITTED);
        CHECK(info<cl_command_type>(clGetEventInfo, CL_EVENT_COMMAND_TYPE, gate.get()) ==
              CL_COMMAND_USER);
        CHECK(info<cl_command_queue>(clGetEventInfo, CL_EVENT_COMMAND_QUEUE, gate.get()) ==
              nullptr);
        std::vector<queue_handle> queues;
        std::vector<buffer_handle> buffers;
        std::vector<event_handle> events;
        for (std::size_t i = 0; i < cl.count(); ++i) {
            queues.push_back(in_order ? cl.queue(i, 0) : cl.out_of_order(i));
            buffers.push_back(cl.buffer(500));
            write(cl.queues[(i + 1) % cl.count()], buffers[i], 0, pattern(i, 500));
            events.push_back(add(cl, queues[i], buffers[i], 500, 9, {gate.get()}));
            CL_OK(clFlush(queues[i]));
        }
        for (const event_handle &event : events) CHECK(status_of(event) > CL_COMPLETE);
        CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
        CHECK(status_of(gate) == CL_COMPLETE);
        for (std::size_t i = 0; i < cl.count(); ++i) {
            complete(events[i]);
            bytes wanted = pattern(i, 500);
            for (unsigned char &byte : wanted) byte = static_cast<unsigned char>(byte + 9);
            expect(cl, buffers[i], wanted);
        }
    }
}

TEST_CASE(
    "a thread waits while another thread sets the user event that it waits for, on all devices") {
    const setup cl;
    const buffer_handle buffer = cl.buffer(4096);
    const bytes data(4096, 1);
    for (const bool finishes : {false, true}) {
        const std::size_t near = finishes ? 0 : cl.count() - 1;
        const std::size_t far = cl.count() - 1 - near;
        const event_handle go = cl.user_event();
        const cl_event wait = go;
        event_handle written;
        event_handle marked;
        CL_OK(clEnqueueWriteBuffer(cl.queues[near], buffer, CL_FALSE, 0, data.size(), data.data(),
                                   1, &wait, written.out()));
        const cl_event after = written;
        CL_OK(clEnqueueMarkerWithWaitList(cl.queues[far], 1, &after, marked.out()));
        for (const queue_handle &queue : cl.queues) CL_OK(clFlush(queue));
        cl_int set = CL_INVALID_EVENT;
        std::thread other([&] {
            // No function reports that a thread is in a call. A sleep orders the calls, which all
            // processes must make in the same order.
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            set = clSetUserEventStatus(wait, CL_COMPLETE);
        });
        if (finishes)
            CL_OK(clFinish(cl.queues[far]));
        else
            complete(marked);
        other.join();
        CL_OK(set);
        CHECK(status_of(marked) == CL_COMPLETE);
    }
}

TEST_CASE(
    "while processes wait for an answer, a thread can set the user event that the answer depends "
    "on") {
    const setup cl;
    const char *const source = "kernel void k(global uchar *data) { data[0] = 1; }";
    const program_handle program = cl.program(source);
    std::array<char, 4096> answer{};
    const std::map<std::string, std::function<cl_int(cl_event)>> questions = {
        {"the status",
         [&](cl_event event) {
             return clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(cl_int),
                                   answer.data(), nullptr);
         }},
        {"the times",
         [&](cl_event event) {
             clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof(cl_ulong),
                                     answer.data(), nullptr);
             return CL_SUCCESS;  // the times may not be available yet, not even natively
         }},
        {"a kernel",
         [&](cl_event) {
             return cl.kernel(program, "k").get() != nullptr ? CL_SUCCESS : CL_INVALID_KERNEL;
         }},
        {"a build",
         [&](cl_event) {
             return cl.program(source, "-DA").get() != nullptr ? CL_SUCCESS : CL_INVALID_PROGRAM;
         }},
        {"a log",
         [&](cl_event) {
             return clGetProgramBuildInfo(program, devices().back(), CL_PROGRAM_BUILD_LOG,
                                          answer.size(), answer.data(), nullptr);
         }},
        {"the sizes of binaries",
         [&](cl_event) {
             std::vector<std::size_t> sizes(cl.count());
             return clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES,
                                     sizes.size() * sizeof(std::size_t), sizes.data(), nullptr);
         }},
    };
    const buffer_handle buffer = cl.buffer(64);
    const buffer_handle copy = cl.buffer(64);
    const buffer_handle other = cl.buffer(64);
    const bytes data(64, 1);
    for (const auto &[name, ask] : questions) {
        CAPTURE(name);
        const event_handle go = cl.user_event();
        const cl_event gate = go;
        event_handle filled;
        event_handle copied;
        CL_OK(clEnqueueFillBuffer(cl.queues.front(), buffer, data.data(), 1, 0, 64, 1, &gate,
                                  filled.out()));
        const cl_event after = filled;
        CL_OK(
            clEnqueueCopyBuffer(cl.queues.back(), buffer, copy, 0, 0, 64, 1, &after, copied.out()));
        for (const queue_handle &queue : cl.queues) CL_OK(clFlush(queue));
        cl_int set = CL_INVALID_EVENT;
        std::thread setter([&] {
            // No function reports that a thread is in a call. A sleep orders the calls, which all
            // processes must make in the same order.
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            set = clSetUserEventStatus(gate, CL_COMPLETE);
        });
        // The process with the last device waits here. Other processes may continue to the query.
        CL_OK(clEnqueueWriteBuffer(cl.queues.back(), other, CL_TRUE, 0, 64, data.data(), 0, nullptr,
                                   nullptr));
        CL_OK(ask(copied));
        setter.join();
        CL_OK(set);
        complete(copied);
    }
}

TEST_CASE("repeated status queries see the end of a user event that another thread sets") {
    const setup cl;
    for (const cl_int status : {CL_COMPLETE, -5}) {
        for (int round = 0; round < 5; ++round) {
            const event_handle event = cl.user_event();
            const cl_event gate = event;
            cl_int set = CL_INVALID_EVENT;
            std::thread setter([&] { set = clSetUserEventStatus(gate, status); });
            cl_int seen = status_of(event);
            while (seen > CL_COMPLETE) seen = status_of(event);
            setter.join();
            CL_OK(set);
            CHECK(seen == status);
            CHECK(status_of(event) == status);
        }
    }
}

TEST_CASE(
    "a thread that waited for a user event may release it while the setting thread is still in its "
    "call") {
    const setup cl;
    const buffer_handle buffer = cl.buffer(64);
    std::atomic<bool> over = false;
    // This thread takes the platform's lock again and again.
    std::thread asker([&] {
        std::size_t size = 0;
        while (!over) {
            clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof size, &size, nullptr);
            std::this_thread::yield();
        }
    });
    cl_int first_error = CL_SUCCESS;
    for (int round = 0; round < 100; ++round) {
        cl_int error = CL_SUCCESS;
        const cl_event gate = clCreateUserEvent(cl.context, &error);
        CL_OK(error);
        std::thread setter([&] {
            const cl_int code = clSetUserEventStatus(gate, CL_COMPLETE);
            if (code != CL_SUCCESS) first_error = code;
        });
        CL_OK(clWaitForEvents(1, &gate));
        CL_OK(clReleaseEvent(gate));
        setter.join();
    }
    over = true;
    asker.join();
    CL_OK(first_error);
}

TEST_CASE("a wait lasts, however many other waits begin and end meanwhile") {
    const setup cl;
    const queue_handle other = cl.out_of_order(cl.count() - 1);
    const event_handle go = cl.user_event();
    const cl_event gate = go;
    CL_OK(clEnqueueMarkerWithWaitList(cl.queues.back(), 1, &gate, nullptr));
    std::atomic<bool> set = false;
    std::atomic<bool> early = false;
    std::thread waiting([&] {
        clFinish(cl.queues.back());
        early = !set;
    });
    // No function reports that a thread is in a call. A sleep orders the calls, which all processes
    // must make in the same order.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    constexpr int tags = 32768;  // the number of message tags that some MPI libraries distinguish
    for (int i = 0; i <= tags; ++i) {
        CL_OK(clEnqueueMarkerWithWaitList(other, 0, nullptr, nullptr));
        CL_OK(clFinish(other));
    }
    set = true;
    // The build synchronises all processes.
    const program_handle together = cl.program("kernel void k() {}");
    CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
    waiting.join();
    CHECK_FALSE(early);
}

TEST_CASE("two threads ask for the status of one event until it is complete") {
    const setup cl;
    const buffer_handle buffer = cl.buffer(MiB);
    const bytes data(MiB, 1);
    constexpr int rounds = 100;
    std::vector<event_handle> written(rounds);
    std::barrier together(2);
    std::atomic<int> failures = 0;
    // In each process, the threads call at other moments.
    const auto ask = [&](unsigned seed) {
        std::mt19937 random(seed);
        for (const event_handle &event : written) {
            together.arrive_and_wait();
            cl_int status = CL_QUEUED;
            while (status > CL_COMPLETE) {
                std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
                if (clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                                   nullptr) != CL_SUCCESS)
                    status = CL_OUT_OF_RESOURCES;
            }
            if (status != CL_COMPLETE) ++failures;
            together.arrive_and_wait();
        }
    };
    for (std::size_t i = 0; i < written.size(); ++i)
        CL_OK(clEnqueueWriteBuffer(cl.queues[i % cl.count()], buffer, CL_FALSE, 0, MiB, data.data(),
                                   0, nullptr, written[i].out()));
    for (const queue_handle &queue : cl.queues) CL_OK(clFlush(queue));
    const auto process = static_cast<unsigned>(getpid());
    std::thread other(ask, process);
    ask(process + 1);
    other.join();
    CHECK(failures == 0);
}

TEST_CASE("several threads wait for one event and call clFinish for one queue") {
    const setup cl;
    const buffer_handle buffer = cl.buffer(MiB);
    const bytes data(MiB, 1);
    const auto in_threads = [](const auto &waits) {
        std::array<std::thread, 3> threads;
        for (std::thread &thread : threads) thread = std::thread(waits);
        for (std::thread &thread : threads) thread.join();
    };
    for (const queue_handle &queue : cl.queues) {
        for (int round = 0; round < 20; ++round) {
            event_handle written;
            CL_OK(clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, MiB, data.data(), 0, nullptr,
                                       written.out()));
            CL_OK(clFlush(queue));
            const cl_event event = written;
            std::atomic<int> well = 0;
            in_threads([&] { well += clWaitForEvents(1, &event) == CL_SUCCESS ? 1 : 0; });
            CHECK(status_of(written) == CL_COMPLETE);
            CL_OK(clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, MiB, data.data(), 0, nullptr,
                                       written.out()));
            in_threads([&] { well += clFinish(queue) == CL_SUCCESS ? 1 : 0; });
            CHECK(status_of(written) == CL_COMPLETE);
            CHECK(well == 6);
        }
    }
}

TEST_CASE("a user event that fails ends its dependent commands, on all devices") {
    setup cl;
    for (std::size_t i = 0; i < cl.count(); ++i) {
        const event_handle gate = cl.user_event();
        const buffer_handle buffer = cl.buffer(100);
        write(cl.queues[i], buffer, 0, pattern(1, 100));
        const queue_handle queue = cl.out_of_order(i);
        const event_handle event = add(cl, queue, buffer, 100, 1, {gate.get()});
        CL_OK(clSetUserEventStatus(gate, -77));
        CHECK(status_of(gate) == -77);
        const cl_event wait = event;
        CL_FAILS(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, clWaitForEvents(1, &wait));
        CHECK(status_of(event) < 0);
    }
}

TEST_CASE("after a wait, a failed command with a callback has one status in all processes") {
    setup cl;
    for (std::size_t i = 0; i < cl.count(); ++i) {
        const event_handle gate = cl.user_event();
        const cl_event wait = gate;
        const buffer_handle buffer = cl.buffer(100);
        const bytes data(100);
        event_handle written;
        CL_OK(clEnqueueWriteBuffer(cl.out_of_order(i), buffer, CL_FALSE, 0, data.size(),
                                   data.data(), 1, &wait, written.out()));
        std::promise<call> called;
        if (is_cluster())  // PoCL 3.1 doesn't call back
            CL_OK(clSetEventCallback(written, CL_COMPLETE, note_call, &called));
        CL_OK(clSetUserEventStatus(gate, -77));
        const cl_event failed = written;
        CL_FAILS(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, clWaitForEvents(1, &failed));
        if (is_cluster()) CHECK(called.get_future().get().status < 0);
        // The processes compare the arguments of this call.
        CL_OK(clSetUserEventStatus(cl.user_event(), status_of(written)));
    }
}

TEST_CASE("commands that wait for a failed read fail, on all devices") {
    // In a single process, PoCL 3.1 may abort if commands fail (decision 5).
    if (!has_several_processes()) return;
    setup cl;
    for (std::size_t first = 0; first < cl.count(); ++first) {
        for (std::size_t n = 0; n < 20 * cl.count(); ++n) {
            const std::size_t second = n % cl.count();
            CAPTURE(first);
            CAPTURE(second);
            const event_handle user = cl.user_event();
            const cl_event wait = user;
            CL_OK(clSetUserEventStatus(user, -77));
            const buffer_handle from = cl.buffer(100);
            const buffer_handle to = cl.buffer(100);
            write(cl.queues[second], to, 0, pattern(1, 100));
            bytes found(100);
            event_handle read_end;
            CL_OK(clEnqueueReadBuffer(cl.queues[first], from, CL_FALSE, 0, found.size(),
                                      found.data(), 1, &wait, read_end.out()));
            const cl_event failed = read_end;
            const unsigned char nine = 9;
            event_handle fill_end;
            CL_OK(clEnqueueFillBuffer(cl.queues[second], to, &nine, 1, 0, 100, 1, &failed,
                                      fill_end.out()));
            const cl_event last = fill_end;
            CL_FAILS(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, clWaitForEvents(1, &last));
            CL_OK(clFinish(cl.queues[first]));
            CL_OK(clFinish(cl.queues[second]));
            CHECK(read(cl.queues[second], to, 0, 100) == pattern(1, 100));
        }
    }
}

TEST_CASE("callbacks report the end of commands of all devices, and of user events") {
    setup cl;
    const buffer_handle buffer = cl.buffer(300);
    write(cl.queues[0], buffer, 0, pattern(1, 300));
    for (const queue_handle &queue : cl.queues) {
        const event_handle event = add(cl, queue, buffer, 300, 1);
        std::promise<call> called;
        CL_OK(clSetEventCallback(event, CL_COMPLETE, note_call, &called));
        CL_OK(clFlush(queue));
        const call first = called.get_future().get();
        CHECK(first.event == event);
        CHECK(first.status == CL_COMPLETE);
        complete(event);
        // A callback for an event that has already ended.
        std::promise<call> again;
        CL_OK(clSetEventCallback(event, CL_COMPLETE, note_call, &again));
        CHECK(again.get_future().get().status == CL_COMPLETE);
    }
    for (const cl_int status : {CL_COMPLETE, -5}) {
        if (status < 0 && !is_cluster()) continue;  // PoCL 3.1 doesn't call back
        const event_handle gate = cl.user_event();
        std::promise<call> called;
        CL_OK(clSetEventCallback(gate, CL_COMPLETE, note_call, &called));
        CL_OK(clSetUserEventStatus(gate, status));
        const call it = called.get_future().get();
        CHECK(it.event == gate);
        CHECK(it.status == status);
    }
}

TEST_CASE("a callback queries its command's status and times, and sets a user event") {
    setup cl;
    struct answers {
        cl_event next;
        cl_int status = CL_INVALID_EVENT;
        std::array<cl_ulong, 4> times{};
        cl_int code = CL_SUCCESS;
    };
    const buffer_handle buffer = cl.buffer(300);
    write(cl.queues[0], buffer, 0, pattern(1, 300));
    for (const queue_handle &queue : cl.queues) {
        bytes data(300);
        for (const bool reads : {false, true}) {
            const event_handle next = cl.user_event();
            event_handle event;
            if (reads)
                CL_OK(clEnqueueReadBuffer(queue, buffer, CL_FALSE, 0, 300, data.data(), 0, nullptr,
                                          event.out()));
            else
                event = add(cl, queue, buffer, 300, 1);
            answers got{next};
            CL_OK(clSetEventCallback(
                event, CL_COMPLETE,
                [](cl_event done, cl_int, void *data) {
                    answers &into = *static_cast<answers *>(data);
                    // In each process the callback seems to arrive at a different time.
                    std::this_thread::sleep_for(std::chrono::milliseconds(getpid() % 16));
                    into.status = status_of(done);
                    for (cl_uint i = 0; i < into.times.size(); ++i)
                        into.code |=
                            clGetEventProfilingInfo(done, CL_PROFILING_COMMAND_QUEUED + i,
                                                    sizeof(cl_ulong), &into.times[i], nullptr);
                    // After this call, `into` belongs to the other thread.
                    clSetUserEventStatus(into.next, CL_COMPLETE);
                },
                &got));
            CL_OK(clFlush(queue));
            for (int call = 0; call < 16; ++call) {
                CL_OK(clEnqueueMarkerWithWaitList(queue, 0, nullptr, nullptr));
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            complete(next);
            CHECK(got.status == CL_COMPLETE);
            CHECK(got.code == CL_SUCCESS);
            CHECK(got.times[3] == time_of(event, CL_PROFILING_COMMAND_END));
            CHECK(std::is_sorted(got.times.begin(), got.times.end()));
        }
    }
}

TEST_CASE("a callback may use the non-blocking functions of OpenCL") {
    setup cl;
    static std::promise<cl_int> answer;
    answer = {};
    const buffer_handle buffer = cl.buffer(300);
    write(cl.queues[0], buffer, 0, pattern(1, 300));
    const event_handle event = add(cl, cl.queues.back(), buffer, 300, 1);
    CL_OK(clSetEventCallback(
        event, CL_COMPLETE,
        [](cl_event done, cl_int, void *) {
            cl_context context = nullptr;
            answer.set_value(
                clGetEventInfo(done, CL_EVENT_CONTEXT, sizeof context, &context, nullptr));
        },
        nullptr));
    CL_OK(clFlush(cl.queues.back()));
    CHECK(answer.get_future().get() == CL_SUCCESS);
}

TEST_CASE("markers and barriers end after the commands that they wait for") {
    setup cl;
    for (std::size_t i = 0; i < cl.count(); ++i) {
        for (const bool in_order : {true, false}) {
            const queue_handle queue = in_order ? cl.queue(i, 0) : cl.out_of_order(i);
            const cl_command_queue other = cl.queues[(i + 1) % cl.count()];
            const buffer_handle mine = cl.buffer(5000);
            const buffer_handle theirs = cl.buffer(5000);
            write(cl.queues[i], mine, 0, bytes(5000));
            write(cl.queues[i], theirs, 0, bytes(5000));
            add(cl, queue, mine, 5000, 1);
            const event_handle elsewhere = add(cl, other, theirs, 5000, 2);
            const cl_event wait = elsewhere;
            event_handle all_mine;
            event_handle behind_theirs;
            event_handle barrier;
            CL_OK(clEnqueueMarkerWithWaitList(queue, 0, nullptr, all_mine.out()));
            CL_OK(clEnqueueMarkerWithWaitList(queue, 1, &wait, behind_theirs.out()));
            CL_OK(clEnqueueBarrierWithWaitList(queue, 1, &wait, barrier.out()));
            // After a barrier no wait list is necessary.
            add(cl, queue, mine, 5000, 5);
            CL_OK(clEnqueueBarrierWithWaitList(queue, 0, nullptr, nullptr));
            add(cl, queue, mine, 5000, 7);
            complete(all_mine);
            complete(behind_theirs);
            CHECK(status_of(elsewhere) == CL_COMPLETE);
            complete(barrier);
            CL_OK(clFinish(queue));
            expect(cl, mine, bytes(5000, 13));
            expect(cl, theirs, bytes(5000, 2));
        }
    }
}

TEST_CASE("in an out-of-order queue, a command waits only for its wait list") {
    // PoCL 3.1's markers wait for more. NVIDIA's driver (580) runs out-of-order queues in order.
    if (!is_cluster() || !are_cpus(devices())) return;
    setup cl;
    for (std::size_t i = 0; i < cl.count(); ++i) {
        CAPTURE(i);
        const queue_handle queue = cl.out_of_order(i);
        const buffer_handle waiting = cl.buffer(5000);
        const buffer_handle mapped = cl.buffer(5000);
        write(cl.queues[i], waiting, 0, bytes(5000));
        write(cl.queues[i], mapped, 0, bytes(5000, 3));
        const buffer_handle whole = cl.buffer(8192);
        write(cl.queues[i], whole, 0, bytes(8192, 1));
        const buffer_handle first = cl.sub_buffer(whole, 0, 4096);
        const buffer_handle second = cl.sub_buffer(whole, 4096, 4096);
        const cl_image_format format{CL_RGBA, CL_UNSIGNED_INT8};
        cl_image_desc desc{};
        desc.image_type = CL_MEM_OBJECT_IMAGE2D;
        desc.image_width = desc.image_height = 8;
        cl_int no_image = CL_SUCCESS;
        const buffer_handle image(
            clCreateImage(cl.context, CL_MEM_READ_WRITE, &format, &desc, nullptr, &no_image));
        const event_handle user = cl.user_event();
        const cl_event go = user;
        const cl_uchar value = 9;
        bytes read_later(4096);
        const queue_handle behind = cl.queue((i + 1) % cl.count(), 0);
        for (const cl_command_queue each : {queue.get(), behind.get()})
            CL_OK(clEnqueueReadBuffer(each, first, CL_FALSE, 0, 4096, read_later.data(), 1, &go,
                                      nullptr));
        CL_OK(clEnqueueFillBuffer(queue, waiting, &value, 1, 0, 5000, 1, &go, nullptr));
        const queue_handle other = cl.queue((i + 1) % cl.count(), 0);
        const event_handle elsewhere = add(cl, other, mapped, 5000, 2);
        const cl_event wait = elsewhere;
        const auto ends = [&](const char *what, const event_handle &event) {
            CAPTURE(what);
            CL_OK(clFlush(queue));
            complete(event);
        };
        event_handle marker;
        CL_OK(clEnqueueMarkerWithWaitList(queue, 1, &wait, marker.out()));
        ends("a marker", marker);
        CHECK(status_of(elsewhere) == CL_COMPLETE);
        event_handle behind_ended;
        CL_OK(clEnqueueMarkerWithWaitList(queue, 1, &wait, behind_ended.out()));
        ends("a marker for ended commands", behind_ended);
        cl_int error = CL_SUCCESS;
        void *const memory = clEnqueueMapBuffer(queue, mapped, CL_TRUE, CL_MAP_READ, 0, 5000, 0,
                                                nullptr, nullptr, &error);
        CL_OK(error);
        CHECK(static_cast<unsigned char *>(memory)[4999] == 5);
        event_handle unmapped;
        CL_OK(clEnqueueUnmapMemObject(queue, mapped, memory, 0, nullptr, unmapped.out()));
        ends("an unmapping", unmapped);
        event_handle barrier;
        CL_OK(clEnqueueBarrierWithWaitList(queue, 1, &wait, barrier.out()));
        ends("a barrier for ended commands", barrier);
        event_handle migrated;
        const cl_mem buffers[] = {mapped};
        CL_OK(clEnqueueMigrateMemObjects(queue, 1, buffers, 0, 0, nullptr, migrated.out()));
        ends("a migration", migrated);
        // Migrates a sub-buffer while a command that uses another sub-buffer waits.
        event_handle part_migrated;
        const cl_mem parts[] = {second};
        CL_OK(
            clEnqueueMigrateMemObjects(cl.queues[i], 1, parts, 0, 0, nullptr, part_migrated.out()));
        CL_OK(clFlush(cl.queues[i]));
        complete(part_migrated);
        if (image) {
            cl_event invalidated_event = nullptr;
            std::size_t pitch = 0;
            const std::array<std::size_t, 3> origin{};
            const std::array<std::size_t, 3> region{8, 8, 1};
            void *const pixels = clEnqueueMapImage(
                queue, image, CL_FALSE, CL_MAP_WRITE_INVALIDATE_REGION, origin.data(),
                region.data(), &pitch, nullptr, 0, nullptr, &invalidated_event, &error);
            CL_OK(error);
            const event_handle invalidated(invalidated_event);
            ends("an image's mapping that reads nothing", invalidated);
            CL_OK(clEnqueueUnmapMemObject(queue, image, pixels, 0, nullptr, nullptr));
        }
        CL_OK(clSetUserEventStatus(user, CL_COMPLETE));
        CL_OK(clFinish(queue));
        CL_OK(clFinish(behind));
        expect(cl, waiting, bytes(5000, 9));
        CHECK(read_later == bytes(4096, 1));
    }
}

TEST_CASE("when a marker has ended, the commands that it waited for have ended") {
    setup cl;
    for (std::size_t i = 0; i < cl.count(); ++i) {
        const queue_handle queue = cl.out_of_order(i);
        const buffer_handle buffer = cl.buffer(5000);
        write(queue, buffer, 0, bytes(5000, 3));
        for (int round = 0; round < 300; ++round) {
            event_handle mapped;
            event_handle marker;
            cl_int error = CL_SUCCESS;
            void *const memory = clEnqueueMapBuffer(queue, buffer, CL_FALSE, CL_MAP_READ, 0, 5000,
                                                    0, nullptr, mapped.out(), &error);
            CL_OK(error);
            const cl_event wait = mapped;
            CL_OK(clEnqueueMarkerWithWaitList(queue, 1, &wait, marker.out()));
            CL_OK(clFlush(queue));
            complete(marker);
            CHECK(status_of(mapped) == CL_COMPLETE);
            CL_OK(clEnqueueUnmapMemObject(queue, buffer, memory, 0, nullptr, nullptr));
        }
    }
}

TEST_CASE("the functions of OpenCL 1 order commands") {
    setup cl;
    for (std::size_t i = 0; i < cl.count(); ++i) {
        const queue_handle queue = cl.out_of_order(i);
        const buffer_handle buffer = cl.buffer(900);
        write(cl.queues[0], buffer, 0, bytes(900));
        const event_handle first = add(cl, cl.queues[(i + 1) % cl.count()], buffer, 900, 1);
        const cl_event wait = first;
        if (is_cluster())
            CL_OK(clEnqueueWaitForEvents(queue, 1, &wait));
        else  // PoCL 3.1 lacks this function
            CL_OK(clEnqueueBarrierWithWaitList(queue, 1, &wait, nullptr));
        add(cl, queue, buffer, 900, 2);
        CL_OK(clEnqueueBarrier(queue));
        add(cl, queue, buffer, 900, 4);
        event_handle marker;
        CL_OK(clEnqueueMarker(queue, marker.out()));
        complete(marker);
        expect(cl, buffer, bytes(900, 7));
    }
}

TEST_CASE("profiling times of commands are in order, on local and remote devices") {
    setup cl;
    const buffer_handle buffer = cl.buffer(100000);
    write(cl.queues[0], buffer, 0, bytes(100000));
    for (const queue_handle &queue : cl.queues) {
        cl_ulong last_end = 0;
        for (int n = 0; n < 2; ++n) {
            const event_handle event = add(cl, queue, buffer, 100000, 1);
            complete(event);
            const cl_ulong queued = time_of(event, CL_PROFILING_COMMAND_QUEUED);
            const cl_ulong submitted = time_of(event, CL_PROFILING_COMMAND_SUBMIT);
            const cl_ulong started = time_of(event, CL_PROFILING_COMMAND_START);
            const cl_ulong ended = time_of(event, CL_PROFILING_COMMAND_END);
            CHECK(queued > 0);
            CHECK(queued <= submitted);
            CHECK(submitted <= started);
            CHECK(started <= ended);
            CHECK(last_end <= started);
            last_end = ended;
            check_info_arguments(clGetEventProfilingInfo, CL_PROFILING_COMMAND_END, event.get());
        }
    }
    const setup without(0);
    event_handle event;
    CL_OK(clEnqueueMarkerWithWaitList(without.queues.back(), 0, nullptr, event.out()));
    complete(event);
    cl_ulong time = 0;
    CL_FAILS(CL_PROFILING_INFO_NOT_AVAILABLE,
             clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof time, &time, nullptr));
    const event_handle gate = cl.user_event();
    CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
    CL_FAILS(CL_PROFILING_INFO_NOT_AVAILABLE,
             clGetEventProfilingInfo(gate, CL_PROFILING_COMMAND_END, sizeof time, &time, nullptr));
    CL_FAILS(CL_INVALID_EVENT, clGetEventProfilingInfo(nullptr, CL_PROFILING_COMMAND_END,
                                                       sizeof time, &time, nullptr));
}

TEST_CASE("functions of events refuse invalid arguments") {
    setup cl;
    CL_FAILS_TO_MAKE(CL_INVALID_CONTEXT, clCreateUserEvent(nullptr, &error));
    const event_handle gate = cl.user_event();
    const cl_event wait = gate;
    CL_FAILS(CL_INVALID_VALUE, clSetUserEventStatus(gate, CL_RUNNING));
    CL_FAILS(CL_INVALID_EVENT, clSetUserEventStatus(nullptr, CL_COMPLETE));
    CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
    CL_FAILS(CL_INVALID_OPERATION, clSetUserEventStatus(gate, CL_COMPLETE));
    CL_FAILS(CL_INVALID_VALUE, clWaitForEvents(0, &wait));
    CL_FAILS(CL_INVALID_VALUE, clWaitForEvents(1, nullptr));
    const cl_event none = nullptr;
    CL_FAILS(CL_INVALID_EVENT, clWaitForEvents(1, &none));
    CL_FAILS(CL_INVALID_EVENT, clRetainEvent(nullptr));
    CL_FAILS(CL_INVALID_EVENT, clReleaseEvent(nullptr));
    CL_FAILS(CL_INVALID_EVENT, clGetEventInfo(nullptr, CL_EVENT_CONTEXT, 0, nullptr, nullptr));
    CL_FAILS(CL_INVALID_EVENT, clSetEventCallback(nullptr, CL_COMPLETE, note_call, nullptr));
    CL_FAILS(CL_INVALID_VALUE, clSetEventCallback(gate, CL_COMPLETE, nullptr, nullptr));
    CL_FAILS(CL_INVALID_VALUE, clSetEventCallback(gate, 17, note_call, nullptr));
    for (const queue_handle &queue : cl.queues) {
        event_handle marker;
        CL_OK(clEnqueueMarkerWithWaitList(queue, 0, nullptr, marker.out()));
        CL_FAILS(CL_INVALID_EVENT, clSetUserEventStatus(marker, CL_COMPLETE));
        CL_FAILS(CL_INVALID_EVENT_WAIT_LIST,
                 clEnqueueMarkerWithWaitList(queue, 1, nullptr, nullptr));
        CL_FAILS(CL_INVALID_EVENT_WAIT_LIST, clEnqueueMarkerWithWaitList(queue, 0, &wait, nullptr));
        CL_FAILS(CL_INVALID_EVENT_WAIT_LIST,
                 clEnqueueBarrierWithWaitList(queue, 1, &none, nullptr));
        complete(marker);
    }
    CL_FAILS(CL_INVALID_COMMAND_QUEUE, clEnqueueMarkerWithWaitList(nullptr, 0, nullptr, nullptr));
    CL_FAILS(CL_INVALID_COMMAND_QUEUE, clEnqueueBarrierWithWaitList(nullptr, 0, nullptr, nullptr));
    CL_FAILS(CL_INVALID_VALUE, clEnqueueMarker(cl.queues[0], nullptr));
    const setup other(setup::of::its_own);
    const event_handle foreign = other.user_event();
    CL_OK(clSetUserEventStatus(foreign, CL_COMPLETE));
    const cl_event foreign_wait = foreign;
    CL_FAILS(CL_INVALID_CONTEXT,
             clEnqueueMarkerWithWaitList(cl.queues[0], 1, &foreign_wait, nullptr));
    const std::array<cl_event, 2> both = {gate, foreign};
    CL_FAILS(CL_INVALID_CONTEXT, clWaitForEvents(2, both.data()));
}
