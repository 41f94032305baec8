// Plain OpenCL programs that only one process of a job can run, because they use several threads or
// random calls. The first argument selects the program.
#include <CL/cl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "plain_opencl.hpp"
#include "tested_platform.hpp"

namespace {

using cldist_test::check;
#define CHECKED(call) check(call, #call)

void require(bool right, const char *what) {
    if (right) return;
    std::fprintf(stderr, "WRONG: %s\n", what);
    std::_Exit(9);
}

const char *const source = R"(
kernel void add(global uint *data, uint value) { data[get_global_id(0)] += value; }
kernel void sum(global const uint *data, global ulong *result, uint count) {
    ulong all = 0;
    for (uint i = 0; i < count; ++i) all += data[i] * (ulong)(i + 1);
    *result = all;
}
)";

struct Platform {
    std::vector<cl_device_id> devices;
    cl_context context = nullptr;
    cl_program program = nullptr;

    Platform() {
        cl_platform_id platform = cluster_test::tested_platform();
        cl_uint count = 0;
        CHECKED(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count));
        devices.resize(count);
        CHECKED(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr));
        cl_int code = CL_SUCCESS;
        context = clCreateContext(nullptr, count, devices.data(), nullptr, nullptr, &code);
        check(code, "clCreateContext");
        const char *text = source;
        program = clCreateProgramWithSource(context, 1, &text, nullptr, &code);
        check(code, "clCreateProgramWithSource");
        CHECKED(clBuildProgram(program, 0, nullptr, "", nullptr, nullptr));
    }
    ~Platform() {
        clReleaseProgram(program);
        clReleaseContext(context);
    }
    [[nodiscard]] cl_command_queue queue(std::size_t device,
                                         cl_command_queue_properties properties = 0) const {
        cl_int code = CL_SUCCESS;
        const cl_command_queue made =
            clCreateCommandQueue(context, devices[device % devices.size()], properties, &code);
        check(code, "clCreateCommandQueue");
        return made;
    }
    [[nodiscard]] cl_mem buffer(std::size_t size, void *contents = nullptr) const {
        cl_int code = CL_SUCCESS;
        const cl_mem made =
            clCreateBuffer(context, contents != nullptr ? CL_MEM_COPY_HOST_PTR : CL_MEM_READ_WRITE,
                           size, contents, &code);
        check(code, "clCreateBuffer");
        return made;
    }
    [[nodiscard]] cl_kernel kernel(const char *name) const {
        cl_int code = CL_SUCCESS;
        const cl_kernel made = clCreateKernel(program, name, &code);
        check(code, "clCreateKernel");
        return made;
    }
};

cl_int status_of(cl_event event) {
    cl_int status = CL_QUEUED;
    CHECKED(
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr));
    return status;
}

void CL_CALLBACK note(cl_event, cl_int, void *flag) {
    *static_cast<std::atomic<bool> *>(flag) = true;
}

/// Executes random commands of any device on a buffer and keeps the expected contents. Each command
/// ends before the next one starts, unless a queue orders them.
class Worker {
public:
    Worker(const Platform &platform, unsigned seed)
        : platform_(platform), random_(seed), wanted_(count) {
        std::iota(wanted_.begin(), wanted_.end(), seed);
        buffer_ = platform.buffer(bytes, wanted_.data());
        kernel_ = platform.kernel("add");
    }
    ~Worker() {
        clReleaseKernel(kernel_);
        clReleaseMemObject(buffer_);
    }

    void run(int rounds) {
        for (int round = 0; round < rounds; ++round) {
            const cl_command_queue queue = platform_.queue(random_(), CL_QUEUE_PROFILING_ENABLE);
            const unsigned commands = random_() % 6;
            for (unsigned i = 0; i <= commands; ++i) command(queue);
            wait(queue);
            expect(queue);
            clReleaseCommandQueue(queue);
        }
    }

private:
    static constexpr std::size_t count = 3000;
    static constexpr std::size_t bytes = count * sizeof(cl_uint);

