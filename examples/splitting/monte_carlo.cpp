// Prices Asian options over random paths. The paths are the same each time.

#include "monte_carlo_cl.hpp"
#include "splitting.hpp"

using namespace splitting;

static double price(const cl_float4 &option, std::size_t place, int paths, int steps) {
    const double volatility = option.s[2];
    const double interest = option.s[3];
    std::uint32_t state = 2654435761U * (std::uint32_t(place) + 1);
    double paid = 0;
    for (int path = 0; path < paths; ++path) {
        double logarithm = 0;
        double sum = 0;
        for (int step = 0; step < steps; ++step) {
            std::uint32_t random = 0;
            for (int k = 0; k < 12; ++k) {
                state ^= state << 13U;
                state ^= state >> 17U;
                state ^= state << 5U;
                random += state >> 16U;
            }
            logarithm +=
                interest - volatility * volatility / 2 + volatility * (random * 0x1p-16 - 6);
            sum += option.s[0] * std::exp(logarithm);
        }
        paid += std::max(0.0, sum / steps - option.s[1]);
    }
    return std::exp(-interest * steps) * paid / paths;
}

static double compute(const Options &options) {
    constexpr int steps = 16;
    const auto count = std::size_t(number(options.size.c_str(), 1));
    std::vector<cl_float4> sold(count);
    for (std::size_t i = 0; i < count; ++i) {
        const auto part = [&](cl_uint which) { return noise(cl_uint(4 * i) + which); };
        sold[i] = {
            {20 + 10 * part(0), 20 + 10 * part(1), 0.05F + 0.05F * part(2), 0.01F * part(3)}};
    }

    const Device device;
    const Program program = device.build(monte_carlo_source);
    const Kernel kernel = make_kernel(program, "asian_option");
    const Buffer all = device.holding(sold);
    const Buffer prices = device.room<float>(count);
    set_arguments(kernel, all, prices, cl_int(options.iterations), cl_int(steps));
    const double seconds = measure(device, options.repeat, [&] { device.launch(kernel, {count}); });

    if (options.check) {
        std::vector<double> expected;
        for (std::size_t i = 0; i < count; ++i)
            expected.push_back(price(sold[i], i, options.iterations, steps));
        expect_close("prices", device.get<float>(prices, count), expected, 1e-3);
    }
    return seconds;
}

int main(int argc, char **argv) {
    return run({"monte_carlo",
                "Prices Asian options over random paths.",
                "options",
                "paths of each",
                {.size = "4096", .iterations = 1536}},
               argc, argv, compute);
}
