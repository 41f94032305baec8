// Prices options on binomial trees. Each work-group prices one option.

#include "binomial_option_cl.hpp"
#include "splitting.hpp"

using namespace splitting;

static double price(const cl_float4 &option, int steps) {
    const double up = std::exp(double(option.s[2]));
    const double grown = std::exp(double(option.s[3]));
    const double rising = (grown - 1 / up) / (up - 1 / up);
    std::vector<double> values;
    for (int node = 0; node <= steps; ++node)
        values.push_back(std::max(0.0, option.s[0] * std::pow(up, 2 * node - steps) - option.s[1]));
    for (; values.size() > 1; values.pop_back())
        for (std::size_t node = 0; node + 1 < values.size(); ++node)
            values[node] = (rising * values[node + 1] + (1 - rising) * values[node]) / grown;
    return values[0];
}

static double compute(const Options &options) {
    const auto count = std::size_t(number(options.size.c_str(), 1));
    const int steps = options.iterations;
    std::vector<cl_float4> sold(count);
    for (std::size_t i = 0; i < count; ++i) {
        const auto part = [&](cl_uint which) { return noise(cl_uint(4 * i) + which); };
        sold[i] = {{5 + 25 * part(0), 1 + 99 * part(1),
                    (0.1F + 0.4F * part(2)) / std::sqrt(float(steps)),
                    (0.01F + 0.04F * part(3)) / float(steps)}};
    }

    const Device device;
    const Program program = device.build(binomial_option_source);
    const Kernel kernel = make_kernel(program, "binomial_option");
    const Buffer all = device.holding(sold);
    const Buffer prices = device.room<float>(count);
    const auto nodes = std::size_t(steps) + 1;
    set_arguments(kernel, all, prices, cl_int(steps), Local{nodes * sizeof(float)});
    const double seconds =
        measure(device, options.repeat, [&] { device.launch(kernel, {count * nodes}, {nodes}); });

    if (options.check) {
        std::vector<double> expected;
        for (const cl_float4 &option : sold) expected.push_back(price(option, steps));
        expect_close("prices", device.get<float>(prices, count), expected, 2e-3);
    }
    return seconds;
}

int main(int argc, char **argv) {
    return run({"binomial_option",
                "Prices options on binomial trees.",
                "options",
                "steps of a tree",
                {.size = "4096", .iterations = 255}},
               argc, argv, compute);
}
