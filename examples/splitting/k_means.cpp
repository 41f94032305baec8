// k-means: the device finds the nearest centres, and the host moves the centres.

#include "k_means_cl.hpp"
#include "splitting.hpp"

using namespace splitting;

namespace {

constexpr std::size_t features = 8;
constexpr std::size_t clusters = 5;

std::vector<float> moved(const std::vector<float> &points, const std::vector<cl_int> &nearest) {
    std::vector<double> sums(clusters * features);
    std::vector<double> counts(clusters);
    for (std::size_t i = 0; i < nearest.size(); ++i) {
        const auto c = std::size_t(nearest[i]);
        ++counts[c];
        for (std::size_t f = 0; f < features; ++f)
            sums[c * features + f] += points[i * features + f];
    }
    std::vector<float> centres(sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i)
        centres[i] = float(sums[i] / std::max(1.0, counts[i / features]));
    return centres;
}

std::vector<cl_int> nearest_of(const std::vector<float> &points,
                               const std::vector<float> &centres) {
    std::vector<cl_int> nearest;
    for (std::size_t i = 0; i < points.size() / features; ++i) {
        float least = INFINITY;
        cl_int at = 0;
        for (std::size_t c = 0; c < clusters; ++c) {
            float square = 0;
            for (std::size_t f = 0; f < features; ++f) {
                const float way = points[i * features + f] - centres[c * features + f];
                square += way * way;
            }
            if (square < least) {
                least = square;
                at = cl_int(c);
            }
        }
        nearest.push_back(at);
    }
    return nearest;
}

double compute(const Options &options) {
    const auto count = std::size_t(number(options.size.c_str(), int(clusters)));
    std::vector<float> points(count * features);
    for (std::size_t i = 0; i < points.size(); ++i) points[i] = noise(cl_uint(i));
    const std::vector<float> first(points.begin(), points.begin() + clusters * features);

    const Device device;
    const Program program = device.build(k_means_source);
    const Kernel kernel = make_kernel(program, "nearest_centres");
    const Buffer all = device.holding(points);
    const Buffer centres = device.room<float>(first.size());
    const Buffer nearest = device.room<cl_int>(count);
    set_arguments(kernel, all, centres, nearest, cl_int(features), cl_int(clusters));
    std::vector<float> now;
    const double seconds = measure(device, options.repeat, [&] {
        now = first;
        for (int n = 0; n < options.iterations; ++n) {
            device.put(centres, now);
            device.launch(kernel, {count});
            now = moved(points, device.get<cl_int>(nearest, count));
        }
    });

    if (options.check) {
        std::vector<float> expected = first;
        for (int n = 0; n < options.iterations; ++n)
            expected = moved(points, nearest_of(points, expected));
        expect_same("centres", now, expected);
    }
    return seconds;
}

}  // namespace

int main(int argc, char **argv) {
    return run({"k_means",
                "Finds groups of points.",
                "points",
                "iterations",
                {.size = "100000", .iterations = 5}},
               argc, argv, compute);
}
