// Computes the potential of charged atoms on a cubic grid, like the benchmark cp of Parboil. Each
// device has a slice of the grid. All devices share the atoms, which come in batches that fit into
// constant memory.

#include "common.hpp"
#include "coulombic_potential_cl.hpp"

#include <array>
#include <cmath>

using namespace cluster;

namespace {

constexpr std::size_t batch = 512;  ///< atoms: 8 KiB of the 64 KiB that every device has
constexpr float box = 10.0f;        ///< edge of the grid

Result potential(const Options &options) {
    const auto n = std::size_t(number(options.size.c_str(), 2));
    const std::size_t plane = n * n;
    const float spacing = box / float(n - 1);
    // x, y, z, charge of each atom
    std::vector<std::array<float, 4>> atoms(std::size_t(options.iterations) * batch);
    for (std::size_t i = 0; i < atoms.size(); ++i) {
        for (std::size_t axis = 0; axis < 3; ++axis)
            atoms[i][axis] = box * noise(cl_uint(4 * i + axis));
        atoms[i][3] = noise(cl_uint(4 * i + 3)) - 0.5f;
    }
    std::vector<float> grid(n * plane);

    const Devices devices(options.devices, n);
    const Program program = devices.build(coulombic_potential_source);
    std::vector<Buffer> batches;
    for (std::size_t first = 0; first < atoms.size(); first += batch)
        batches.push_back(devices.buffer(batch * sizeof atoms[0],
                                         CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, &atoms[first]));
    struct Slice {
        Range planes;
        Buffer potential;
    };
    std::vector<Slice> slices;
    for (int device = 0; device < devices.count(); ++device) {
        const Range planes = devices.share(n, device);
        slices.push_back({planes, devices.buffer(planes.count * plane * sizeof(float))});
    }
    const Kernel kernel = make_kernel(program, "coulombic_potential");

    const double seconds = measure(devices, options.repeat, [&] {
        for (int device = 0; device < devices.count(); ++device) {
            const auto &[planes, slice] = slices[std::size_t(device)];
            const cl_command_queue queue = devices.queue(device);
            fill(queue, slice, 0.0f, 0, planes.count * plane);
            for (const Buffer &some : batches) {
                set_arguments(kernel, some, cl_uint(batch), slice, cl_uint(planes.first), spacing);
                launch(queue, kernel, {n, n, planes.count});
            }
            read(queue, slice, CL_FALSE,
                 std::span(grid).subspan(planes.first * plane, planes.count * plane));
            flush(queue);
        }
    });

    if (options.check) {
        check_elements("potential", grid, 5'000, 1e-3, [&](std::size_t at) {
            const std::size_t index[] = {at % n, at / n % n, at / plane};
            double sum = 0;
            for (const std::array<float, 4> &atom : atoms) {
                double square = 0;
                for (std::size_t axis = 0; axis < 3; ++axis) {
                    const double way = double(spacing) * double(index[axis]) - atom[axis];
                    square += way * way;
                }
                sum += atom[3] / std::sqrt(square);
            }
            return sum;
        });
    }
    // Counts 11 operations per point and atom. The differences take 3 and the squared distance 5.
    // Its inverse root, the product with the charge and the sum take 1 each.
    return {fmt::format("{0} x {0} x {0}, {1} atoms", n, atoms.size()), devices.count(), seconds,
            11.0 * double(grid.size()) * double(atoms.size())};
}

}  // namespace

int main(int argc, char **argv) {
    return run({"coulombic_potential",
                "Computes the electric potential of atoms on a cubic grid.",
                "points along an edge of the grid",
                "batches of 512 atoms",
                {.size = "48", .iterations = 2}},
               argc, argv, potential);
}
