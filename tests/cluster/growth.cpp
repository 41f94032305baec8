/// What a program that never calls clFinish leaves behind for each command or object: nothing, on any number of processes,
/// however it waits. And what a read costs: the same however many are open.
#include <malloc.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
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

/// Bytes of the heap that each round leaves: the least of some batches, since what is let go of a little later, or kept up to
/// a limit, is left by some of them only.
double left_by(const std::function<void()> &round) {
    constexpr int rounds = 800;
    constexpr int batches = 6;
    double least = 1e9;
    for (int batch = 0; batch < batches; ++batch) {
        const std::size_t before = heap_in_use();
        for (int i = 0; i < rounds; ++i) round();
        least = std::min(least, (static_cast<double>(heap_in_use()) - static_cast<double>(before)) / rounds);
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

TEST_CASE("reads leave nothing behind in a program that never calls clFinish, however it waits for them") {
    const setup cl(0);
    const buffer_handle buffer = cl.buffer(size);
    cl_command_queue const queue = cl.queues[cl.count() - 1];
    const queue_handle other = cl.out_of_order(cl.count() - 1);
    bytes data(size);
    write(queue, buffer, 0, data);
    const auto start = [&](cl_command_queue on, cl_event *event) {
        REQUIRE(clEnqueueReadBuffer(on, buffer, CL_FALSE, 0, size, data.data(), 0, nullptr, event) == CL_SUCCESS);
    };
    const auto blocking = [&](cl_command_queue on) {
        REQUIRE(clEnqueueReadBuffer(on, buffer, CL_TRUE, 0, size, data.data(), 0, nullptr, nullptr) == CL_SUCCESS);
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
                 REQUIRE(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr) ==
                         CL_SUCCESS);
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
                         [](cl_event, cl_int, void *flag) { *static_cast<std::atomic<bool> *>(flag) = true; },
                         &called) == CL_SUCCESS);
             while (!called) sched_yield();
         }},
        {"a map",
         [&] {
             cl_int code = CL_SUCCESS;
             void *const memory =
                 clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ, 0, size, 0, nullptr, nullptr, &code);
             REQUIRE(code == CL_SUCCESS);
             REQUIRE(clEnqueueUnmapMemObject(queue, buffer, memory, 0, nullptr, nullptr) == CL_SUCCESS);
         }},
        {"a queue of its own", [&] { blocking(cl.queue(cl.count() - 1, 0)); }},
    };
    for (const auto &[name, round] : ways) {
        INFO(std::string(name));
        CHECK(left_by(round) < 100);
    }
}

TEST_CASE("a read costs the same however many are open") {
    const setup cl(0);
    const buffer_handle buffer = cl.buffer(size);
    cl_command_queue const queue = cl.queues[cl.count() - 1];
    write(queue, buffer, 0, bytes(size));
    const auto cost_of = [&](std::size_t reads) {
        std::vector<unsigned char> data(reads);
        const double before = cpu_seconds();
        for (std::size_t i = 0; i < reads; ++i)
            REQUIRE(clEnqueueReadBuffer(queue, buffer, CL_FALSE, 0, 1, &data[i], 0, nullptr, nullptr) == CL_SUCCESS);
        REQUIRE(clFinish(queue) == CL_SUCCESS);
        return (cpu_seconds() - before) / static_cast<double>(reads);
    };
    cost_of(2000);
    const double few = cost_of(2000);
    // It was 20 times as much.
    CHECK(cost_of(40000) < 6 * few);
}
