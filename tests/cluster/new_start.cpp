// Plain OpenCL programs that cannot run in every process, for the tests of `cldist run`. Each
// argument is a step.
#include <CL/cl.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>
#include <wordexp.h>

#include <array>
#include <barrier>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "plain_opencl.hpp"

namespace {

using cldist_test::all_devices;
using cldist_test::check;

std::size_t rank_of_process() {
    for (const char *const name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"})
        if (const char *const rank = std::getenv(name))
            return static_cast<std::size_t>(std::atoi(rank));
    return 0;
}

struct Context {
    explicit Context(const std::vector<cl_device_id> &devices) {
        cl_int code = CL_SUCCESS;
        value = clCreateContext(nullptr, static_cast<cl_uint>(devices.size()), devices.data(),
                                nullptr, nullptr, &code);
        check(code, "clCreateContext");
    }
    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;
    ~Context() { clReleaseContext(value); }
    cl_context value = nullptr;
};

// Creates objects and runs a kernel on `size` items. The size is an argument of some calls, so
// different sizes are different calls. Returns whether the results are right.
bool use(cl_context context, cl_device_id device, std::size_t size) {
    cl_int code = CL_SUCCESS;
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    check(code, "clCreateCommandQueue");
    const char *source =
        "kernel void k(global int *a) { a[get_global_id(0)] = 3 * get_global_id(0); }";
    cl_program program = clCreateProgramWithSource(context, 1, &source, nullptr, &code);
    check(code, "clCreateProgramWithSource");
    check(clBuildProgram(program, 1, &device, "", nullptr, nullptr), "clBuildProgram");
    cl_kernel kernel = clCreateKernel(program, "k", &code);
    check(code, "clCreateKernel");
    cl_mem buffer =
        clCreateBuffer(context, CL_MEM_READ_WRITE, size * sizeof(cl_int), nullptr, &code);
    check(code, "clCreateBuffer");
    check(clSetKernelArg(kernel, 0, sizeof(cl_mem), &buffer), "clSetKernelArg");
    check(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &size, nullptr, 0, nullptr, nullptr),
          "clEnqueueNDRangeKernel");
    std::vector<cl_int> results(size);
    check(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, size * sizeof(cl_int), results.data(), 0,
                              nullptr, nullptr),
          "clEnqueueReadBuffer");
    for (std::size_t i = 0; i < size; ++i)
        if (results[i] != static_cast<cl_int>(3 * i)) return false;
    clReleaseMemObject(buffer);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    return true;
}

void print(bool right) {
    std::puts(right ? "correct" : "WRONG");
    std::fflush(stdout);
}

// Each thread has its own queue, buffer and program.
void use_in_threads() {
    const std::vector<cl_device_id> devices = all_devices();
    const Context context(devices);
    std::vector<char> right(devices.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < devices.size(); ++i)
        threads.emplace_back(
            [&, i] { right[i] = use(context.value, devices[i], 1024 + 64 * i) ? 1 : 0; });
    bool all = true;
    for (std::size_t i = 0; i < devices.size(); ++i) threads[i].join(), all = all && right[i] != 0;
    print(all);
}

// The threads share the queues, and their objects differ only in their contents. A thread that gets
// another one's results ends the program.
void trust_results(bool by_callback) {
    constexpr std::size_t size = 1000;
    const std::vector<cl_device_id> devices = all_devices();
    const Context context(devices);
    cl_int code = CL_SUCCESS;
    std::vector<cl_command_queue> queues;
    for (const cl_device_id device : devices)
        queues.push_back(clCreateCommandQueue(context.value, device, 0, &code));
    std::vector<std::thread> threads;
    for (cl_int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            cl_mem buffer = clCreateBuffer(context.value, CL_MEM_READ_WRITE, size * sizeof(cl_int),
                                           nullptr, nullptr);
            for (cl_int round = 0; round < 20; ++round) {
                const cl_int value = 100 * t + round;
                const cl_command_queue queue =
                    queues[static_cast<std::size_t>(t * (round % 2)) % queues.size()];
                check(clEnqueueFillBuffer(queue, buffer, &value, sizeof value, 0,
                                          size * sizeof(cl_int), 0, nullptr, nullptr),
                      "clEnqueueFillBuffer");
                std::vector<cl_int> found(size);
                cl_event read = nullptr;
                check(clEnqueueReadBuffer(queue, buffer, by_callback ? CL_FALSE : CL_TRUE, 0,
                                          size * sizeof(cl_int), found.data(), 0, nullptr, &read),
                      "clEnqueueReadBuffer");
                if (by_callback) {
                    std::promise<void> called;
                    const auto call = [](cl_event, cl_int, void *promise) {
                        static_cast<std::promise<void> *>(promise)->set_value();
                    };
                    check(clSetEventCallback(read, CL_COMPLETE, call, &called),
                          "clSetEventCallback");
                    check(clFlush(queue), "clFlush");
                    called.get_future().wait();
                }
                clReleaseEvent(read);
                if (found != std::vector<cl_int>(size, value)) _exit(9);
            }
            clReleaseMemObject(buffer);
        });
    for (std::thread &thread : threads) thread.join();
    for (const cl_command_queue queue : queues) clReleaseCommandQueue(queue);
    print(true);
}

