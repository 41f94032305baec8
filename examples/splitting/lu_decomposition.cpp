// LU decomposition of a matrix in place. Each launch processes a smaller part of the matrix.

#include "lu_decomposition_cl.hpp"
#include "splitting.hpp"

using namespace splitting;

static std::vector<double> reference(const std::vector<float> &matrix, std::size_t size) {
    std::vector<double> m(matrix.begin(), matrix.end());
    for (std::size_t k = 0; k < size; ++k)
        for (std::size_t y = k + 1; y < size; ++y) {
            m[y * size + k] /= m[k * size + k];
            for (std::size_t x = k + 1; x < size; ++x)
                m[y * size + x] -= m[y * size + k] * m[k * size + x];
        }
    return m;
}

static double compute(const Options &options) {
    constexpr std::size_t block = 16;
    const auto size = std::size_t(number(options.size.c_str(), 1));
    if (size % block != 0) refuse("the number of rows must be a multiple of 16");
    std::vector<float> matrix(size * size);
    for (std::size_t i = 0; i < matrix.size(); ++i)
        matrix[i] = noise(cl_uint(i)) + (i % (size + 1) == 0 ? float(size) : 0.0F);

    const Device device;
    const Program program = device.build(lu_decomposition_source, fmt::format("-DBLOCK={}", block));
    const Kernel diagonal = make_kernel(program, "lu_diagonal");
    const Kernel row = make_kernel(program, "lu_row");
    const Kernel column = make_kernel(program, "lu_column");
    const Kernel inner = make_kernel(program, "lu_inner");
    const Buffer buffer = device.room<float>(matrix.size());
    const double seconds = measure(
        device, options.repeat, [&] { device.put(buffer, matrix); },
        [&] {
            for (std::size_t k = 0; k < size; k += block) {
                const auto set = [&](const Kernel &kernel) {
                    set_arguments(kernel, buffer, cl_int(size), cl_int(k));
                };
                set(diagonal);
                device.launch(diagonal, {block}, {block});
                const std::size_t rest = size - k - block;
                if (rest == 0) break;
                set(row);
                device.launch(row, {rest}, {block});
                set(column);
                device.launch(column, {rest}, {block});
                set(inner);
                device.launch(inner, {rest, rest}, {block, block});
            }
        });

    if (options.check)
        expect_close("matrix", device.get<float>(buffer, matrix.size()), reference(matrix, size),
                     1e-3);
    return seconds;
}

int main(int argc, char **argv) {
    return run({"lu_decomposition",
                "Decomposes a matrix.",
                "rows, a multiple of 16",
                nullptr,
                {.size = "512"}},
               argc, argv, compute);
}
