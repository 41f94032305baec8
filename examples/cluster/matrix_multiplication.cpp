// C = A B for square matrices in single precision. Each device has all of B, some rows of A and C.
//
// Rows move in blocks and B moves in panels, in separate queues, so that copies overlap with
// computation. The first block is large, so that the copy of B overlaps with it. The last block is
// small, because no computation overlaps with its copy to the host.

#include <algorithm>

#include "common.hpp"
#include "matrix_multiplication_cl.hpp"

using namespace cluster;

static std::vector<Range> pieces(const Range &rows, std::size_t count) {
    std::vector<Range> all;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t first = rows.count * i / count;
        all.push_back({rows.first + first, rows.count * (i + 1) / count - first});
    }
    return all;
}

// Makes each piece a quarter of the rest, but not smaller than `least` if there is more than one.
static std::vector<Range> shrinking_pieces(const Range &rows, std::size_t least) {
    std::vector<Range> all;
    for (Range left = rows; left.count != 0;) {
        const std::size_t count =
            left.count < 2 * least ? left.count : std::max(left.count / 4, least);
        all.push_back({left.first, count});
        left = {left.first + count, left.count - count};
    }
    return all;
}

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
    constexpr std::size_t least = 512;
    const std::size_t panels = std::clamp<std::size_t>(n / least, 1, 16);
    struct Block {
        Range rows;
        Buffer a, c;
        Events computed;
    };
    struct Panel {
        Range rows;
        Buffer b;
    };
    struct Device {
        cl_command_queue queue;
        Queue copies;
        Kernel kernel;
        std::vector<Block> blocks;
        std::vector<Panel> panels;
    };
    std::vector<Device> parts;
    std::size_t most_blocks = 0;
    for (int device = 0; device < devices.count(); ++device) {
        Device &part = parts.emplace_back(Device{devices.queue(device),
                                                 devices.make_queue(device),
                                                 make_kernel(program, "matrix_multiplication"),
                                                 {},
                                                 {}});
        for (const Range &rows : shrinking_pieces(devices.share(n, device), least))
            part.blocks.push_back({rows,
                                   devices.buffer(rows.count * n * sizeof(float), CL_MEM_READ_ONLY),
                                   devices.buffer(rows.count * n * sizeof(float)),
                                   {}});
        for (const Range &rows : pieces({0, n}, panels))
            part.panels.push_back(
                {rows, devices.buffer(rows.count * n * sizeof(float), CL_MEM_READ_ONLY)});
        most_blocks = std::max(most_blocks, part.blocks.size());
    }
    const auto rows_of = [n](auto &matrix, const Range &rows) {
        return std::span(matrix).subspan(rows.first * n, rows.count * n);
    };
    const auto compute = [&](Device &part, Block &block) {
        const bool is_first = &block == &part.blocks.front();
        Events written;
        write<float>(part.copies.get(), block.a, rows_of(a, block.rows), written.put());
        block.computed.clear();
        for (Panel &panel : part.panels) {
            if (is_first) {
                written.clear();
                write<float>(part.copies.get(), panel.b, rows_of(b, panel.rows), written.put());
            }
            flush(part.copies.get());
            set_arguments(part.kernel, block.a, panel.b, block.c, cl_uint(block.rows.count),
                          cl_uint(n), cl_uint(panel.rows.first), cl_uint(panel.rows.count));
            const bool is_last = &panel == &part.panels.back();
            // The copies queue is in-order, so earlier writes are complete, too.
            launch(part.queue, part.kernel, {round_up(n, tile), round_up(block.rows.count, tile)},
                   {tile, tile}, written, is_last ? block.computed.put() : nullptr);
            flush(part.queue);
        }
    };
    const auto fetch = [&](Device &part, Block &block) {
        const auto rows = rows_of(c, block.rows);
        check(clEnqueueReadBuffer(part.copies.get(), block.c.get(), CL_FALSE, 0, rows.size_bytes(),
                                  rows.data(), block.computed.count(), block.computed.data(),
                                  nullptr),
              "clEnqueueReadBuffer");
        flush(part.copies.get());
    };
    const double seconds = measure(devices, options.repeat, [&] {
        // Reads a block only after enqueueing the next one, because some drivers block in a read
        // until it is complete.
        for (std::size_t i = 0; i <= most_blocks; ++i)
            for (Device &part : parts) {
                if (i < part.blocks.size()) compute(part, part.blocks[i]);
                if (i > 0 && i <= part.blocks.size()) fetch(part, part.blocks[i - 1]);
            }
        for (const Device &part : parts) check(clFinish(part.copies.get()), "clFinish");
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
    return run({"matrix_multiplication",
                "Multiplies two square matrices.",
                "rows and columns",
                nullptr,
                {.size = "512"}},
               argc, argv, multiply);
}
