/// Measures the cost of a host mode (replicated or central). bench/hosts.py also runs it natively.
///
/// Prints the rates of clSetKernelArg and of launches on the last device, and the time of a marker
/// with clFinish there. Unless --no-check is given, it then measures several threads: kernels on
/// all devices with one thread per device, and launch rates with 1, 2, 4 and 8 threads.
#include <barrier>
#include <thread>

#include "common.hpp"

using namespace cluster;

namespace {

constexpr char source[] = R"CL(
kernel void nothing(global int *a, int value) {}
kernel void work(global float *a, int rounds) {
    float x = get_global_id(0);
    for (int i = 0; i < rounds; ++i) x = x * 0.999f + 0.5f;
    a[get_global_id(0)] = x;
}
)CL";

double seconds_of(const std::function<void()> &work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void print(const Devices &devices, const char *what, double value) {
    fmt::print(
        "{{\"bench\": \"cluster_hosts\", \"devices\": {}, \"what\": \"{}\", \"value\": {:.6g}}}\n",
        devices.count(), what, value);
}

/// Returns the launches per second of `count` threads, each with its own queue, kernel and buffer.
double launches_of_threads(const Devices &devices, const Program &program, int count,
                           int launches) {
    std::barrier all(static_cast<std::ptrdiff_t>(count) + 1);
    std::vector<std::thread> threads;
    for (int t = 0; t < count; ++t)
        threads.emplace_back([&, t] {
            const Queue queue = devices.make_queue(t % devices.count());
            const Kernel kernel = make_kernel(program, "nothing");
            const Buffer buffer = devices.buffer(4096);
            set_arguments(kernel, buffer, cl_int(0));
            launch(queue.get(), kernel, {1}, {1});
            check(clFinish(queue.get()), "clFinish");
            all.arrive_and_wait();
            for (int i = 0; i < launches; ++i) launch(queue.get(), kernel, {1}, {1});
            check(clFinish(queue.get()), "clFinish");
            all.arrive_and_wait();
        });
    all.arrive_and_wait();
    const double seconds = seconds_of([&] { all.arrive_and_wait(); });
    for (std::thread &thread : threads) thread.join();
    return count * launches / seconds;
}

void measure_hosts(const Options &options) {
    const Devices devices(options.devices, std::size_t(-1));
    const int calls = options.iterations;
    const cl_command_queue queue = devices.queue(devices.count() - 1);
    const Program program = devices.build(source);
    const Kernel nothing = make_kernel(program, "nothing");
    const Buffer buffer = devices.buffer(4096);
    fill(queue, buffer, 0.0f, 0, 1024);
    set_arguments(nothing, buffer, cl_int(0));
    const auto argument = [&](cl_int value) {
        check(clSetKernelArg(nothing.get(), 1, sizeof value, &value), "clSetKernelArg");
    };
    launch(queue, nothing, {1}, {1});
    devices.finish();

    std::vector<double> arguments, launches, finishes, threads;
    for (int round = 0; round < options.repeat; ++round) {
        arguments.push_back(calls / seconds_of([&] {
                                for (int i = 0; i < calls; ++i) argument(i);
                                launch(queue, nothing, {1}, {1});
                                devices.finish();
                            }));
        const int commands = calls / 10;
        launches.push_back(commands / seconds_of([&] {
                               for (int i = 0; i < commands; ++i) launch(queue, nothing, {1}, {1});
                               devices.finish();
                           }));
        // Without a command, clFinish would have nothing to wait for.
        constexpr int finished = 200;
        finishes.push_back(seconds_of([&] {
                               for (int i = 0; i < finished; ++i) {
                                   check(clEnqueueMarkerWithWaitList(queue, 0, nullptr, nullptr),
                                         "clEnqueueMarker");
                                   check(clFinish(queue), "clFinish");
                               }
                           }) /
                           finished * 1e6);
    }
    print(devices, "calls of clSetKernelArg per second", median(arguments));
    print(devices, "launches a second", median(launches));
    print(devices, "us of a marker and clFinish", median(finishes));
    if (!options.check) return;
    for (int round = 0; round < options.repeat; ++round)
        threads.push_back(seconds_of([&] {
            std::vector<std::thread> all;
            for (int d = 0; d < devices.count(); ++d)
                all.emplace_back([&devices, &program, d] {
                    const Kernel work = make_kernel(program, "work");
                    const Buffer mine = devices.buffer(65536 * sizeof(float));
                    set_arguments(work, mine, cl_int(2000));
                    for (int i = 0; i < 20; ++i) {
                        launch(devices.queue(d), work, {65536}, {64});
                        check(clFinish(devices.queue(d)), "clFinish");
                    }
                });
            for (std::thread &thread : all) thread.join();
        }));
    print(devices, "s with one thread per device", median(threads));
    for (const int count : {1, 2, 4, 8}) {
        std::vector<double> rates;
        for (int round = 0; round < options.repeat; ++round)
            rates.push_back(launches_of_threads(devices, program, count, calls / 20));
        print(devices, fmt::format("launches a second, {} threads", count).c_str(), median(rates));
    }
}

}  // namespace

int main(int argc, char **argv) {
    return run_program(
        {"cluster_hosts",
         "Measures calls and waits on the last device, and, unless --no-check is given, one thread "
         "per device, which a replicated host does not support.",
         nullptr,
         "calls",
         {.iterations = 100'000, .repeat = 5}},
        argc, argv, measure_hosts);
}