    void command(cl_command_queue queue) {
        const std::size_t at = random_() % count;
        const std::size_t some = 1 + random_() % (count - at);
        const auto value = static_cast<cl_uint>(random_());
        switch (random_() % 6) {
            case 0: {
                const std::vector<cl_uint> values(some, value);
                CHECKED(clEnqueueWriteBuffer(queue, buffer_, CL_TRUE, at * 4, some * 4,
                                             values.data(), 0, nullptr, nullptr));
                std::copy(values.begin(), values.end(),
                          wanted_.begin() + static_cast<std::ptrdiff_t>(at));
                return;
            }
            case 1: {
                CHECKED(clEnqueueFillBuffer(queue, buffer_, &value, 4, at * 4, some * 4, 0, nullptr,
                                            nullptr));
                std::fill_n(wanted_.begin() + static_cast<std::ptrdiff_t>(at), some, value);
                return;
            }
            case 2: {
                cl_int code = CL_SUCCESS;
                auto *const mapped = static_cast<cl_uint *>(
                    clEnqueueMapBuffer(queue, buffer_, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, at * 4,
                                       some * 4, 0, nullptr, nullptr, &code));
                check(code, "clEnqueueMapBuffer");
                require(std::equal(mapped, mapped + some,
                                   wanted_.begin() + static_cast<std::ptrdiff_t>(at)),
                        "what is mapped");
                mapped[0] = wanted_[at] = value;
                CHECKED(clEnqueueUnmapMemObject(queue, buffer_, mapped, 0, nullptr, nullptr));
                return;
            }
            case 3: {  // after a user event that another thread sets
                cl_int code = CL_SUCCESS;
                const cl_event gate = clCreateUserEvent(platform_.context, &code);
                check(code, "clCreateUserEvent");
                add(queue, value, {gate});
                CHECKED(clFlush(queue));
                std::thread setter([gate] { CHECKED(clSetUserEventStatus(gate, CL_COMPLETE)); });
                CHECKED(clFinish(queue));
                setter.join();
                clReleaseEvent(gate);
                return;
            }
            default: add(queue, value, {}); return;
        }
    }
    void add(cl_command_queue queue, cl_uint value, const std::vector<cl_event> &waits) {
        CHECKED(clSetKernelArg(kernel_, 0, sizeof buffer_, &buffer_));
        CHECKED(clSetKernelArg(kernel_, 1, sizeof value, &value));
        CHECKED(clEnqueueNDRangeKernel(queue, kernel_, 1, nullptr, &count, nullptr,
                                       static_cast<cl_uint>(waits.size()),
                                       waits.empty() ? nullptr : waits.data(), nullptr));
        for (cl_uint &each : wanted_) each += value;
    }
    void wait(cl_command_queue queue) {
        cl_event event = nullptr;
        switch (random_() % 4) {
            case 0: CHECKED(clFinish(queue)); return;
            case 1: {
                CHECKED(clEnqueueMarkerWithWaitList(queue, 0, nullptr, &event));
                CHECKED(clWaitForEvents(1, &event));
                require(status_of(event) == CL_COMPLETE, "the status of an event after its wait");
                cl_ulong end = 0;
                CHECKED(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end,
                                                nullptr));
                break;
            }
            case 2:
                CHECKED(clEnqueueMarkerWithWaitList(queue, 0, nullptr, &event));
                CHECKED(clFlush(queue));
                while (status_of(event) > CL_COMPLETE) std::this_thread::yield();
                break;
            default: {
                CHECKED(clEnqueueMarkerWithWaitList(queue, 0, nullptr, &event));
                std::atomic<bool> called = false;
                CHECKED(clSetEventCallback(event, CL_COMPLETE, note, &called));
                CHECKED(clFlush(queue));
                while (!called) std::this_thread::yield();
            }
        }
        clReleaseEvent(event);
    }
    void expect(cl_command_queue queue) {
        std::vector<cl_uint> found(count);
        CHECKED(clEnqueueReadBuffer(queue, buffer_, CL_TRUE, 0, bytes, found.data(), 0, nullptr,
                                    nullptr));
        require(found == wanted_, "what is read");
    }

    const Platform &platform_;
    std::minstd_rand random_;
    std::vector<cl_uint> wanted_;
    cl_mem buffer_;
    cl_kernel kernel_;
};

