// Computes the temperatures of a chip. --size is WIDTH[xHEIGHT[:PYRAMID]]. A launch computes
// PYRAMID steps. Each work-group also reads a border of PYRAMID cells.

#include "hotspot_cl.hpp"
#include "splitting.hpp"

#include <array>
#include <cstdio>

using namespace splitting;

namespace {

constexpr std::size_t block = 16;
constexpr float across = 0.1F;
constexpr float up = 0.125F;
constexpr float out = 0.01F;
constexpr float outside = 80;

void step_of(const std::vector<float> &heat, const std::vector<float> &from, std::vector<float> &to,
             std::size_t width) {
    const std::size_t height = from.size() / width;
    for (std::size_t i = 0; i < from.size(); ++i) {
        const std::size_t x = i % width;
        const std::size_t y = i / width;
        const float own = from[i];
        const float west = x > 0 ? from[i - 1] : own;
        const float east = x + 1 < width ? from[i + 1] : own;
        const float south = y > 0 ? from[i - width] : own;
        const float north = y + 1 < height ? from[i + width] : own;
        to[i] = own + heat[i] + across * (west + east - 2 * own) + up * (south + north - 2 * own) +
                out * (outside - own);
    }
}

double compute(const Options &options) {
    int width = 0;
    int height = 0;
    int pyramid = 1;
    const int given = std::sscanf(options.size.c_str(), "%dx%d:%d", &width, &height, &pyramid);
    if (given < 2) height = width;
    if (given < 1 || width < 1 || height < 1 || pyramid < 1 || pyramid > 6)
        refuse("--size is WIDTHxHEIGHT:PYRAMID, with a pyramid of 1 to 6 steps");
    const auto cells = std::size_t(width) * std::size_t(height);
    std::vector<float> first(cells);
    std::vector<float> heat(cells);
    for (std::size_t i = 0; i < cells; ++i) {
        first[i] = 320 + 10 * noise(cl_uint(2 * i));
        heat[i] = noise(cl_uint(2 * i + 1));
    }

    const Device device;
    const Program program = device.build(hotspot_source, fmt::format("-DBLOCK={}", block));
    const Kernel kernel = make_kernel(program, "hotspot");
    const Buffer power = device.holding(heat);
    const std::array<Buffer, 2> at{device.room<float>(cells), device.room<float>(cells)};
    std::size_t now = 0;
    const double seconds = measure(
        device, options.repeat, [&] { device.put(at[now = 0], first); },
        [&] {
            for (int done = 0; done < options.iterations; now = 1 - now) {
                const int steps = std::min(pyramid, options.iterations - done);
                const std::size_t side = block + 2 * std::size_t(steps);
                set_arguments(kernel, power, at[now], at[1 - now], width, height, steps, across, up,
                              out, outside, Local{3 * side * side * sizeof(float)});
                device.launch(
                    kernel,
                    {round_up(std::size_t(width), block), round_up(std::size_t(height), block)},
                    {block, block});
                done += steps;
            }
        });

    if (options.check) {
        std::vector<float> next(cells);
        for (int n = 0; n < options.iterations; ++n) {
            step_of(heat, first, next, std::size_t(width));
            first.swap(next);
        }
        expect_same("temperatures", device.get<float>(at[now], cells), first);
    }
    return seconds;
}

}  // namespace

int main(int argc, char **argv) {
    return run({"hotspot",
                "Computes how a chip's temperatures change.",
                "cells, as WIDTHxHEIGHT:STEPS, with so many steps in a launch",
                "steps",
                {.size = "1024x1024:5", .iterations = 60}},
               argc, argv, compute);
}
