/// Compares the collectives of the devices of one context with clEnqueueCopyBuffer.
///
/// Before each run, every device fills its source buffer, so that on the cluster platform no other
/// device has a copy. The collective and the copies alternate. A ratio compares two runs of the
/// same round. Checks once that both have the same result.
#include "common.hpp"

#include <algorithm>
#include <stdexcept>

#include <CL/cl_ext_collective.h>

using namespace cluster;

namespace {

struct Case {
    const Devices &devices;
    std::vector<Buffer> given, got, spare;
    std::vector<cl_command_queue> queues;
    std::vector<cl_mem> sources, destinations, spares;
    std::size_t bytes;
    Kernel add;

    [[nodiscard]] cl_uint n() const { return cl_uint(queues.size()); }
};

void copy(const Case &c, cl_uint queue, cl_mem from, cl_mem to, std::size_t from_offset,
          std::size_t to_offset) {
    check(clEnqueueCopyBuffer(c.queues[queue], from, to, from_offset, to_offset, c.bytes, 0,
                              nullptr, nullptr),
          "clEnqueueCopyBuffer");
}

struct Kind {
    const char *name;
    bool gives_all, gets_all;  ///< whether the source or the destination is n times as large
    void (*command)(const Case &);
    void (*by_hand)(const Case &);
};

const Kind kinds[] = {
    {"broadcast", false, false,
     [](const Case &c) {
         check(clEnqueueBroadcastBuffer(c.queues.data(), c.sources[0], c.n(), c.destinations.data(),
                                        0, nullptr, c.bytes, 0, nullptr, nullptr),
               "clEnqueueBroadcastBuffer");
     },
     [](const Case &c) {
         for (cl_uint i = 0; i < c.n(); ++i) copy(c, i, c.sources[0], c.destinations[i], 0, 0);
     }},
    {"all-gather", false, true,
     [](const Case &c) {
         check(clEnqueueAllGatherBuffer(c.queues.data(), c.n(), c.sources.data(),
                                        c.destinations.data(), nullptr, nullptr, c.bytes, 0,
                                        nullptr, nullptr),
               "clEnqueueAllGatherBuffer");
     },
     [](const Case &c) {
         for (cl_uint i = 0; i < c.n(); ++i)
             for (cl_uint k = 0; k < c.n(); ++k)
                 copy(c, i, c.sources[k], c.destinations[i], 0, k * c.bytes);
     }},
    {"all-to-all", true, true,
     [](const Case &c) {
         check(clEnqueueAlltoAllBuffer(c.queues.data(), c.n(), c.sources.data(),
                                       c.destinations.data(), nullptr, nullptr, c.bytes, 0, nullptr,
                                       nullptr),
               "clEnqueueAlltoAllBuffer");
     },
     [](const Case &c) {
         for (cl_uint i = 0; i < c.n(); ++i)
             for (cl_uint k = 0; k < c.n(); ++k)
                 copy(c, i, c.sources[k], c.destinations[i], i * c.bytes, k * c.bytes);
     }},
    {"all-reduce", false, false,
     [](const Case &c) {
         check(clEnqueueAllReduceBuffer(c.queues.data(), c.n(), c.sources.data(),
                                        c.destinations.data(), nullptr, nullptr, c.bytes, CL_FLOAT,
                                        0, nullptr, nullptr),
               "clEnqueueAllReduceBuffer");
     },
     // The first device collects all data, adds it up, and distributes the result.
     [](const Case &c) {
         copy(c, 0, c.sources[0], c.destinations[0], 0, 0);
         for (cl_uint i = 1; i < c.n(); ++i) {
             copy(c, 0, c.sources[i], c.spares[0], 0, 0);
             set_arguments(c.add, c.got[0], c.spare[0]);
             launch(c.queues[0], c.add, {c.bytes / sizeof(float)});
         }
         c.devices.finish();
         for (cl_uint i = 1; i < c.n(); ++i) copy(c, i, c.destinations[0], c.destinations[i], 0, 0);
     }},
};

void measure_kind(const Case &c, const Kind &kind, int rounds) {
    const std::size_t given = c.bytes * (kind.gives_all ? c.n() : 1);
    const std::size_t got = c.bytes * (kind.gets_all ? c.n() : 1);
    std::vector<double> seconds[2], ratios;
    std::vector<float> left[2];
    for (int round = -1; round < rounds; ++round) {
        for (int turn : {0, 1}) {
            const int way = (turn + round + 1) % 2;  // alternately, one or the other is first
            for (cl_uint i = 0; i < c.n(); ++i) {
                fill(c.queues[i], c.given[i], float(int(i) + 2 + round), 0, given / sizeof(float));
                fill(c.queues[i], c.got[i], -1, 0, got / sizeof(float));
            }
            c.devices.finish();
            const double start = now();
            (way == 0 ? kind.command : kind.by_hand)(c);
            c.devices.finish();
            if (round >= 0) seconds[way].push_back(now() - start);
            if (round >= 0) continue;
            for (cl_uint i = 0; i < c.n(); ++i) {
                std::vector<float> data(got / sizeof(float));
                read(c.queues[i], c.got[i], CL_TRUE, std::span(data));
                left[way].insert(left[way].end(), data.begin(), data.end());
            }
        }
        if (round >= 0) ratios.push_back(seconds[1].back() / seconds[0].back());
    }
    if (left[0] != left[1])
        throw std::runtime_error(
            fmt::format("{} and the copies have different results", kind.name));
    fmt::print(
        "{{\"collective\": \"{}\", \"devices\": {}, \"bytes\": {}, \"us\": {:.1f}, \"copies_us\": "
        "{:.1f}, \"copies/collective\": {:.2f}}}\n",
        kind.name, c.n(), c.bytes, median(seconds[0]) * 1e6, median(seconds[1]) * 1e6,
        median(ratios));
    std::fflush(stdout);
}

void measure_all(const Options &options) {
    const Devices devices(options.devices, std::size_t(-1));
    const Program program = devices.build(
        "kernel void add(global float *a, const global float *b) { a[get_global_id(0)] += "
        "b[get_global_id(0)]; }");
    for (const Kind &kind : kinds)
        for (const std::size_t bytes :
             {std::size_t{4} << 10, std::size_t{256} << 10, std::size_t{16} << 20}) {
            if (bytes > std::size_t(number(options.size.c_str(), 1)) << 10) continue;
            Case c{devices, {}, {}, {}, {}, {}, {}, {}, bytes, make_kernel(program, "add")};
            for (int i = 0; i < devices.count(); ++i) {
                const std::size_t all = bytes * std::size_t(devices.count());
                c.queues.push_back(devices.queue(i));
                c.given.push_back(devices.buffer(kind.gives_all ? all : bytes));
                c.got.push_back(devices.buffer(kind.gets_all ? all : bytes));
                c.spare.push_back(devices.buffer(bytes));
                c.sources.push_back(c.given.back().get());
                c.destinations.push_back(c.got.back().get());
                c.spares.push_back(c.spare.back().get());
            }
            measure_kind(c, kind, options.iterations);
        }
}

}  // namespace

int main(int argc, char **argv) {
    return run_program({"device_collectives",
                        "Measures collectives between all devices of a context.",
                        "the largest size, in KiB",
                        "rounds",
                        {.size = "16384", .iterations = 11}},
                       argc, argv, measure_all);
}