int run_threads(int threads, int rounds) {
    const Platform platform;
    std::vector<std::thread> all;
    const unsigned seed = std::random_device()();
    for (int i = 0; i < threads; ++i)
        all.emplace_back([&platform, seed, rounds, i] {
            Worker(platform, seed + static_cast<unsigned>(i)).run(rounds);
        });
    for (std::thread &thread : all) thread.join();
    std::puts("all threads found their expected data");
    return 0;
}

/// Sums up an array in random parts on random devices, with a random number of status queries.
int run_by_chance() {
    const Platform platform;
    std::random_device chance;
    std::vector<cl_uint> data(100'000);
    std::iota(data.begin(), data.end(), 7U);
    unsigned long long all = 0;
    for (std::size_t begin = 0; begin < data.size();) {
        const auto now =
            static_cast<std::size_t>(std::chrono::steady_clock::now().time_since_epoch().count());
        const std::size_t count = std::min(data.size() - begin, 1 + (chance() + now) % 40'000);
        const cl_command_queue queue = platform.queue(chance());
        const cl_mem part = platform.buffer(count * sizeof(cl_uint), data.data() + begin);
        const cl_mem result = platform.buffer(sizeof(cl_ulong));
        const cl_kernel kernel = platform.kernel("sum");
        const auto size = static_cast<cl_uint>(count);
        CHECKED(clSetKernelArg(kernel, 0, sizeof part, &part));
        CHECKED(clSetKernelArg(kernel, 1, sizeof result, &result));
        CHECKED(clSetKernelArg(kernel, 2, sizeof size, &size));
        const std::size_t one = 1;
        cl_event event = nullptr;
        CHECKED(
            clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &one, nullptr, 0, nullptr, &event));
        CHECKED(clFlush(queue));
        for (unsigned i = chance() % 100; i > 0 && status_of(event) > CL_COMPLETE;) --i;
        cl_ulong sum = 0;
        CHECKED(
            clEnqueueReadBuffer(queue, result, CL_TRUE, 0, sizeof sum, &sum, 1, &event, nullptr));
        all += sum + begin * std::accumulate(
                                 data.begin() + static_cast<std::ptrdiff_t>(begin),
                                 data.begin() + static_cast<std::ptrdiff_t>(begin + count), 0ULL);
        clReleaseEvent(event);
        clReleaseKernel(kernel);
        clReleaseMemObject(result);
        clReleaseMemObject(part);
        clReleaseCommandQueue(queue);
        begin += count;
    }
    std::fprintf(stderr, "the sum is %llu\n", all);
    return 0;
}

/// Threads continue to call OpenCL while main returns, or while one of them calls exit().
int run_ending(bool by_exit) {
    auto *const platform = new Platform;
    for (unsigned i = 0; i < 4; ++i)
        std::thread([platform, i] { Worker(*platform, i).run(1'000'000); }).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(std::random_device()() % 300));
    if (!by_exit) return 0;
    cl_int code = CL_SUCCESS;
    const cl_event never = clCreateUserEvent(platform->context, &code);
    const cl_command_queue queue = platform->queue(platform->devices.size() - 1);
    CHECKED(clEnqueueMarkerWithWaitList(queue, 1, &never, nullptr));
    std::thread([] { std::exit(3); }).detach();
    clFinish(queue);
    for (;;) pause();
}

/// A thread continues to build programs while main returns.
int end_building() {
    auto *const platform = new Platform;
    auto *const builds = new std::atomic<unsigned>(0);
    std::thread([platform, builds] {
        for (;; ++*builds, builds->notify_all()) {
            // A new name, so that the program is not in the driver's cache.
            const std::string name = "k" + std::to_string(getpid()) + "_" + std::to_string(*builds);
            const std::string text =
                "kernel void " + name + "(global uint *data) { data[get_global_id(0)] += 1; }";
            const char *pointer = text.c_str();
            cl_int code = CL_SUCCESS;
            const cl_program program =
                clCreateProgramWithSource(platform->context, 1, &pointer, nullptr, &code);
            check(code, "clCreateProgramWithSource");
            const cl_int built =
                clBuildProgram(program, 1, platform->devices.data(), "", nullptr, nullptr);
            // The program has ended, so calls that need other processes fail.
            if (built != CL_OUT_OF_RESOURCES) check(built, "clBuildProgram");
            clReleaseProgram(program);
        }
    }).detach();
    builds->wait(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(std::random_device()() % 100));
    return 0;
}

