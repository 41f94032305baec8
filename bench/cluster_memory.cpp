/// Measures the memory that this process uses for a context with many devices, and for buffers.
/// Each value is the growth of malloc's allocations in a step. With simulated devices (cldist run
/// --simulate N), it contains no memory of a driver.
#include "common.hpp"

#include <malloc.h>

#include <fmt/format.h>

using namespace cluster;

namespace {

constexpr int buffers = 1000;
constexpr std::size_t size = std::size_t{1} << 16;

std::size_t allocated() {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

void measure_memory(const Options &options) {
    std::size_t before = allocated();
    // Prints the bytes allocated since the last call, divided by `of`.
    const auto tell = [&](const char *what, double of) {
        const std::size_t now = allocated();
        fmt::print("{{\"bench\": \"cluster_memory\", \"what\": \"{}\", \"bytes\": {:.1f}}}\n", what,
                   (double(now) - double(before)) / of);
        before = allocated();
    };
    const Devices devices(options.devices, std::size_t(-1));
    const int count = devices.count();
    tell("devices, with context and queues", 1);

    std::vector<Buffer> all;
    all.reserve(buffers);
    before = allocated();
    for (int n = 0; n < buffers; ++n) all.push_back(devices.buffer(size));
    tell("a buffer", buffers);
    const auto migrate = [&](int device) {
        for (const Buffer &buffer : all) {
            const cl_mem memory = buffer.get();
            check(clEnqueueMigrateMemObjects(devices.queue(device), 1, &memory, 0, 0, nullptr,
                                             nullptr),
                  "clEnqueueMigrateMemObjects");
        }
    };
    // The last device is not used: it belongs to this process, which simulates the last rank.
    for (const Buffer &buffer : all) fill(devices.queue(0), buffer, 0.0f, 0, size / sizeof(float));
    for (int device = 1; device + 1 < count; ++device) migrate(device);
    tell("per buffer that all devices have, in addition", buffers);
    const std::size_t part = size / std::size_t(count) / sizeof(float);
    for (const Buffer &buffer : all)
        for (int device = 0; device + 1 < count; ++device)
            fill(devices.queue(device), buffer, 1.0f, std::size_t(device) * part, part);
    tell("per part of a buffer that a device has written, in addition",
         double(buffers) * (count - 1));
}

}  // namespace

int main(int argc, char **argv) {
    return run_program({"cluster_memory",
                        "Measures the memory of buffers and devices in this process.",
                        nullptr,
                        nullptr,
                        {.check = false}},
                       argc, argv, measure_memory);
}
