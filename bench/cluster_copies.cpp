/// How many small copies a second a context with many devices does.
///
/// Each of N devices has a buffer of 16 bytes. In a round, each device in turn copies its buffer to those of all others,
/// after the device before it has: N (N - 1) clEnqueueCopyBuffer, none of which waits on the host, then clFinish on all
/// queues. So each device fetches what its buffer got from the device before it, and hands it on: after the first round
/// all have what the first one had, and no copy may be left out or come too early for that.
#include "common.hpp"

#include <array>

using namespace cluster;

namespace {

using Data = std::array<cl_uint, 4>;

void copy_all_to_all(const Options &options) {
    const Devices devices(options.devices, std::size_t(-1));
    const int count = devices.count();
    if (count < 2) refuse("there must be at least two devices");
    std::vector<Data> data;
    std::vector<Buffer> buffers;
    for (cl_uint device = 0; device < cl_uint(count); ++device) {
        data.push_back({device + 1, 2 * device, 3 * device, ~device});
        buffers.push_back(devices.buffer(sizeof(Data)));
    }

    const auto prepare = [&] {
        for (int device = 0; device < count; ++device)
            write(devices.queue(device), buffers[std::size_t(device)],
                  std::span<const Data>(&data[std::size_t(device)], 1));
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
                                              buffers[std::size_t(to)].get(), 0, 0, sizeof(Data), before.count(),
                                              before.data(), last ? after.put() : nullptr),
                          "clEnqueueCopyBuffer");
                    before.clear();  // the rest of the queue comes after its first command
                }
                flush(devices.queue(from));
                before = std::move(after);
            }
            devices.finish();
        }
    });

    for (int device = 0; options.check && device < count; ++device) {
        Data got;
        read(devices.queue(device), buffers[std::size_t(device)], CL_TRUE, std::span(&got, 1));
        for (std::size_t n = 0; n < got.size(); ++n)
            expect_near(fmt::format("device {}'s buffer", device).c_str(), n, got[n], data[0][n], 0);
    }
    const double commands = double(options.iterations) * count * (count - 1);
    fmt::print(
        "{{\"bench\": \"cluster_copies\", \"devices\": {}, \"commands\": {}, \"commands_per_second\": {:.0f}, "
        "\"us_per_command\": {:.3f}}}\n",
        count, commands, commands / seconds, seconds / commands * 1e6);
}

}  // namespace

int main(int argc, char **argv) {
    return run_program({"cluster_copies",
                        "Counts the copies of 16 bytes between all devices of a context in a second.",
                        nullptr,
                        "rounds",
                        {.iterations = 100}},
                       argc, argv, copy_all_to_all);
}