// The threads make their calls one after another, so the order of calls is fixed.
void use_in_turns() {
    const std::vector<cl_device_id> devices = all_devices();
    const Context context(devices);
    bool all = true;
    for (const cl_device_id device : devices)
        std::thread([&] { all = use(context.value, device, 1024) && all; }).join();
    // Two threads that take turns.
    std::barrier turn(2);
    std::thread other([&] {
        for (int i = 0; i < 50; ++i) {
            turn.arrive_and_wait();
            all = use(context.value, devices.back(), 64) && all;
            turn.arrive_and_wait();
        }
    });
    for (int i = 0; i < 50; ++i) {
        all = use(context.value, devices.front(), 64) && all;
        turn.arrive_and_wait();
        turn.arrive_and_wait();
    }
    other.join();
    print(all);
}

// Each thread starts after the one before has made its calls. In some processes that thread has not
// ended, so the new one has another id.
void use_detached() {
    const std::vector<cl_device_id> devices = all_devices();
    const Context context(devices);
    for (int i = 0; i < 30; ++i) {
        std::promise<void> called;
        std::future<void> wait = called.get_future();
        std::thread([&context, called = std::move(called)]() mutable {
            clReleaseMemObject(
                clCreateBuffer(context.value, CL_MEM_READ_WRITE, 64, nullptr, nullptr));
            called.set_value();
            if (rank_of_process() % 2 != 0)
                std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }).detach();
        wait.wait();
        if (rank_of_process() % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    print(use(context.value, devices.back(), 64));
}

// Two threads make equal calls one after another, in another order in each process. With `differ`,
// their contents differ; a thread that gets the other one's results ends the program.
void take_turns_by_rank(bool differ) {
    constexpr std::size_t size = 1000;
    const std::vector<cl_device_id> devices = all_devices();
    const Context context(devices);
    cl_command_queue queue = clCreateCommandQueue(context.value, devices.back(), 0, nullptr);
    std::array<std::promise<void>, 2> ended;
    const auto first = static_cast<cl_int>(rank_of_process() % 2);
    std::vector<std::thread> threads;
    for (cl_int t = 0; t < 2; ++t)
        threads.emplace_back([&, t] {
            if (t != first) ended[static_cast<std::size_t>(first)].get_future().wait();
            const cl_int value = differ ? 100 + t : 100;
            const std::vector<cl_int> contents(size, value);
            std::vector<cl_int> found(size);
            cl_mem buffer = clCreateBuffer(context.value, CL_MEM_READ_WRITE, size * sizeof value,
                                           nullptr, nullptr);
            check(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, size * sizeof value,
                                       contents.data(), 0, nullptr, nullptr),
                  "clEnqueueWriteBuffer");
            check(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, size * sizeof value, found.data(),
                                      0, nullptr, nullptr),
                  "clEnqueueReadBuffer");
            if (found != contents) _exit(9);
            clReleaseMemObject(buffer);
            ended[static_cast<std::size_t>(t)].set_value();
        });
    for (std::thread &thread : threads) thread.join();
    clReleaseCommandQueue(queue);
    print(true);
}

void differ() {
    const std::vector<cl_device_id> devices = all_devices();
    const Context context(devices);
    clReleaseMemObject(
        clCreateBuffer(context.value, CL_MEM_READ_WRITE, 1 + rank_of_process(), nullptr, nullptr));
    print(use(context.value, devices.back(), 1024));
}

// Ranks 0 and 1 make the same calls and end. All other ranks make one more call.
void differ_last() {
    const std::vector<cl_device_id> devices = all_devices();
    const Context context(devices);
    if (rank_of_process() >= 2)
        clReleaseMemObject(clCreateBuffer(context.value, CL_MEM_READ_WRITE, 1, nullptr, nullptr));
}