/// While one thread is in clFinish, another thread enqueues a command. If an earlier command of the
/// queue fails, the new command may fail too, but must then leave its output unchanged.
int fail_while_finishing() {
    const Platform platform;
    const cl_command_queue first = platform.queue(0);
    const cl_command_queue last = platform.queue(platform.devices.size() - 1);
    const cl_mem buffer = platform.buffer(4096);
    const cl_mem other = platform.buffer(4096);
    const auto fill = [](cl_command_queue queue, cl_mem memory, cl_uint value, const cl_event *wait,
                         cl_event *event) {
        CHECKED(clEnqueueFillBuffer(queue, memory, &value, sizeof value, 0, 4096,
                                    wait != nullptr ? 1 : 0, wait, event));
        CHECKED(clFlush(queue));
    };
    for (cl_uint round = 0; round < 100; ++round) {
        cl_int code = CL_SUCCESS;
        const cl_event user = clCreateUserEvent(platform.context, &code);
        check(code, "clCreateUserEvent");
        fill(last, other, round, &user, nullptr);
        std::thread finishing([&] { CHECKED(clFinish(last)); });
        // By then, clFinish usually waits. The bytes must be right in any case.
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        std::array<cl_event, 2> filled{};
        fill(first, buffer, 2 * round, nullptr, &filled[0]);
        fill(last, buffer, 2 * round + 1, &filled[0], &filled[1]);
        CHECKED(clSetUserEventStatus(user, -5));
        CHECKED(clWaitForEvents(1, &filled[0]));
        const bool failed = clWaitForEvents(1, &filled[1]) != CL_SUCCESS;
        finishing.join();
        cl_uint found = 0;
        CHECKED(clEnqueueReadBuffer(first, buffer, CL_TRUE, 0, sizeof found, &found, 0, nullptr,
                                    nullptr));
        require(found == 2 * round + (failed ? 0 : 1), "the output of a failed command");
        for (const cl_event event : filled) CHECKED(clReleaseEvent(event));
        CHECKED(clReleaseEvent(user));
    }
    return 0;
}

/// A command whose end time is available must have ended.
int ask_for_times() {
    const Platform platform;
    const cl_command_queue queue =
        platform.queue(platform.devices.size() - 1, CL_QUEUE_PROFILING_ENABLE);
    constexpr std::size_t size = 65536;
    std::array<cl_mem, 16> buffers{};
    for (cl_mem &buffer : buffers) buffer = platform.buffer(size);
    std::array<std::vector<cl_uint>, 16> found;
    found.fill(std::vector<cl_uint>(size / sizeof(cl_uint)));
    for (cl_uint round = 0; round < 100; ++round) {
        std::array<cl_event, 16> events{};
        for (std::size_t i = 0; i < buffers.size(); ++i) {
            CHECKED(clEnqueueFillBuffer(queue, buffers[i], &round, sizeof round, 0, size, 0,
                                        nullptr, nullptr));
            CHECKED(clEnqueueReadBuffer(queue, buffers[i], CL_FALSE, 0, size, found[i].data(), 0,
                                        nullptr, &events[i]));
        }
        CHECKED(clFlush(queue));
        for (std::size_t i = 0; i < buffers.size(); ++i) {
            cl_ulong time = 0;
            while (clGetEventProfilingInfo(events[i], CL_PROFILING_COMMAND_END, sizeof time, &time,
                                           nullptr) != CL_SUCCESS)
                std::this_thread::yield();
            require(status_of(events[i]) == CL_COMPLETE,
                    "the status of a command with an end time");
            require(found[i].back() == round, "what was read");
            CHECKED(clReleaseEvent(events[i]));
        }
    }
    return 0;
}

