// Trains one layer of a neural network. The device adds the contributions of input nodes to hidden
// nodes, the host computes the error, and the device adjusts the weights.

#include "back_propagation_cl.hpp"
#include "splitting.hpp"

using namespace splitting;

namespace {

constexpr std::size_t hidden = 16;
constexpr std::size_t rows = 16;  // rows per work-group
constexpr float rate = 0.3F;
constexpr float momentum = 0.3F;

// Returns the change of each hidden node's sum that brings its output nearer to one half.
std::vector<float> deltas(const std::vector<float> &sums) {
    std::vector<float> total(hidden);
    for (std::size_t i = 0; i < sums.size(); ++i) total[i % hidden] += sums[i];
    for (float &each : total) {
        const float output = 1 / (1 + std::exp(-each));
        each = output * (1 - output) * (0.5F - output);
    }
    return total;
}

// Adds in the same order as a work-group.
std::vector<float> sums_of(const std::vector<float> &input, const std::vector<float> &weights) {
    std::vector<float> sums;
    for (std::size_t first = 0; first < input.size(); first += rows)
        for (std::size_t x = 0; x < hidden; ++x) {
            std::vector<float> products;
            for (std::size_t y = first; y < first + rows; ++y)
                products.push_back(input[y] * weights[y * hidden + x]);
            for (std::size_t n = rows / 2; n > 0; n /= 2)
                for (std::size_t y = 0; y < n; ++y) products[y] += products[y + n];
            sums.push_back(products[0]);
        }
    return sums;
}

double compute(const Options &options) {
    const auto count = std::size_t(number(options.size.c_str(), 1));
    if (count % rows != 0) refuse("the number of input nodes must be a multiple of 16");
    std::vector<float> input(count);
    std::vector<float> weights(count * hidden);
    for (std::size_t i = 0; i < count; ++i) input[i] = noise(cl_uint(i));
    for (std::size_t i = 0; i < weights.size(); ++i)
        weights[i] = (noise(cl_uint(i)) - 0.5F) / float(count);
    const std::vector<float> none(weights.size());

    const Device device;
    const Program program = device.build(back_propagation_source);
    const Kernel forward = make_kernel(program, "forward");
    const Kernel adjust = make_kernel(program, "adjust");
    const Buffer given = device.holding(input);
    const Buffer weighted = device.room<float>(weights.size());
    const Buffer changes = device.room<float>(weights.size());
    const Buffer delta = device.room<float>(hidden);
    const std::size_t groups = count / rows;
    const Buffer sums = device.room<float>(groups * hidden);
    set_arguments(forward, given, weighted, sums, cl_int(hidden),
                  Local{rows * hidden * sizeof(float)});
    set_arguments(adjust, weighted, changes, given, delta, cl_int(hidden), rate, momentum);
    std::vector<float> wrong;
    const double seconds = measure(
        device, options.repeat,
        [&] {
            device.put(weighted, weights);
            device.put(changes, none);
        },
        [&] {
            for (int n = 0; n < options.iterations; ++n) {
                device.launch(forward, {hidden, count}, {hidden, rows});
                wrong = deltas(device.get<float>(sums, groups * hidden));
                device.put(delta, wrong);
                device.launch(adjust, {hidden, count}, {hidden, rows});
                check(clFinish(device.queue()), "clFinish");
            }
        });

    if (options.check) {
        std::vector<float> change = none;
        for (int n = 0; n < options.iterations; ++n) {
            const std::vector<float> by = deltas(sums_of(input, weights));
            for (std::size_t i = 0; i < weights.size(); ++i) {
                change[i] = rate * by[i % hidden] * input[i / hidden] + momentum * change[i];
                weights[i] += change[i];
            }
        }
        expect_same("weights", device.get<float>(weighted, weights.size()), weights);
    }
    return seconds;
}

}  // namespace

int main(int argc, char **argv) {
    return run({"back_propagation",
                "Teaches one layer of a neural network.",
                "input nodes, a multiple of 16",
                "times that it learns",
                {.size = "65536", .iterations = 1}},
               argc, argv, compute);
}
