// C = A B for square matrices in single precision, with the kernel of matrix_multiplication. Each
// device has some rows of all three matrices. The devices take turns to broadcast their rows of B,
// and all devices add the products to their rows of C. Broadcasts use separate queues and two
// buffers, so the next broadcast overlaps with the computation.

#include "collective.hpp"
#include "matrix_multiplication_cl.hpp"

#include <algorithm>

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
    const Program program =
        devices.build(matrix_multiplication_source, fmt::format("-DTILE={}", tile));
    const Kernel kernel = make_kernel(program, "matrix_multiplication");
    struct Part {
        Range rows;
        Queue copies;
        Buffer a, b, c;
        Buffer panels[2];  ///< rows of B from a broadcast
    };
    std::vector<Part> parts;
    std::size_t most_rows = 0;
    for (int device = 0; device < devices.count(); ++device)
        most_rows = std::max(most_rows, devices.share(n, device).count);
    for (int device = 0; device < devices.count(); ++device) {
        Part &part = parts.emplace_back(
            Part{devices.share(n, device), devices.make_queue(device), {}, {}, {}, {}});
        part.a = devices.buffer(part.rows.count * n * sizeof(float), CL_MEM_READ_ONLY);
        for (Buffer *buffer : {&part.b, &part.c})
            *buffer = devices.buffer(part.rows.count * n * sizeof(float));
        for (Buffer &panel : part.panels) panel = devices.buffer(most_rows * n * sizeof(float));
    }
    const auto rows_of = [n](auto &matrix, const Range &rows) {
        return std::span(matrix).subspan(rows.first * n, rows.count * n);
    };

    const double seconds = measure(devices, options.repeat, [&] {
        for (std::size_t i = 0; i < parts.size(); ++i) {
            write<float>(parts[i].copies.get(), parts[i].b, rows_of(b, parts[i].rows));
            write<float>(devices.queue(int(i)), parts[i].a, rows_of(a, parts[i].rows));
        }
        Events computed[2];  // kernels that read each panel buffer
        for (std::size_t root = 0; root < parts.size(); ++root) {
            const Range rows = parts[root].rows;
            Events &reading = computed[root % 2];
            std::vector<cl_command_queue> queues;
            std::vector<cl_mem> panels;
            for (std::size_t i = 0; i < parts.size(); ++i) {  // the root comes first
                const Part &to = parts[(root + i) % parts.size()];
                queues.push_back(to.copies.get());
                panels.push_back(to.panels[root % 2].get());
            }
            Events arrived;
            check(
                clEnqueueBroadcastBuffer(queues.data(), parts[root].b.get(), cl_uint(parts.size()),
                                         panels.data(), 0, nullptr, rows.count * n * sizeof(float),
                                         reading.count(), reading.data(), arrived.put()),
                "clEnqueueBroadcastBuffer");
            reading.clear();
            for (std::size_t i = 0; i < parts.size(); ++i) {
                set_arguments(kernel, parts[i].a, parts[i].panels[root % 2], parts[i].c,
                              cl_uint(parts[i].rows.count), cl_uint(n), cl_uint(rows.first),
                              cl_uint(rows.count));
                launch(devices.queue(int(i)), kernel,
                       {round_up(n, tile), round_up(parts[i].rows.count, tile)}, {tile, tile},
                       arrived, reading.put());
                flush(devices.queue(int(i)));
            }
        }
        for (std::size_t i = 0; i < parts.size(); ++i)
            read(devices.queue(int(i)), parts[i].c, CL_FALSE, rows_of(c, parts[i].rows));
    });

    if (options.check)
        check_elements("C", c, 20'000, 1e-6 * double(n), [&](std::size_t at) {
            const std::size_t row = at / n, column = at % n;
            double sum = 0;
            for (std::size_t k = 0; k < n; ++k) sum += double(a[row * n + k]) * b[k * n + column];
            return sum;
        });
    // Counts a multiplication and an addition for each k of each element.
    return {fmt::format("{0} x {0}", n), devices.count(), seconds,
            2.0 * double(n) * double(n) * double(n)};
}

int main(int argc, char **argv) {
    return run({"matrix_broadcast",
                "Multiplies two square matrices; the devices broadcast their rows.",
                "rows and columns",
                nullptr,
                {.size = "512"}},
               argc, argv, multiply);
}
