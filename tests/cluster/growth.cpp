/// No command or object may leave memory behind, even if the program never calls clFinish, on any
/// number of processes and with any kind of wait. Also checks that the cost of a read does not grow
/// with the number of open reads.
#include <malloc.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <functional>

#include "fixture.hpp"

using namespace cluster_test;

namespace {

constexpr std::size_t size = 64;

std::size_t heap_in_use() {
    const auto info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/// Heap growth per round, in bytes: the minimum of several batches, because caches and delayed
/// releases affect only some of them.
double left_by(const std::function<void()> &round) {
    constexpr int rounds = 800;
    constexpr int batches = 6;
    double least = 1e9;
    for (int batch = 0; batch < batches; ++batch) {
        const std::size_t before = heap_in_use();
        for (int i = 0; i < rounds; ++i) round();
        least = std::min(
            least, (static_cast<double>(heap_in_use()) - static_cast<double>(before)) / rounds);
    }
    return least;
}

double cpu_seconds() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void wait_for_end(cl_event event) { REQUIRE(clWaitForEvents(1, &event) == CL_SUCCESS); }

}  // namespace

TEST_CASE(
    "reads leave no memory behind in a program that never calls clFinish, however it waits for "
    "them") {
    const setup cl(0);
    const buffer_handle buffer = cl.buffer(size);
    cl_command_queue const queue = cl.queues[cl.count() - 1];
    const queue_handle other = cl.out_of_order(cl.count() - 1);
    bytes data(size);
    write(queue, buffer, 0, data);
    const auto start = [&](cl_command_queue on, cl_event *event) {
        REQUIRE(clEnqueueReadBuffer(on, buffer, CL_FALSE, 0, size, data.data(), 0, nullptr,
                                    event) == CL_SUCCESS);
    };
    const auto blocking = [&](cl_command_queue on) {
        REQUIRE(clEnqueueReadBuffer(on, buffer, CL_TRUE, 0, size, data.data(), 0, nullptr,
                                    nullptr) == CL_SUCCESS);
    };
    const std::vector<std::pair<const char *, std::function<void()>>> ways = {
        {"blocking", [&] { blocking(queue); }},
        {"blocking, out of order", [&] { blocking(other); }},
        {"an event",
         [&] {
             event_handle event;
             start(queue, event.out());
             wait_for_end(event);
         }},
        {"polling",
         [&] {
             event_handle event;
             start(queue, event.out());
             cl_int status = CL_QUEUED;
             while (status > CL_COMPLETE)
                 REQUIRE(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status,
                                        &status, nullptr) == CL_SUCCESS);
         }},
        {"a marker",
         [&] {
             start(queue, nullptr);
             event_handle event;
             REQUIRE(clEnqueueMarkerWithWaitList(queue, 0, nullptr, event.out()) == CL_SUCCESS);
             wait_for_end(event);
         }},
        {"a callback",
         [&] {
             event_handle event;
             start(queue, event.out());
             std::atomic<bool> called = false;
             REQUIRE(clSetEventCallback(
                         event, CL_COMPLETE,
                         [](cl_event, cl_int, void *flag) {
                             *static_cast<std::atomic<bool> *>(flag) = true;
                         },
                         &called) == CL_SUCCESS);
             while (!called) sched_yield();
         }},
        {"a map",
         [&] {
             cl_int code = CL_SUCCESS;
             void *const memory = clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ, 0, size,
                                                     0, nullptr, nullptr, &code);
             REQUIRE(code == CL_SUCCESS);
             REQUIRE(clEnqueueUnmapMemObject(queue, buffer, memory, 0, nullptr, nullptr) ==
                     CL_SUCCESS);
         }},
        {"a new queue for each read", [&] { blocking(cl.queue(cl.count() - 1, 0)); }},
    };
    for (const auto &[name, round] : ways) {
        INFO(std::string(name));
        CHECK(left_by(round) < 100);
    }
}

