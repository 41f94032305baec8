/// What a command on the last device costs the host thread of the first process, with buffers that are attached to that device
/// and without, with an event and without: medians over batches of calls. On the cluster platform that device is another
/// process's. clFinish between the batches is not counted.
#include <CL/cl_ext_attach.h>

#include "common.hpp"

using namespace cluster;

namespace {

constexpr int batch = 500;  ///< calls
constexpr std::size_t size = 4096;

constexpr char source[] = "kernel void one(global float *a) {}";

struct Call {
    std::string name;
    std::function<void()> make;
    std::vector<double> ns{};  ///< of a call, one value a batch
};

void measure_calls(const Options &options) {
    const Devices devices(options.devices, std::size_t(-1));
    const cl_command_queue queue = devices.queue(devices.count() - 1);
    cl_device_id device = nullptr;
    check(clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, nullptr), "clGetCommandQueueInfo");
    const Program program = devices.build(source);
    std::vector<Kernel> kernels;
    std::vector<Buffer> buffers;
    std::vector<Call> calls;
    for (const bool attached : {false, true}) {
        kernels.push_back(make_kernel(program, "one"));
        for (int i = 0; i < 2; ++i) {
            buffers.push_back(devices.buffer(size));
            fill(queue, buffers.back(), 0.0f, 0, size / sizeof(float));
            if (attached) check(clAttachBufferToDevice(buffers.back().get(), device), "clAttachBufferToDevice");
        }
        const cl_kernel kernel = kernels.back().get();
        const cl_mem from = buffers[buffers.size() - 2].get();
        const cl_mem to = buffers.back().get();
        set_arguments(kernels.back(), buffers.back());
        for (const bool wanted : {false, true}) {
            const std::string how =
                std::string(attached ? ", attached" : "") + (wanted ? ", with an event and its release" : "");
            const auto add = [&](const char *name, auto enqueue) {
                calls.push_back({name + how, [enqueue, wanted] {
                                     cl_event event = nullptr;
                                     check(enqueue(wanted ? &event : nullptr), "the command");
                                     if (wanted) clReleaseEvent(event);
                                 }});
            };
            add("clEnqueueNDRangeKernel", [=](cl_event *event) {
                const std::size_t one = 1;
                return clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &one, &one, 0, nullptr, event);
            });
            add("clEnqueueCopyBuffer, 16 B",
                [=](cl_event *event) { return clEnqueueCopyBuffer(queue, from, to, 0, 0, 16, 0, nullptr, event); });
        }
    }
    // The batches take turns, so that what disturbs the machine disturbs all. The first round warms up.
    for (int round = 0; round <= options.repeat; ++round)
        for (Call &call : calls) {
            const double start = now();
            for (int n = 0; n < batch; ++n) call.make();
            const double seconds = now() - start;
            devices.finish();
            if (round > 0) call.ns.push_back(seconds / batch * 1e9);
        }
    for (const Call &call : calls)
        fmt::print("{{\"bench\": \"cluster_attached\", \"devices\": {}, \"call\": \"{}\", \"ns\": {:.1f}}}\n",
                   devices.count(), call.name, median(call.ns));
}

}  // namespace

int main(int argc, char **argv) {
    return run_program({"cluster_attached",
                        "Measures the host's time for commands of another process, in medians of batches of 500.",
                        nullptr,
                        nullptr,
                        {.repeat = 30, .check = false}},
                       argc, argv, measure_calls);
}