volatile std::sig_atomic_t made = 0;

// SIGALRM arrives during clBuildProgram.
void build_with_alarm() {
    const std::vector<cl_device_id> devices = all_devices();
    const Context context(devices);
    const char *source =
        "kernel void k(global int *a) { a[get_global_id(0)] = 5 * get_global_id(0); }";
    cl_int code = CL_SUCCESS;
    cl_program program = clCreateProgramWithSource(context.value, 1, &source, nullptr, &code);
    check(code, "clCreateProgramWithSource");
    std::signal(SIGALRM, [](int) { made = mkdir("alarmed", 0700); });
    ualarm(2000, 0);
    check(clBuildProgram(program, 1, devices.data(), "-DALARM", nullptr, nullptr),
          "clBuildProgram");
    clReleaseProgram(program);
}

void run_child(const char *name) {
    pid_t child = 0;
    std::array<char *, 2> arguments{const_cast<char *>(name), nullptr};
    check(posix_spawnp(&child, name, nullptr, nullptr, arguments.data(), environ), "posix_spawnp");
    waitpid(child, nullptr, 0);
}

const std::map<std::string, std::function<void()>> steps = {
    {"threads", use_in_threads},
    {"trust", [] { trust_results(false); }},
    {"trust-callbacks", [] { trust_results(true); }},
    {"turns", use_in_turns},
    {"detached", use_detached},
    {"turns-by-rank", [] { take_turns_by_rank(true); }},
    {"turns-by-rank-alike", [] { take_turns_by_rank(false); }},
    {"differ", differ},
    {"differ-last", differ_last},
    {"join", [] { all_devices(); }},
    {"print", [] { std::puts("a line"), std::fflush(stdout); }},
    {"print-mode",
     [] {
         const char *const mode = std::getenv("CLDIST_HOST_MODE");
         std::printf("mode: %s\n", mode != nullptr ? mode : "auto"), std::fflush(stdout);
     }},
    {"complain", [] { std::fputs("a complaint\n", stderr); }},
    {"write", [] { std::ofstream("written", std::ios::app) << "x"; }},
    {"write-by-open", [] { ::close(open("written", O_WRONLY | O_CREAT, 0600)); }},
    {"write-device", [] { ::close(open("/dev/kmsg", O_WRONLY)); }},
    {"folder", [] { (void)!mkdir("made", 0700); }},
    {"remove", [] { (void)!std::remove("absent"); }},
    {"alarm", build_with_alarm},
    {"times", [] { (void)lutimes("absent", nullptr); }},
    {"expand",
     [] {
         wordexp_t words{};
         if (wordexp("$(true)", &words, 0) == 0) wordfree(&words);
     }},
    {"socket",
     [] {
         std::array<int, 2> pair{};
         (void)!socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data());
     }},
    // With _FORTIFY_SOURCE, syslog() calls this function.
    {"log",
     [] {
         auto *const log = reinterpret_cast<void (*)(int, int, const char *, ...)>(
             dlsym(RTLD_DEFAULT, "__syslog_chk"));
         log(LOG_DEBUG, 1, "a test of cldist");
     }},
    {"child", [] { run_child("true"); }},
    {"system", [] { (void)!std::system("true"); }},
    {"fork",
     [] {
         if (fork() == 0) _exit(0);
         wait(nullptr);
     }},
    // Python also does this.
    {"buffer-input", [] { (void)std::setvbuf(stdin, nullptr, _IOFBF, BUFSIZ); }},
    {"input", [] { std::printf("input: %c\n", std::getchar()); }},
    {"raw", [] { (void)!syscall(SYS_sync); }},
    {"read-file", [] { std::ifstream("/etc/passwd").get(); }},
    {"write-nothing", [] { std::ofstream("/dev/null") << "x"; }},
    {"announce",
     [] {
         std::fputs("cldist run: the job starts again with a central host, because of nothing\n",
                    stderr);
         std::ofstream("announced", std::ios::app) << "x";
     }},
    {"exit-1", [] { std::exit(1); }},
    {"exit-5", [] { std::exit(5); }},
    {"abort", [] { std::abort(); }},
    {"wait", [] { sleep(20); }},
};

}  // namespace

int main(int argc, char **argv) {
    for (int i = 1; i < argc; ++i) {
        const auto step = steps.find(argv[i]);
        if (step == steps.end()) {
            std::fprintf(stderr, "UNEXPECTED: %s\n", argv[i]);
            return 9;
        }
        step->second();
    }
    return 0;
}