/// Launches a kernel in each of two threads.
int launch_together() {
    const Platform platform;
    const auto launch = [&](cl_uint value) {
        const cl_command_queue queue = platform.queue(0);
        cl_uint data = 1;
        const cl_mem buffer = platform.buffer(sizeof data, &data);
        cl_int code = CL_SUCCESS;
        const cl_kernel add = clCreateKernel(platform.program, "add", &code);
        check(code, "clCreateKernel");
        CHECKED(clSetKernelArg(add, 0, sizeof buffer, &buffer));
        CHECKED(clSetKernelArg(add, 1, sizeof value, &value));
        const std::size_t one = 1;
        CHECKED(clEnqueueNDRangeKernel(queue, add, 1, nullptr, &one, nullptr, 0, nullptr, nullptr));
        CHECKED(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof data, &data, 0, nullptr,
                                    nullptr));
        require(data == value + 1, "the sum");
        CHECKED(clReleaseKernel(add));
        CHECKED(clReleaseMemObject(buffer));
        CHECKED(clReleaseCommandQueue(queue));
    };
    std::thread other(launch, 10);
    launch(20);
    other.join();
    return 0;
}

/// Maps a buffer, or reads it to rows with gaps, with more bytes than the process may have.
int use_too_much_memory(bool maps) {
    constexpr std::size_t size = std::size_t{600} << 20U;
    constexpr std::size_t row = std::size_t{1} << 20U;
    constexpr std::size_t pitch = row + 4096;  // bytes; the rows in host memory have gaps
    const std::vector<std::byte> memory(maps ? 0 : size / row * pitch);
    const Platform platform;
    const cl_command_queue queue = platform.queue(platform.devices.size() - 1);
    const cl_mem buffer = platform.buffer(size);
    const cl_uint zero = 0;
    CHECKED(clEnqueueFillBuffer(queue, buffer, &zero, sizeof zero, 0, size, 0, nullptr, nullptr));
    CHECKED(clFinish(queue));
    rlimit limit{};
    std::size_t pages = 0;
    std::FILE *const used = std::fopen("/proc/self/statm", "r");
    require(used != nullptr && std::fscanf(used, "%zu", &pages) == 1, "/proc/self/statm");
    std::fclose(used);
    limit.rlim_cur = limit.rlim_max =
        pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + size / 2;
    require(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
    cl_int code = CL_SUCCESS;
    const std::size_t origin[3] = {};
    const std::size_t region[3] = {row, size / row, 1};
    if (maps)
        clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ, 0, size, 0, nullptr, nullptr,
                           &code);
    else
        code =
            clEnqueueReadBufferRect(queue, buffer, CL_TRUE, origin, origin, region, row, 0, pitch,
                                    0, const_cast<std::byte *>(memory.data()), 0, nullptr, nullptr);
    std::fprintf(stderr, "the call returned %d\n", code);
    return 0;
}

/// Makes calls forever.
int run_on() {
    const Platform platform;
    const cl_command_queue queue = platform.queue(platform.devices.size() - 1);
    const cl_mem buffer = platform.buffer(64);
    const cl_uint zero = 0;
    std::fprintf(stderr, "runs\n");
    for (;;) {
        for (int i = 0; i < 100; ++i)
            CHECKED(
                clEnqueueFillBuffer(queue, buffer, &zero, sizeof zero, 0, 64, 0, nullptr, nullptr));
        CHECKED(clFlush(queue));
    }
}

