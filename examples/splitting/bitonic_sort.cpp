// Bitonic sort. A launch has one dimension for blocks and one for positions in a block, so that it
// can be split even if there is only one block.

#include "bitonic_sort_cl.hpp"
#include "splitting.hpp"

#include <bit>

using namespace splitting;

static double sort(const Options &options) {
    const auto count = std::size_t(number(options.size.c_str(), 2));
    if (!std::has_single_bit(count)) refuse("the number of elements must be a power of two");
    std::vector<cl_uint> data(count);
    for (std::size_t i = 0; i < count; ++i)
        data[i] = cl_uint(noise(cl_uint(i)) * 0x1p24F) * 251U + cl_uint(i % 7);

    const Device device;
    const Program program = device.build(bitonic_sort_source);
    const Kernel kernel = make_kernel(program, "compare");
    const Buffer buffer = device.room<cl_uint>(count);
    const std::size_t most = device.group_size(64);
    const double seconds = measure(
        device, options.repeat, [&] { device.put(buffer, data); },
        [&] {
            for (std::size_t length = 2; length <= count; length *= 2)
                for (std::size_t distance = length / 2; distance > 0; distance /= 2) {
                    set_arguments(kernel, buffer, cl_uint(distance), cl_uint(length));
                    const std::size_t blocks = count / 2 / distance;
                    const std::size_t wide = std::min(distance, most);
                    device.launch(kernel, {distance, blocks},
                                  {wide, std::min(blocks, most / wide)});
                }
        });

    if (options.check) {
        std::sort(data.begin(), data.end());
        expect_same("data", device.get<cl_uint>(buffer, count), data);
    }
    return seconds;
}

int main(int argc, char **argv) {
    return run({"bitonic_sort",
                "Sorts numbers.",
                "elements, a power of two",
                nullptr,
                {.size = "1048576"}},
               argc, argv, sort);
}
