#include "probes.hpp"

#include <sys/resource.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <semaphore>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <mpi.h>

#include "base/child_process.hpp"
#include "cluster/world/device_choice.hpp"
#include "cluster_devices.hpp"
#include "ocl/query.hpp"
#include "pipeline/slot_kernels.hpp"
#include "probe/failed_event.hpp"

namespace cldist::tool {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds child_limit{20};
// The time after which a probe assumes that an action will never happen.
constexpr std::chrono::milliseconds patience{500};

double milliseconds(Clock::duration duration) {
    return std::chrono::duration<double, std::milli>(duration).count();
}

struct Bench {
    explicit Bench(cl_device_id the_device)
        : device(the_device),
          context(
              create("clCreateContext", clCreateContext, nullptr, 1U, &device, nullptr, nullptr)) {}

    [[nodiscard]] Queue queue(cl_command_queue_properties properties = 0) const {
        return create("clCreateCommandQueue", clCreateCommandQueue, context.get(), device,
                      properties);
    }

    [[nodiscard]] Mem buffer(std::size_t size) const {
        return create("clCreateBuffer", clCreateBuffer, context.get(), CL_MEM_READ_WRITE, size,
                      nullptr);
    }

    [[nodiscard]] Event user_event() const {
        return create("clCreateUserEvent", clCreateUserEvent, context.get());
    }

