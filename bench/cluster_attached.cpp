/// Measures rank 0's host time for a command on the last device (on the cluster platform, a remote
/// command), with bound and unbound buffers, with and without an event.
///
/// Prints the median over batches of calls, and the fastest batch, without the time of clFinish
/// between batches. Set CLDIST_ATTACH=program; otherwise the platform binds all buffers.
#include <CL/cl_ext_attach.h>

#include <algorithm>

#include "common.hpp"

using namespace cluster;

namespace {

constexpr std::size_t batch = 500;  ///< calls
constexpr std::size_t size = 4096;

constexpr char source[] = "kernel void one(global float *a) {}";

struct Call {
    std::string name;
    std::function<void(cl_event *)> make;
    bool has_events = false;
    std::vector<double> ns{};           ///< per call, one value per batch
    std::vector<double> ns_released{};  ///< per release of a call's event, one value per batch
};

void measure_calls(const Options &options) {
    const Devices devices(options.devices, std::size_t(-1));
    const cl_command_queue queue = devices.queue(devices.count() - 1);
    cl_device_id device = nullptr;
    check(clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, nullptr),
          "clGetCommandQueueInfo");
    const Program program = devices.build(source);
    std::vector<Kernel> kernels;
    std::vector<Buffer> buffers;
    std::vector<Call> calls;
    for (const bool attached : {false, true}) {
        kernels.push_back(make_kernel(program, "one"));
        for (int i = 0; i < 2; ++i) {
            buffers.push_back(devices.buffer(size));
            fill(queue, buffers.back(), 0.0f, 0, size / sizeof(float));
            if (attached)
                check(clAttachBufferToDevice(buffers.back().get(), device),
                      "clAttachBufferToDevice");
        }
        const cl_kernel kernel = kernels.back().get();
        const cl_mem from = buffers[buffers.size() - 2].get();
        const cl_mem to = buffers.back().get();
        set_arguments(kernels.back(), buffers.back());
        for (const bool wanted : {false, true}) {
            const std::string how =
                std::string(attached ? ", attached" : "") + (wanted ? ", with an event" : "");
            const auto add = [&](const char *name, auto enqueue) {
                calls.push_back({name + how,
                                 [enqueue, wanted](cl_event *event) {
                                     check(enqueue(wanted ? event : nullptr), "the command");
                                 },
                                 wanted});
            };
            add("clEnqueueNDRangeKernel", [=](cl_event *event) {
                const std::size_t one = 1;
                return clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &one, &one, 0, nullptr,
                                              event);
            });
            add("clEnqueueCopyBuffer, 16 B", [=](cl_event *event) {
                return clEnqueueCopyBuffer(queue, from, to, 0, 0, 16, 0, nullptr, event);
            });
        }
    }
    // The calls alternate, so that noise affects all of them alike. The first round warms up.
    std::vector<cl_event> events(batch);
    const auto time = [](auto call) {
        const double start = now();
        for (std::size_t n = 0; n < batch; ++n) call(n);
        return (now() - start) / batch * 1e9;
    };
    for (int round = 0; round <= options.repeat; ++round)
        for (Call &call : calls) {
            const double ns = time([&](std::size_t n) { call.make(&events[n]); });
            devices.finish();
            if (round > 0) call.ns.push_back(ns);
            if (!call.has_events) continue;
            const double ns_released = time([&](std::size_t n) { clReleaseEvent(events[n]); });
            if (round > 0) call.ns_released.push_back(ns_released);
        }
    const auto tell = [&](const std::string &name, const std::vector<double> &ns) {
        fmt::print(
            "{{\"bench\": \"cluster_attached\", \"devices\": {}, \"call\": \"{}\", \"ns\": {:.1f}, "
            "\"least\": {:.1f}}}\n",
            devices.count(), name, median(ns), *std::min_element(ns.begin(), ns.end()));
    };
    for (const Call &call : calls) {
        tell(call.name, call.ns);
        if (call.has_events) tell(call.name + ": its release", call.ns_released);
    }
}

}  // namespace

int main(int argc, char **argv) {
    return run_program({"cluster_attached",
                        "Measures the host time of commands on a device of another process; "
                        "medians of batches of 500.",
                        nullptr,
                        nullptr,
                        {.repeat = 30, .check = false}},
                       argc, argv, measure_calls);
}