TEST_CASE("many objects and open commands of each kind at a time leave no memory behind") {
    const char *const asked = std::getenv("CLDIST_TEST_OBJECTS");
    const std::size_t count = asked != nullptr ? std::strtoul(asked, nullptr, 10) : 2000;
    setup cl(0);
    const buffer_handle buffer = cl.buffer(size);
    cl_command_queue const queue = cl.queues[cl.count() - 1];
    const queue_handle other = cl.out_of_order(cl.count() - 1);
    write(queue, buffer, 0, bytes(size));
    const kernel_handle add = cl.kernel("add");
    cl_program program = nullptr;
    REQUIRE(clGetKernelInfo(add, CL_KERNEL_PROGRAM, sizeof program, &program, nullptr) ==
            CL_SUCCESS);
    const char *source = "kernel void nothing() {}";
    bytes data(count);
    cl_int code = CL_SUCCESS;
    const auto all = [&](auto make, auto release) {
        return [=, &code] {
            std::vector<decltype(make())> made(count);
            for (auto &each : made) {
                each = make();
                REQUIRE(code == CL_SUCCESS);
            }
            for (auto &each : made) REQUIRE(release(each) == CL_SUCCESS);
        };
    };
    // Reads that start only when all of them are enqueued.
    const auto behind_a_gate = [&](cl_command_queue on, bool with_events) {
        return [&, on, with_events] {
            const event_handle gate = cl.user_event();
            const cl_event first = gate.get();
            REQUIRE(clEnqueueMarkerWithWaitList(on, 1, &first, nullptr) == CL_SUCCESS);
            std::vector<event_handle> events(with_events ? count : 0);
            for (std::size_t i = 0; i < count; ++i)
                REQUIRE(clEnqueueReadBuffer(on, buffer, CL_FALSE, 0, 1, &data[i],
                                            on == other.get() ? 1 : 0,
                                            on == other.get() ? &first : nullptr,
                                            with_events ? events[i].out() : nullptr) == CL_SUCCESS);
            REQUIRE(clSetUserEventStatus(gate, CL_COMPLETE) == CL_SUCCESS);
            REQUIRE(clFinish(on) == CL_SUCCESS);
        };
    };
    const std::vector<std::pair<const char *, std::function<void()>>> kinds = {
        {"buffers",
         all([&] { return clCreateBuffer(cl.context, CL_MEM_READ_WRITE, size, nullptr, &code); },
             clReleaseMemObject)},
        {"buffers with contents", all(
                                      [&] {
                                          return clCreateBuffer(cl.context, CL_MEM_COPY_HOST_PTR, 1,
                                                                data.data(), &code);
                                      },
                                      clReleaseMemObject)},
        {"queues", all([&] { return clCreateCommandQueue(cl.context, devices().back(), 0, &code); },
                       clReleaseCommandQueue)},
        {"programs",
         all([&] { return clCreateProgramWithSource(cl.context, 1, &source, nullptr, &code); },
             clReleaseProgram)},
        {"kernels", all([&] { return clCreateKernel(program, "add", &code); }, clReleaseKernel)},
        {"user events", all([&] { return clCreateUserEvent(cl.context, &code); },
                            [](cl_event event) {
                                clSetUserEventStatus(event, CL_COMPLETE);
                                return clReleaseEvent(event);
                            })},
        {"markers", all(
                        [&] {
                            cl_event event = nullptr;
                            code = clEnqueueMarkerWithWaitList(queue, 0, nullptr, &event);
                            return event;
                        },
                        clReleaseEvent)},
        {"reads behind a user event", behind_a_gate(queue, false)},
        {"reads with events behind a user event", behind_a_gate(queue, true)},
        {"reads with events behind a user event, out of order", behind_a_gate(other, true)},
    };
    for (const auto &[name, round] : kinds) {
        INFO(std::string(name));
        // Other threads also allocate some memory, which matters if there are few objects.
        const double most = count < 100000 ? 64 : 4;
        // The first rounds fill caches, and the library's threads may release memory late if they
        // wait for a core. A real leak grows in every round. All processes run 10 rounds.
        double least = 1e9;
        for (int i = 0; i < 10; ++i) {
            const std::size_t before = heap_in_use();
            round();
            REQUIRE(clFinish(queue) == CL_SUCCESS);
            const double left = static_cast<double>(heap_in_use()) - static_cast<double>(before);
            if (i > 0) least = std::min(least, left / static_cast<double>(count));
        }
        CHECK(least < most);
    }
}

TEST_CASE("launches with many different arguments leave little memory behind") {
    const setup cl(0);
    constexpr std::size_t sizes[] = {2048, 16};
    constexpr std::size_t groups[] = {64, 1};
    constexpr cl_int launches = 800;
    const buffer_handle buffer = cl.buffer(sizes[0] * sizes[1] + launches);
    cl_command_queue const queue = cl.queues[0];
    // On the single virtual device, each sub-range writes a piece of each of the 2048 rows.
    const program_handle program = cl.program(
        "kernel void shifted(global uchar *out, int by) {\n"
        "    out[get_global_id(0) * 16 + get_global_id(1) + by] = by;\n"
        "}\n");
    const kernel_handle kernel = cl.kernel(program, "shifted");
    const cl_mem memory = buffer;
    REQUIRE(clSetKernelArg(kernel, 0, sizeof memory, &memory) == CL_SUCCESS);
    std::size_t before = 0;
    for (cl_int by = 0; by < launches; ++by) {
        if (by == launches / 2) before = heap_in_use();
        REQUIRE(clSetKernelArg(kernel, 1, sizeof by, &by) == CL_SUCCESS);
        REQUIRE(clEnqueueNDRangeKernel(queue, kernel, 2, nullptr, sizes, groups, 0, nullptr,
                                       nullptr) == CL_SUCCESS);
        REQUIRE(clFinish(queue) == CL_SUCCESS);
    }
    CHECK(static_cast<double>(heap_in_use()) - static_cast<double>(before) < 100e6);
}

// This case is the last one: its records of ended reads, up to twice the number that were open at
// once, would look like a leak in the others.
TEST_CASE("the cost of a read does not grow with the number of open reads") {
    const setup cl(0);
    const buffer_handle buffer = cl.buffer(size);
    cl_command_queue const queue = cl.queues[cl.count() - 1];
    write(queue, buffer, 0, bytes(size));
    const auto cost_of = [&](std::size_t reads) {
        std::vector<unsigned char> data(reads);
        const double before = cpu_seconds();
        for (std::size_t i = 0; i < reads; ++i)
            REQUIRE(clEnqueueReadBuffer(queue, buffer, CL_FALSE, 0, 1, &data[i], 0, nullptr,
                                        nullptr) == CL_SUCCESS);
        REQUIRE(clFinish(queue) == CL_SUCCESS);
        return (cpu_seconds() - before) / static_cast<double>(reads);
    };
    cost_of(2000);
    const double few = cost_of(2000);
    // With a linear search, a read would cost 20 times as much.
    CHECK(cost_of(40000) < 6 * few);
}
