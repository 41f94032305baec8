// Bodies that attract each other, all pairs. Each device moves some of the bodies and needs the
// positions of all. Two buffers hold all positions before and after a step. Each device writes its
// part of the second buffer through a sub-buffer.

#include "common.hpp"
#include "nbody_cl.hpp"

#include <array>
#include <cmath>

using namespace cluster;

namespace {

constexpr float step_seconds = 0.01f;
constexpr double softening = 0.01;  // as in the kernel

using Positions = std::vector<std::array<float, 4>>;  ///< x, y, z, mass

/// Returns `position` after some steps, computed pair by pair.
std::vector<float> reference(const Positions &start, int steps) {
    const std::size_t bodies = start.size();
    std::vector<std::array<double, 3>> position(bodies), velocity(bodies);
    for (std::size_t i = 0; i < bodies; ++i) position[i] = {start[i][0], start[i][1], start[i][2]};
    for (int step = 0; step < steps; ++step) {
        for (std::size_t i = 0; i < bodies; ++i)
            for (std::size_t k = 0; k < bodies; ++k) {
                double way[3], square = softening;
                for (std::size_t axis = 0; axis < 3; ++axis) {
                    way[axis] = position[k][axis] - position[i][axis];
                    square += way[axis] * way[axis];
                }
                const double factor = step_seconds * start[k][3] / (square * std::sqrt(square));
                for (std::size_t axis = 0; axis < 3; ++axis)
                    velocity[i][axis] += factor * way[axis];
            }
        for (std::size_t i = 0; i < bodies; ++i)
            for (std::size_t axis = 0; axis < 3; ++axis)
                position[i][axis] += step_seconds * velocity[i][axis];
    }
    std::vector<float> floats;
    for (std::size_t i = 0; i < bodies; ++i) {
        for (const double coordinate : position[i]) floats.push_back(float(coordinate));
        floats.push_back(start[i][3]);
    }
    return floats;
}

Result simulate(const Options &options) {
    const auto bodies = std::size_t(number(options.size.c_str(), 1));
    const int steps = options.iterations;
    Positions start(bodies), end(bodies);
    for (std::size_t i = 0; i < bodies; ++i) {
        for (std::size_t axis = 0; axis < 3; ++axis) start[i][axis] = noise(cl_uint(4 * i + axis));
        start[i][3] = (0.5f + noise(cl_uint(4 * i + 3))) / float(bodies);
    }

    // The devices' address alignment restricts the origins of sub-buffers.
    constexpr std::size_t body_bytes = sizeof start[0];
    const std::size_t alignment =
        Devices::largest(options.devices, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8;
    const std::size_t block = std::max<std::size_t>(1, alignment / body_bytes);
    const Devices devices(options.devices, round_up(bodies, block) / block);
    const std::size_t group = devices.group_size(64);
    const Program program = devices.build(nbody_source, fmt::format("-DGROUP={}", group));

    Buffer positions[2];
    for (Buffer &buffer : positions) buffer = devices.buffer(bodies * body_bytes);
    struct Part {
        Range range;
        Buffer velocity;
        Buffer next[2];  ///< this part of each buffer of positions
        Kernel kernel[2];
    };
    std::vector<Part> parts(std::size_t(devices.count()));
    for (int device = 0; device < devices.count(); ++device) {
        Part &part = parts[std::size_t(device)];
        part.range = devices.share(bodies, device, block);
        part.velocity = devices.buffer(part.range.count * body_bytes);
        const cl_buffer_region region = {part.range.first * body_bytes,
                                         part.range.count * body_bytes};
        for (int n = 0; n < 2; ++n) {
            cl_int status;
            part.next[n] =
                Buffer(clCreateSubBuffer(positions[n].get(), CL_MEM_WRITE_ONLY,
                                         CL_BUFFER_CREATE_TYPE_REGION, &region, &status));
            check(status, "clCreateSubBuffer");
        }
        for (int n = 0; n < 2; ++n) {
            part.kernel[n] = make_kernel(program, "move_bodies");
            set_arguments(part.kernel[n], positions[n], part.velocity, part.next[1 - n],
                          cl_uint(part.range.first), cl_uint(part.range.count), cl_uint(bodies),
                          step_seconds);
        }
    }

    const auto prepare = [&] {
        for (int device = 0; device < devices.count(); ++device) {
            const Part &part = parts[std::size_t(device)];
            fill(devices.queue(device), part.velocity, 0.0f, 0, 4 * part.range.count);
        }
    };
    const double seconds = measure(devices, options.repeat, prepare, [&] {
        // A step waits until all devices have completed the previous step: until all new positions
        // are written and all old ones have been read.
        Events before;
        write(devices.queue(0), positions[0], std::span<const std::array<float, 4>>(start),
              before.put());
        flush(devices.queue(0));
        for (int step = 0; step < steps; ++step) {
            Events after;
            for (int device = 0; device < devices.count(); ++device) {
                const Part &part = parts[std::size_t(device)];
                launch(devices.queue(device), part.kernel[step % 2],
                       {round_up(part.range.count, group)}, {group}, before, after.put());
                flush(devices.queue(device));
            }
            before = std::move(after);
        }
        before.wait();
        read(devices.queue(0), positions[steps % 2], CL_TRUE, std::span(end));
    });

    if (options.check) {
        const std::vector<float> expected = reference(start, steps);
        check_elements("position", {end.data()->data(), 4 * bodies}, 4 * bodies, 1e-4,
                       [&](std::size_t i) { return expected[i]; });
    }
    // Counts 20 operations per pair, which is the usual number. The differences take 3 and the
    // squared distance 6. Its power of -3/2 takes 4, with one square root and one division. The
    // product with the mass takes 1, and the sums take 6.
    return {fmt::format("{} bodies, {} steps", bodies, steps), devices.count(), seconds,
            20.0 * double(bodies) * double(bodies) * steps};
}

}  // namespace

int main(int argc, char **argv) {
    return run({"nbody",
                "Moves bodies that attract each other.",
                "bodies",
                "steps",
                {.size = "2048", .iterations = 5}},
               argc, argv, simulate);
}