    cl_device_id device;
    Context context;
};

Event fill(const Queue &queue, const Mem &buffer, cl_event wait) {
    const cl_int zero = 0;
    Event event;
    check(clEnqueueFillBuffer(queue.get(), buffer.get(), &zero, sizeof zero, 0, 64,
                              wait == nullptr ? 0 : 1, wait == nullptr ? nullptr : &wait,
                              event.out()),
          "clEnqueueFillBuffer");
    check(clFlush(queue.get()), "clFlush");
    return event;
}

// OpenCL has no wait with a limit, so this polls.
bool completes(const Event &event) {
    for (const auto deadline = Clock::now() + patience; Clock::now() < deadline;
         std::this_thread::sleep_for(std::chrono::milliseconds(1)))
        if (execution_status(event.get()) <= CL_COMPLETE) return true;
    return false;
}

// Whether `other` executes a command while a command in `held` waits for a user event.
bool runs_beside(const Bench &bench, const Queue &held, const Queue &other) {
    const Mem first = bench.buffer(64);
    const Mem second = bench.buffer(64);
    const Event gate = bench.user_event();
    const Event waiting = fill(held, first, gate.get());
    const Event free = fill(other, second, nullptr);
    const bool runs = completes(free);
    clSetUserEventStatus(gate.get(), CL_COMPLETE);
    clFinish(held.get());
    clFinish(other.get());
    return runs;
}

Json probe_user_event(cl_device_id device) {
    const Bench bench(device);
    Json answer{{"other_queue", runs_beside(bench, bench.queue(), bench.queue())}};
    const auto properties =
        query<cl_command_queue_properties>(device, CL_DEVICE_QUEUE_PROPERTIES).value_or(0);
    if ((properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0) {
        const Queue queue = bench.queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
        answer["same_queue"] = runs_beside(bench, queue, queue);
    }
    return answer;
}

Json probe_pageable_copy(cl_device_id device) {
    const Bench bench(device);
    const auto largest = query<cl_ulong>(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE).value_or(0);
    const auto size = static_cast<std::size_t>(std::min<cl_ulong>(largest, 64U << 20U));
    const Queue queue = bench.queue();
    const Mem buffer = bench.buffer(size);
    std::vector<char> memory(size, 1);
    Json answer{{"bytes", size}};
    const auto measure = [&](const char *name, const auto &enqueue) {
        // The shortest of several calls, because the thread may lose its core during a call.
        auto shortest = Clock::duration::max();
        for (int i = 0; i < 5; ++i) {
            const auto start = Clock::now();
            check(enqueue(), name);
            const auto call = Clock::now() - start;
            check(clFinish(queue.get()), "clFinish");
            const auto total = Clock::now() - start;
            if (call >= shortest) continue;
            shortest = call;
            answer[name] = {{"call_ms", milliseconds(call)}, {"total_ms", milliseconds(total)}};
        }
    };
    measure("write", [&] {
        return clEnqueueWriteBuffer(queue.get(), buffer.get(), CL_FALSE, 0, size, memory.data(), 0,
                                    nullptr, nullptr);
    });
    measure("read", [&] {
        return clEnqueueReadBuffer(queue.get(), buffer.get(), CL_FALSE, 0, size, memory.data(), 0,
                                   nullptr, nullptr);
    });
    return answer;
}

/// Set by a callback.
struct Told {
    std::binary_semaphore called{0};
    std::atomic<cl_int> status{CL_COMPLETE};
};

void CL_CALLBACK on_complete(cl_event, cl_int status, void *told) {
    static_cast<Told *>(told)->status = status;
    static_cast<Told *>(told)->called.release();
}

Json probe_error_code(cl_device_id device) {
    constexpr cl_int sent = -1205;
    const Bench bench(device);
    const Queue queue = bench.queue();
    const Event gate = bench.user_event();
    const Mem buffer = bench.buffer(64);
    const Event event = fill(queue, buffer, gate.get());
    auto *const told = new Told;  // never freed, because the callback may come late
    check(clSetEventCallback(event.get(), CL_COMPLETE, &on_complete, told), "clSetEventCallback");
    check(clSetUserEventStatus(gate.get(), sent), "clSetUserEventStatus");
    const bool called = told->called.try_acquire_for(patience);
    Json answer{{"sent", sent}, {"user_event", execution_status(gate.get())}};
    answer["ended"] = completes(event);
    answer["command"] = execution_status(event.get());
    answer["callback"] = called ? Json(told->status.load()) : Json();
    return answer;
}

Json probe_failed_event(cl_device_id device) {
    survive_failed_event(device);
    return {{"survives", true}};
}

Json probe_profiling(cl_device_id device) {
    const Bench bench(device);
    const Queue queue = bench.queue(CL_QUEUE_PROFILING_ENABLE);
    const Mem buffer = bench.buffer(64);
    const Event event = fill(queue, buffer, nullptr);
    const cl_event waited = event.get();
    check(clWaitForEvents(1, &waited), "clWaitForEvents");
    cl_ulong start = 0;
    cl_ulong end = 0;
    check(clGetEventProfilingInfo(event.get(), CL_PROFILING_COMMAND_START, sizeof start, &start,
                                  nullptr),
          "clGetEventProfilingInfo");
    check(clGetEventProfilingInfo(event.get(), CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr),
          "clGetEventProfilingInfo");
    return {{"start", start}, {"end", end}};
}

Json probe_kernels(cl_device_id device) {
    const std::string obstacle = obstacle_to_kernels(device);
    return obstacle.empty() ? Json{{"possible", true}} : Json{{"error", obstacle}};
}

// The same call as in the library.
Json probe_mpi() {
    int level = MPI_THREAD_SINGLE;
    MPI_Init(nullptr, nullptr);
    MPI_Query_thread(&level);
    MPI_Finalize();
    return {{"multiple", level == MPI_THREAD_MULTIPLE}};
}

cl_device_id device_at(DevicePlace place) {
    return cluster::devices_of(all_platforms().at(place.platform)).at(place.device);
}

Json answer_to(const std::string &question, DevicePlace place) {
    static const std::map<std::string, Json (*)(cl_device_id)> probes{
        {"user-event", &probe_user_event}, {"pageable-copy", &probe_pageable_copy},
        {"error-code", &probe_error_code}, {"failed-event", &probe_failed_event},
        {"profiling", &probe_profiling},   {"kernels", &probe_kernels}};
    if (question == "mpi") return probe_mpi();
    if (question == "cluster") return look_as_process(place.platform, place.device);
    return probes.at(question)(device_at(place));
}

}  // namespace

const char *type_text(cl_device_type type) {
    if ((type & CL_DEVICE_TYPE_GPU) != 0) return "GPU";
    if ((type & CL_DEVICE_TYPE_CPU) != 0) return "CPU";
    return (type & CL_DEVICE_TYPE_ACCELERATOR) != 0 ? "accelerator" : "other device";
}

int run_probe(const std::string &question, DevicePlace place) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    Json answer;
    try {
        answer = answer_to(question, place);
    } catch (const std::exception &error) {
        answer = {{"error", error.what()}};
    }
    fmt::print("{}\n", answer.dump());
    std::fflush(stdout);
    std::_Exit(0);  // the probe does not test the platform's own shutdown
}

Answer ask(const std::string &question, DevicePlace place, std::vector<std::string> variables) {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    const ChildEnd end = run_child({self, "probe", question, fmt::format("{}", place.platform),
                                    fmt::format("{}", place.device)},
                                   child_limit, std::move(variables));
    if (end.error != 0)
        return {{}, fmt::format("could not be started: {}", std::strerror(end.error))};
    if (end.timed_out) return {{}, fmt::format("had not ended after {} s", child_limit.count())};
    if (end.signal == SIGALRM) return {{}, "hung"};
    if (end.signal != 0)
        return {{}, fmt::format("died of signal {} ({})", end.signal, strsignal(end.signal))};
    const Json value = Json::parse(end.output, nullptr, false);
    if (end.status != 0 || !value.is_object())
        return {{}, fmt::format("ended with status {}", end.status)};
    if (value.contains("error")) return {{}, value["error"].get<std::string>()};
    return {value, {}};
}

}  // namespace cldist::tool
