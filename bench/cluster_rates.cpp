/// Measures simultaneous copies between all devices and the program's pageable memory, in GB/s of
/// all devices together. Compares them with memcpy by one thread per device. Checks the bytes of
/// the last read of each size.
#include <algorithm>
#include <cstring>
#include <thread>

#include "common.hpp"

using namespace cluster;

namespace {

constexpr std::size_t largest = std::size_t{64} << 20U;

void measure_rates(const Options &options) {
    const Devices devices(options.devices, std::size_t(-1));
    const int count = devices.count();
    std::vector<Buffer> buffers;
    std::vector<std::vector<cl_uint>> written, found;
    for (int d = 0; d < count; ++d) {
        buffers.push_back(devices.buffer(largest));
        written.emplace_back(largest / sizeof(cl_uint));
        found.emplace_back(largest / sizeof(cl_uint));
        std::generate(written.back().begin(), written.back().end(),
                      [n = cl_uint(d)]() mutable { return n += 2654435761U; });
    }
    for (std::size_t size = 65536; size <= largest; size *= 4) {
        const std::size_t elements = size / sizeof(cl_uint);
        const auto rate_of = [&](const auto &work) {
            return count * double(size) / measure(devices, options.repeat, work) * 1e-9;
        };
        const double writes = rate_of([&] {
            for (int d = 0; d < count; ++d)
                write(devices.queue(d), buffers[std::size_t(d)],
                      std::span<const cl_uint>(written[std::size_t(d)]).first(elements));
        });
        const double reads = rate_of([&] {
            for (int d = 0; d < count; ++d)
                read(devices.queue(d), buffers[std::size_t(d)], CL_FALSE,
                     std::span(found[std::size_t(d)]).first(elements));
        });
        for (std::size_t d = 0; d < written.size(); ++d) {
            if (!std::equal(found[d].begin(), found[d].begin() + std::ptrdiff_t(elements),
                            written[d].begin()))
                throw std::runtime_error(fmt::format("wrong bytes from device {}", d));
            std::fill(found[d].begin(), found[d].end(), 0);
        }
        const double host = rate_of([&] {
            std::vector<std::thread> threads;
            for (std::size_t d = 0; d < written.size(); ++d)
                threads.emplace_back(
                    [&, d] { std::memcpy(found[d].data(), written[d].data(), size); });
            for (std::thread &thread : threads) thread.join();
        });
        fmt::print(
            "{{\"bench\": \"cluster_rates\", \"devices\": {}, \"bytes\": {}, \"write\": {:.2f}, "
            "\"read\": {:.2f}, \"memcpy\": {:.2f}}}\n",
            count, size, writes, reads, host);
    }
}

}  // namespace

int main(int argc, char **argv) {
    return run_program({"cluster_rates",
                        "Measures copies between all devices at once and pageable memory.",
                        nullptr,
                        nullptr,
                        {.repeat = 9, .check = false}},
                       argc, argv, measure_rates);
}
