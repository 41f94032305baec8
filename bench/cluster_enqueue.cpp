/// Measures the host time of enqueueing a command in an in-order queue of the first device. Prints
/// medians over batches of calls. The time of clFinish between batches does not count.
#include "common.hpp"

using namespace cluster;

namespace {

constexpr int batch = 100;          ///< calls
constexpr std::size_t size = 4096;  ///< bytes of a write, read or copy

constexpr char source[] = R"CL(
kernel void one(global float *a) {}
kernel void four(global float *a, global float *b, global const float *c, global const float *d) {}
)CL";

struct Call {
    const char *name;
    std::function<void()> make;
    std::vector<double> ns{};  ///< per call, one value per batch
};

void measure_calls(const Options &options) {
    const Devices devices(options.devices, std::size_t(-1));
    const cl_command_queue queue = devices.queue(0);
    const Program program = devices.build(source);
    const Kernel one = make_kernel(program, "one"), four = make_kernel(program, "four");
    Buffer buffers[4];
    for (Buffer &buffer : buffers) {
        buffer = devices.buffer(size);
        fill(queue, buffer, 0.0f, 0, size / sizeof(float));
    }
    set_arguments(one, buffers[0]);
    set_arguments(four, buffers[0], buffers[1], buffers[2], buffers[3]);
    std::vector<std::byte> out(size), in(size);

    const cl_mem argument = buffers[0].get();
    Call calls[] = {
        {"clEnqueueNDRangeKernel, 1 buffer", [&] { launch(queue, one, {1}, {1}); }},
        {"clEnqueueNDRangeKernel, 4 buffers", [&] { launch(queue, four, {1}, {1}); }},
        {"clSetKernelArg",
         [&] {
             check(clSetKernelArg(one.get(), 0, sizeof argument, &argument), "clSetKernelArg");
         }},
        {"clEnqueueWriteBuffer, 4 KiB",
         [&] { write(queue, buffers[0], std::span<const std::byte>(out)); }},
        {"clEnqueueReadBuffer, 4 KiB", [&] { read(queue, buffers[0], CL_FALSE, std::span(in)); }},
        {"clEnqueueCopyBuffer, 4 KiB",
         [&] {
             check(clEnqueueCopyBuffer(queue, buffers[0].get(), buffers[1].get(), 0, 0, size, 0,
                                       nullptr, nullptr),
                   "clEnqueueCopyBuffer");
         }},
    };
    // The calls alternate, so that noise affects all of them alike. The first round warms up.
    for (int round = 0; round <= options.repeat; ++round)
        for (Call &call : calls) {
            const double start = now();
            for (int n = 0; n < batch; ++n) call.make();
            const double seconds = now() - start;
            devices.finish();
            if (round > 0) call.ns.push_back(seconds / batch * 1e9);
        }
    for (const Call &call : calls)
        fmt::print(
            "{{\"bench\": \"cluster_enqueue\", \"devices\": {}, \"call\": \"{}\", \"ns\": "
            "{:.0f}}}\n",
            devices.count(), call.name, median(call.ns));
}

}  // namespace

int main(int argc, char **argv) {
    return run_program({"cluster_enqueue",
                        "Measures the host time of calls; medians of batches of 100.",
                        nullptr,
                        nullptr,
                        {.repeat = 50, .check = false}},
                       argc, argv, measure_calls);
}