/// Enqueues writes of 1 GiB to the last device behind launches, and reads the result of the last
/// write. Then makes calls forever.
int write_ahead() {
    constexpr std::size_t size = std::size_t{64} << 20U;
    const Platform platform;
    const cl_command_queue queue = platform.queue(platform.devices.size() - 1);
    const cl_mem buffer = platform.buffer(size);
    std::vector<std::vector<cl_uint>> data(3, std::vector<cl_uint>(size / sizeof(cl_uint)));
    for (cl_uint i = 0; i < data.size(); ++i) std::iota(data[i].begin(), data[i].end(), i);
    CHECKED(
        clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, size, data[0].data(), 0, nullptr, nullptr));
    std::fprintf(stderr, "runs\n");
    // The writes wait longer than their bytes need to arrive.
    const cl_mem result = platform.buffer(sizeof(cl_ulong));
    const cl_kernel sum = platform.kernel("sum");
    const auto count = static_cast<cl_uint>(size / sizeof(cl_uint));
    CHECKED(clSetKernelArg(sum, 0, sizeof buffer, &buffer));
    CHECKED(clSetKernelArg(sum, 1, sizeof result, &result));
    CHECKED(clSetKernelArg(sum, 2, sizeof count, &count));
    const std::size_t one = 1;
    for (int i = 0; i < 100; ++i)
        CHECKED(clEnqueueNDRangeKernel(queue, sum, 1, nullptr, &one, nullptr, 0, nullptr, nullptr));
    for (std::size_t i = 0; i < 16; ++i)
        CHECKED(clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, size, data[i % 3].data(), 0,
                                     nullptr, nullptr));
    CHECKED(clFlush(queue));
    CHECKED(clReleaseKernel(sum));
    CHECKED(clReleaseMemObject(result));
    std::vector<cl_uint> found(size / sizeof(cl_uint));
    CHECKED(
        clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, size, found.data(), 0, nullptr, nullptr));
    require(found == data[0], "the last bytes");
    std::fprintf(stderr, "done\n");
    CHECKED(clReleaseMemObject(buffer));
    CHECKED(clReleaseCommandQueue(queue));
    return run_on();
}

/// Enqueues writes of 1 GiB to one buffer in two queues behind a user event. The order of the
/// writes is undefined.
int write_ahead_by_two_queues() {
    constexpr std::size_t size = std::size_t{64} << 20U;
    const Platform platform;
    const std::size_t last = platform.devices.size() - 1;
    const std::array queues{platform.queue(last), platform.queue(last)};
    const cl_mem buffer = platform.buffer(size);
    const std::vector<char> data(size, 'x');
    cl_int code = CL_SUCCESS;
    const cl_event gate = clCreateUserEvent(platform.context, &code);
    check(code, "clCreateUserEvent");
    for (std::size_t i = 0; i < 16; ++i)
        CHECKED(clEnqueueWriteBuffer(queues.at(i % 2), buffer, CL_FALSE, 0, size, data.data(), 1,
                                     &gate, nullptr));
    CHECKED(clSetUserEventStatus(gate, CL_COMPLETE));
    for (const cl_command_queue queue : queues) CHECKED(clFinish(queue));
    std::vector<char> found(size);
    CHECKED(clEnqueueReadBuffer(queues[0], buffer, CL_TRUE, 0, size, found.data(), 0, nullptr,
                                nullptr));
    require(found == data, "the bytes");
    CHECKED(clReleaseEvent(gate));
    CHECKED(clReleaseMemObject(buffer));
    for (const cl_command_queue queue : queues) CHECKED(clReleaseCommandQueue(queue));
    return 0;
}

}  // namespace

int main(int, char **argv) {
    const std::string what = argv[1] != nullptr ? argv[1] : "";
    if (what == "threads") return run_threads(8, 12);
    if (what == "chance") return run_by_chance();
    if (what == "launches-together") return launch_together();
    if (what == "maps-too-much") return use_too_much_memory(true);
    if (what == "reads-too-much") return use_too_much_memory(false);
    if (what == "ends-calling") return run_ending(false);
    if (what == "exits-waiting") return run_ending(true);
    if (what == "ends-building") return end_building();
    if (what == "fails-while-finishing") return fail_while_finishing();
    if (what == "asks-for-times") return ask_for_times();
    if (what == "runs-on") return run_on();
    if (what == "writes-ahead") return write_ahead();
    if (what == "writes-ahead-by-two-queues") return write_ahead_by_two_queues();
    if (what == "leaves-at-once") {
        const Platform platform;
        _exit(0);
    }
    return 2;
}
