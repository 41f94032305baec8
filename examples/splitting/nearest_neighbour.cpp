// Finds the places nearest to a given place. The device computes the distances, and the host
// selects the smallest ones.

#include "nearest_neighbour_cl.hpp"
#include "splitting.hpp"

#include <numeric>

using namespace splitting;

static std::vector<std::size_t> nearest(const std::vector<float> &distances, std::size_t count) {
    std::vector<std::size_t> places(distances.size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    count = std::min(count, places.size());
    std::partial_sort(places.begin(), places.begin() + std::ptrdiff_t(count), places.end(),
                      [&](std::size_t a, std::size_t b) {
                          return std::pair(distances[a], a) < std::pair(distances[b], b);
                      });
    places.resize(count);
    return places;
}

static double find(const Options &options) {
    const auto count = std::size_t(number(options.size.c_str(), 1));
    std::vector<cl_float2> places(count);
    for (std::size_t i = 0; i < count; ++i)
        places[i] = {{noise(cl_uint(2 * i)), noise(cl_uint(2 * i + 1))}};
    const float x = 0.25F;
    const float y = 0.75F;

    const Device device;
    const Program program = device.build(nearest_neighbour_source);
    const Kernel kernel = make_kernel(program, "squared_distances");
    const Buffer all = device.holding(places);
    const Buffer distances = device.room<float>(count);
    set_arguments(kernel, all, distances, x, y);
    std::vector<std::size_t> found;
    const double seconds = measure(device, options.repeat, [&] {
        device.launch(kernel, {count});
        found = nearest(device.get<float>(distances, count), 5);
    });

    if (options.check) {
        std::vector<float> expected(count);
        for (std::size_t i = 0; i < count; ++i) {
            const float across = places[i].s[0] - x;
            const float up = places[i].s[1] - y;
            expected[i] = across * across + up * up;
        }
        expect_same("distances", device.get<float>(distances, count), expected);
        expect_same("nearest", found, nearest(expected, 5));
    }
    return seconds;
}

int main(int argc, char **argv) {
    return run({"nearest_neighbour",
                "Finds the five places that are nearest to a given one.",
                "places",
                nullptr,
                {.size = "1000000"}},
               argc, argv, find);
}
