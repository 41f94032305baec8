// Simulates bodies that attract each other. Each part of a step reads all positions.

#include "n_body_cl.hpp"
#include "splitting.hpp"

#include <array>

using namespace splitting;

using Bodies = std::vector<cl_float4>;

static std::vector<double> reference(const Bodies &positions, const Bodies &velocities, int steps,
                                     double seconds) {
    using Vector = std::array<double, 4>;
    std::vector<Vector> at;
    std::vector<Vector> speed;
    for (const cl_float4 &p : positions) at.push_back({p.s[0], p.s[1], p.s[2], p.s[3]});
    for (const cl_float4 &v : velocities) speed.push_back({v.s[0], v.s[1], v.s[2], v.s[3]});
    for (int step = 0; step < steps; ++step) {
        const auto before = at;
        for (std::size_t i = 0; i < at.size(); ++i) {
            Vector acceleration{};
            for (const Vector &other : before) {
                double square = 0.01;
                for (std::size_t d = 0; d < 3; ++d)
                    square += (other[d] - before[i][d]) * (other[d] - before[i][d]);
                for (std::size_t d = 0; d < 3; ++d)
                    acceleration[d] +=
                        other[3] * (other[d] - before[i][d]) / (square * std::sqrt(square));
            }
            for (std::size_t d = 0; d < 3; ++d) {
                speed[i][d] += seconds * acceleration[d];
                at[i][d] += seconds * speed[i][d];
            }
        }
    }
    std::vector<double> all;
    for (const Vector &p : at) all.insert(all.end(), p.begin(), p.end());
    return all;
}

static double compute(const Options &options) {
    const auto count = std::size_t(number(options.size.c_str(), 1));
    const float step = 0.01F;
    Bodies positions(count);
    const Bodies velocities(count, cl_float4{{0, 0, 0, 0}});
    for (std::size_t i = 0; i < count; ++i) {
        const auto part = [&](cl_uint which) { return noise(cl_uint(4 * i) + which); };
        positions[i] = {{part(0), part(1), part(2), part(3) / float(count)}};
    }

    const Device device;
    const Program program = device.build(n_body_source);
    const Kernel kernel = make_kernel(program, "move");
    std::array<Buffer, 2> at{device.room<cl_float4>(count), device.room<cl_float4>(count)};
    std::array<Buffer, 2> speed{device.room<cl_float4>(count), device.room<cl_float4>(count)};
    const double seconds = measure(
        device, options.repeat,
        [&] {
            device.put(at[0], positions);
            device.put(speed[0], velocities);
        },
        [&] {
            for (int n = 0; n < options.iterations; ++n) {
                const auto now = std::size_t(n % 2);
                set_arguments(kernel, at[now], speed[now], at[1 - now], speed[1 - now],
                              cl_int(count), step);
                device.launch(kernel, {count});
            }
        });

    if (options.check) {
        std::vector<float> found;
        for (const cl_float4 &p :
             device.get<cl_float4>(at[std::size_t(options.iterations % 2)], count))
            found.insert(found.end(), p.s, p.s + 4);
        expect_close("positions", found, reference(positions, velocities, options.iterations, step),
                     1e-4);
    }
    return seconds;
}

int main(int argc, char **argv) {
    return run({"n_body",
                "Moves bodies that attract each other.",
                "bodies",
                "steps",
                {.size = "4096", .iterations = 1}},
               argc, argv, compute);
}
