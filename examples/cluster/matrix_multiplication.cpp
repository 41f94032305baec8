// C = A B for square matrices in single precision: each device has some rows of A and C; all share B.

#include "common.hpp"
#include "matrix_multiplication_cl.hpp"

using namespace cluster;

static Result multiply(const Options &options) {
    const auto n = std::size_t(number(options.size.c_str(), 1));
    std::vector<float> a(n * n), b(n * n), c(n * n);
    for (std::size_t i = 0; i < n * n; ++i) {
        a[i] = noise(cl_uint(2 * i)) - 0.5f;
        b[i] = noise(cl_uint(2 * i + 1)) - 0.5f;
    }

    const Devices devices(options.devices, n);
    std::size_t tile = 16;
    while (tile * tile > devices.group_size(tile * tile)) tile /= 2;
    const Program program = devices.build(matrix_multiplication_source, fmt::format("-DTILE={}", tile));
    const Buffer b_buffer = devices.buffer(n * n * sizeof(float), CL_MEM_READ_ONLY);
    struct Slice {
        Range rows;
        Buffer a, c;
        Kernel kernel;
    };
    std::vector<Slice> slices;
    for (int device = 0; device < devices.count(); ++device) {
        const Range rows = devices.share(n, device);
        const std::size_t bytes = rows.count * n * sizeof(float);
        slices.push_back({rows, devices.buffer(bytes, CL_MEM_READ_ONLY), devices.buffer(bytes, CL_MEM_WRITE_ONLY),
                          make_kernel(program, "matrix_multiplication")});
        const Slice &slice = slices.back();
        set_arguments(slice.kernel, slice.a, b_buffer, slice.c, cl_uint(rows.count), cl_uint(n));
    }

    const double seconds = measure(devices, options.repeat, [&] {
        // The host writes B once; how it gets to the other devices is the platform's business.
        Events b_written;
        write(devices.queue(0), b_buffer, std::span<const float>(b), b_written.put());
        flush(devices.queue(0));
        for (int device = 0; device < devices.count(); ++device) {
            const auto &[rows, a_slice, c_slice, kernel] = slices[std::size_t(device)];
            const cl_command_queue queue = devices.queue(device);
            write(queue, a_slice, std::span<const float>(a).subspan(rows.first * n, rows.count * n));
            launch(queue, kernel, {round_up(n, tile), round_up(rows.count, tile)}, {tile, tile}, b_written);
            read(queue, c_slice, CL_FALSE, std::span(c).subspan(rows.first * n, rows.count * n));
            flush(queue);
        }
    });

    if (options.check)
        check_elements("C", c, 20'000, 1e-6 * double(n), [&](std::size_t at) {
            const std::size_t row = at / n, column = at % n;
            double sum = 0;
            for (std::size_t k = 0; k < n; ++k) sum += double(a[row * n + k]) * b[k * n + column];
            return sum;
        });
    // A multiplication and an addition for each k of each element.
    return {fmt::format("{0} x {0}", n), devices.count(), seconds, 2.0 * double(n) * double(n) * double(n)};
}

int main(int argc, char **argv) {
    return run(
        {"matrix_multiplication", "Multiplies two square matrices.", "rows and columns", nullptr, {.size = "512"}},
        argc, argv, multiply);
}
