/// Measures copies in a context with N devices.
///
/// Each device has a buffer. In a round, one device after another copies its buffer to all others,
/// with N (N - 1) calls of clEnqueueCopyBuffer in total. The host waits only at the end, with
/// clFinish on all queues. After the first round, all buffers must have the contents of the first
/// one; they differ if a copy is missing or too early.
///
/// In the program cluster_copies_attached, each buffer is bound to its device.
#include "common.hpp"

#include <algorithm>

#ifdef ATTACHED
#include <CL/cl_ext_attach.h>
#endif

using namespace cluster;

namespace {

using Data = std::vector<cl_uint>;

void copy_all_to_all(const Options &options) {
    const Devices devices(options.devices, std::size_t(-1));
    const int count = devices.count();
    if (count < 2) refuse("there must be at least two devices");
    const std::size_t elements = std::size_t(number(options.size.c_str(), 1)),
                      bytes = elements * sizeof(cl_uint);
    std::vector<Data> data;
    std::vector<Buffer> buffers;
    for (cl_uint device = 0; device < cl_uint(count); ++device) {
        data.emplace_back(elements);
        std::generate(data.back().begin(), data.back().end(),
                      [n = 0U, device]() mutable { return (device + 1) * ++n; });
        buffers.push_back(devices.buffer(bytes));
#ifdef ATTACHED
        cl_device_id of_queue = nullptr;
        check(clGetCommandQueueInfo(devices.queue(int(device)), CL_QUEUE_DEVICE, sizeof of_queue,
                                    &of_queue, nullptr),
              "clGetCommandQueueInfo");
        check(clAttachBufferToDevice(buffers.back().get(), of_queue), "clAttachBufferToDevice");
#endif
    }

    const auto prepare = [&] {
        for (int device = 0; device < count; ++device)
            write(devices.queue(device), buffers[std::size_t(device)],
                  std::span<const cl_uint>(data[std::size_t(device)]));
    };
    const double seconds = measure(devices, options.repeat, prepare, [&] {
        for (int round = 0; round < options.iterations; ++round) {
            Events before;
            for (int from = 0; from < count; ++from) {
                Events after;
                int left = count - 1;
                for (int to = 0; to < count; ++to) {
                    if (to == from) continue;
                    const bool last = --left == 0;
                    check(clEnqueueCopyBuffer(devices.queue(from), buffers[std::size_t(from)].get(),
                                              buffers[std::size_t(to)].get(), 0, 0, bytes,
                                              before.count(), before.data(),
                                              last ? after.put() : nullptr),
                          "clEnqueueCopyBuffer");
                    before.clear();  // only the first one waits: the queue is in-order
                }
                flush(devices.queue(from));
                before = std::move(after);
            }
            devices.finish();
        }
    });

    for (int device = 0; options.check && device < count; ++device) {
        Data got(elements);
        read(devices.queue(device), buffers[std::size_t(device)], CL_TRUE, std::span(got));
        for (std::size_t n = 0; n < got.size(); ++n)
            expect_near(fmt::format("device {}'s buffer", device).c_str(), n, got[n], data[0][n],
                        0);
    }
    const double commands = double(options.iterations) * count * (count - 1);
    fmt::print(
        "{{\"bench\": \"cluster_copies\", \"devices\": {}, \"bytes\": {}, \"commands\": {}, "
        "\"commands_per_second\": {:.0f}, \"us_per_command\": {:.3f}}}\n",
        count, bytes, commands, commands / seconds, seconds / commands * 1e6);
}

}  // namespace

int main(int argc, char **argv) {
    return run_program({"cluster_copies",
                        "Measures copies between all devices of a context.",
                        "elements of 4 bytes per copy",
                        "rounds",
                        {.size = "4", .iterations = 100}},
                       argc, argv, copy_all_to_all);
}
