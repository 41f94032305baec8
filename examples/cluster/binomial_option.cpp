// Values American put options on a binomial lattice. Each work-group values one option, and each
// device has a part of the options.

#include "binomial_option_cl.hpp"
#include "common.hpp"

#include <cmath>

using namespace cluster;

namespace {

constexpr double rate = 0.06, volatility = 0.3, years = 1.0;

/// `up` is the factor by which a price rises in a step. The chances are the discounted
/// probabilities that it rises or falls.
struct Model {
    double up, chance_up, chance_down;

    explicit Model(int steps) {
        const double step = years / steps, discount = std::exp(-rate * step);
        up = std::exp(volatility * std::sqrt(step));
        const double chance = (std::exp(rate * step) - 1 / up) / (up - 1 / up);
        chance_up = discount * chance;
        chance_down = discount * (1 - chance);
    }
};

double reference(double price, double strike, int steps) {
    const Model model(steps);
    const auto exercised = [&](int step, int node) {
        return strike - price * std::pow(model.up, 2 * node - step);
    };
    std::vector<double> value(std::size_t(steps) + 1);
    for (int node = 0; node <= steps; ++node)
        value[std::size_t(node)] = std::max(exercised(steps, node), 0.0);
    for (int step = steps - 1; step >= 0; --step)
        for (int node = 0; node <= step; ++node) {
            const auto n = std::size_t(node);
            value[n] = std::max(model.chance_up * value[n + 1] + model.chance_down * value[n],
                                exercised(step, node));
        }
    return value[0];
}

Result price(const Options &options) {
    const auto size = std::size_t(number(options.size.c_str(), 1));
    const int steps = options.iterations;
    std::vector<float> prices, strikes, values(size);
    for (std::size_t i = 0; i < size; ++i) {
        prices.push_back(50.0f + 100.0f * noise(cl_uint(2 * i)));
        strikes.push_back(50.0f + 100.0f * noise(cl_uint(2 * i + 1)));
    }

    const Devices devices(options.devices, size);
    const Program program = devices.build(binomial_option_source);
    const std::size_t group = devices.group_size(64);
    const Model model(steps);
    struct Part {
        Range range;
        Buffer prices, strikes, values;
        Kernel kernel;
    };
    std::vector<Part> parts;
    for (int device = 0; device < devices.count(); ++device) {
        const Range range = devices.share(size, device);
        const std::size_t bytes = range.count * sizeof(float);
        parts.push_back({range, devices.buffer(bytes, CL_MEM_READ_ONLY),
                         devices.buffer(bytes, CL_MEM_READ_ONLY),
                         devices.buffer(bytes, CL_MEM_WRITE_ONLY),
                         make_kernel(program, "binomial_option")});
        const Part &part = parts.back();
        set_arguments(part.kernel, part.prices, part.strikes, part.values,
                      Local{2 * (std::size_t(steps) + 1) * sizeof(float)}, cl_uint(steps),
                      float(model.up), float(model.chance_up), float(model.chance_down));
    }

    const double seconds = measure(devices, options.repeat, [&] {
        for (int device = 0; device < devices.count(); ++device) {
            const auto &[range, price_part, strike_part, value_part, kernel] =
                parts[std::size_t(device)];
            const cl_command_queue queue = devices.queue(device);
            write(queue, price_part,
                  std::span<const float>(prices).subspan(range.first, range.count));
            write(queue, strike_part,
                  std::span<const float>(strikes).subspan(range.first, range.count));
            launch(queue, kernel, {range.count * group}, {group});
            flush(queue);
        }
        for (int device = 0; device < devices.count(); ++device) {
            const Part &part = parts[std::size_t(device)];
            read(devices.queue(device), part.values, CL_TRUE,
                 std::span(values).subspan(part.range.first, part.range.count));
        }
    });

    if (options.check)
        check_elements("value", values, 30, 2e-3,
                       [&](std::size_t i) { return reference(prices[i], strikes[i], steps); });
    // Counts 9 operations per node: 3 for the value of keeping the option, 5 for the value of
    // exercising it (with one exponential), and 1 for the larger value.
    return {fmt::format("{} options, {} steps", size, steps), devices.count(), seconds,
            9.0 * double(size) * steps * (steps + 1) / 2};
}

}  // namespace

int main(int argc, char **argv) {
    return run({"binomial_option",
                "Values American put options.",
                "options",
                "steps of the lattice",
                {.size = "256", .iterations = 254}},
               argc, argv, price);
}
