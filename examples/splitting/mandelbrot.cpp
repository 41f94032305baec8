// The Mandelbrot set. Points inside it need the most iterations, so the load is uneven.

#include "mandelbrot_cl.hpp"
#include "splitting.hpp"

using namespace splitting;

static double draw(const Options &options) {
    const auto side = std::size_t(number(options.size.c_str(), 1));
    const float left = 0;
    const float bottom = -0.25F;
    const float step = 0.5F / float(side);

    const Device device;
    const Program program = device.build(mandelbrot_source);
    const Kernel kernel = make_kernel(program, "mandelbrot");
    const Buffer rounds = device.room<cl_int>(side * side);
    set_arguments(kernel, rounds, cl_int(side), left, bottom, step, cl_int(options.iterations));
    const double seconds = measure(device, options.repeat, [&] {
        device.launch(kernel, {side, side});
    });

    if (options.check) {
        std::vector<cl_int> expected;
        for (std::size_t point = 0; point < side * side; ++point) {
            const float re = left + step * float(point % side);
            const float im = bottom + step * float(point / side);
            float a = 0;
            float b = 0;
            cl_int n = 0;
            while (n < options.iterations && a * a + b * b <= 4) {
                const float next = a * a - b * b + re;
                b = 2 * a * b + im;
                a = next;
                ++n;
            }
            expected.push_back(n);
        }
        expect_same("rounds", device.get<cl_int>(rounds, side * side), expected);
    }
    return seconds;
}

int main(int argc, char **argv) {
    return run({"mandelbrot",
                "Computes a part of the Mandelbrot set.",
                "points on a side",
                "rounds at most",
                {.size = "1024", .iterations = 1000}},
               argc, argv, draw);
}
