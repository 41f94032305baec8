// Adds two vectors. Each device has a part of them, as in Figure 3 of the SnuCL paper.

#include "common.hpp"
#include "vector_addition_cl.hpp"

using namespace cluster;

static Result add(const Options &options) {
    const auto size = std::size_t(number(options.size.c_str(), 1));
    std::vector<float> a(size), b(size), c(size);
    for (std::size_t i = 0; i < size; ++i) {
        a[i] = noise(cl_uint(2 * i));
        b[i] = noise(cl_uint(2 * i + 1));
    }

    const Devices devices(options.devices, size);
    const Program program = devices.build(vector_addition_source);
    struct Piece {
        Range range;
        Buffer a, b, c;
        Kernel kernel;
    };
    std::vector<Piece> pieces;
    for (int device = 0; device < devices.count(); ++device) {
        const Range range = devices.share(size, device);
        const std::size_t bytes = range.count * sizeof(float);
        pieces.push_back({range, devices.buffer(bytes, CL_MEM_READ_ONLY),
                          devices.buffer(bytes, CL_MEM_READ_ONLY),
                          devices.buffer(bytes, CL_MEM_WRITE_ONLY),
                          make_kernel(program, "vector_addition")});
        const Piece &piece = pieces.back();
        set_arguments(piece.kernel, piece.a, piece.b, piece.c, cl_uint(range.count));
    }

    const double seconds = measure(devices, options.repeat, [&] {
        for (int device = 0; device < devices.count(); ++device) {
            const auto &[range, a_piece, b_piece, c_piece, kernel] = pieces[std::size_t(device)];
            const cl_command_queue queue = devices.queue(device);
            write(queue, a_piece, std::span<const float>(a).subspan(range.first, range.count));
            write(queue, b_piece, std::span<const float>(b).subspan(range.first, range.count));
            launch(queue, kernel, {round_up(range.count, 64)});
            flush(queue);
        }
        for (int device = 0; device < devices.count(); ++device) {
            const Piece &piece = pieces[std::size_t(device)];
            read(devices.queue(device), piece.c, CL_TRUE,
                 std::span(c).subspan(piece.range.first, piece.range.count));
        }
    });

    if (options.check) check_elements("c", c, size, 0, [&](std::size_t i) { return a[i] + b[i]; });
    // Counts one addition per element.
    return {fmt::format("{}", size), devices.count(), seconds, double(size)};
}

int main(int argc, char **argv) {
    return run({"vector_addition", "Adds two vectors.", "elements", nullptr, {.size = "4000000"}},
               argc, argv, add);
}
