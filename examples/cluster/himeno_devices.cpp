// The Himeno benchmark on several devices of one context, with the kernel and the reference of
// ../himeno. Each device has a slab of the grid and computes its outer planes first. The neighbours
// fetch these planes in separate queues while the device computes its inner planes. Only events
// order the commands. The host waits at the end, when it reads gosa.

#include "common.hpp"
#include "grid.hpp"
#include "jacobi.hpp"
#include "reference.hpp"

using namespace cluster;

namespace {

using himeno::Grid;

/// The planes of a device, 1 to `count`, between two halo planes. Two buffers hold the pressure
/// before and after an iteration.
struct Slab {
    Range planes{};  ///< of the grid
    Queue copies{};
    Buffer a{}, b{}, c{}, wrk1{}, bnd{}, partial{}, pressure[2]{};
    Kernel kernel[2]{};
    Events fetched{};                    ///< copies of both halos for the next iteration
    Events low_computed, high_computed;  ///< kernels of this iteration's outer planes

    std::size_t stored() const { return planes.count + 2; }
};

class Solver {
public:
    Solver(const Devices &devices, const Grid &grid)
        : devices_(devices),
          grid_(grid),
          group_(devices.group_size(std::min<std::size_t>(std::size_t(grid.kmax), 256))) {
        const Program program = devices.build(
            jacobi_source,
            fmt::format("-DROWS={} -DCOLUMNS={} -DGROUP={}", grid.jmax, grid.kmax, group_));
        slabs_.resize(std::size_t(devices.count()));
        for (int device = 0; device < devices.count(); ++device) {
            Slab &slab = slabs_[std::size_t(device)];
            slab.planes = devices.share(std::size_t(grid.imax - 2), device);
            ++slab.planes.first;
            slab.copies = devices.make_queue(device);
            const std::size_t points = slab.stored() * grid.plane();
            const auto field = [&](Buffer &buffer, std::span<const float> values) {
                buffer = devices.buffer(values.size() * points * sizeof(float));
                for (std::size_t n = 0; n < values.size(); ++n)
                    fill(devices.queue(device), buffer, values[n], n * points, points);
            };
            field(slab.a, himeno::a_values);
            field(slab.b, himeno::b_values);
            field(slab.c, himeno::c_values);
            field(slab.wrk1, {&himeno::wrk1_value, 1});
            field(slab.bnd, {&himeno::bnd_value, 1});
            for (Buffer &pressure : slab.pressure)
                pressure = devices.buffer(points * sizeof(float));
            slab.partial = devices.buffer(slab.planes.count * groups_per_plane() * sizeof(float));
            for (Kernel &kernel : slab.kernel) kernel = make_kernel(program, "jacobi");
        }
    }

    void reset() {
        for (int device = 0; device < devices_.count(); ++device) {
            Slab &slab = slabs_[std::size_t(device)];
            slab.fetched.clear();
            for (const Buffer &pressure : slab.pressure)
                for (std::size_t i = 0; i < slab.stored(); ++i)
                    fill(devices_.queue(device), pressure,
                         grid_.initial_pressure(int(slab.planes.first - 1 + i)), i * grid_.plane(),
                         grid_.plane());
        }
    }

    void iterate(int iteration) {
        for (int device = 0; device < devices_.count(); ++device) {
            Slab &slab = slabs_[std::size_t(device)];
            slab.low_computed.clear();
            slab.high_computed.clear();
            compute(device, iteration, 1, 1, slab.fetched, slab.low_computed.put());
            if (slab.planes.count > 1)
                compute(device, iteration, slab.planes.count, 1, slab.fetched,
                        slab.high_computed.put());
            flush(devices_.queue(device));
        }
        // The copies overwrite halos that the previous iteration's outer kernels have read. Those
        // kernels are complete, because the neighbour's outer kernels have waited for their events.
        for (std::size_t n = 0; n < slabs_.size(); ++n) {
            slabs_[n].fetched.clear();
            if (n > 0) fetch(slabs_[n - 1], true, slabs_[n], 0, iteration);
            if (n + 1 < slabs_.size())
                fetch(slabs_[n + 1], false, slabs_[n], slabs_[n].planes.count + 1, iteration);
            flush(slabs_[n].copies.get());
        }
        for (int device = 0; device < devices_.count(); ++device) {
            const Slab &slab = slabs_[std::size_t(device)];
            if (slab.planes.count > 2)
                compute(device, iteration, 2, slab.planes.count - 2, {}, nullptr);
            flush(devices_.queue(device));
        }
    }

    /// Returns the last iteration's sum of squared residuals, equal for any number of devices.
    double gosa() const {
        std::vector<float> partial(std::size_t(grid_.imax - 2) * groups_per_plane());
        for (int device = 0; device < devices_.count(); ++device) {
            const Slab &slab = slabs_[std::size_t(device)];
            read(devices_.queue(device), slab.partial, CL_FALSE,
                 std::span(partial).subspan((slab.planes.first - 1) * groups_per_plane(),
                                            slab.planes.count * groups_per_plane()));
        }
        devices_.finish();
        double sum = 0;
        for (const float square : partial) sum += square;
        return sum;
    }

    /// Returns the inner planes of the grid.
    std::vector<float> pressure(int iterations) const {
        const std::size_t plane = grid_.plane();
        std::vector<float> all(std::size_t(grid_.imax - 2) * plane);
        for (int device = 0; device < devices_.count(); ++device) {
            const Slab &slab = slabs_[std::size_t(device)];
            check(clEnqueueReadBuffer(devices_.queue(device), slab.pressure[iterations % 2].get(),
                                      CL_TRUE, plane * sizeof(float),
                                      slab.planes.count * plane * sizeof(float),
                                      &all[(slab.planes.first - 1) * plane], 0, nullptr, nullptr),
                  "clEnqueueReadBuffer");
        }
        return all;
    }

private:
    std::size_t groups_per_plane() const {
        return std::size_t(grid_.jmax - 2) * (std::size_t(grid_.kmax) / group_);
    }

    void compute(int device, int iteration, std::size_t first, std::size_t planes,
                 const Events &after, cl_event *event) {
        const Slab &slab = slabs_[std::size_t(device)];
        const Kernel &kernel = slab.kernel[iteration % 2];
        set_arguments(kernel, slab.a, slab.b, slab.c, slab.wrk1, slab.bnd,
                      slab.pressure[iteration % 2], slab.pressure[(iteration + 1) % 2],
                      slab.partial, cl_ulong(slab.stored() * grid_.plane()), cl_uint(first));
        launch(devices_.queue(device), kernel,
               {std::size_t(grid_.kmax), std::size_t(grid_.jmax - 2), planes}, {group_, 1, 1},
               after, event);
    }

    /// Copies the highest or lowest computed plane of slab `from` into plane `halo` of slab `to`.
    void fetch(const Slab &from, bool highest, Slab &to, std::size_t halo, int iteration) {
        const std::size_t bytes = grid_.plane() * sizeof(float),
                          edge = highest ? from.planes.count : 1;
        const Events &computed =
            highest && from.planes.count > 1 ? from.high_computed : from.low_computed;
        const int next = (iteration + 1) % 2;
        check(clEnqueueCopyBuffer(to.copies.get(), from.pressure[next].get(),
                                  to.pressure[next].get(), edge * bytes, halo * bytes, bytes,
                                  computed.count(), computed.data(), to.fetched.put()),
              "clEnqueueCopyBuffer");
    }

    const Devices &devices_;
    const Grid grid_;
    const std::size_t group_;  ///< work-group size, along k
    std::vector<Slab> slabs_;
};

Result solve(const Options &options) {
    const std::optional<Grid> grid = himeno::find_grid(options.size);
    if (!grid) refuse(fmt::format("unknown size '{}'", options.size));
    const int iterations = options.iterations;
    const Devices devices(options.devices, std::size_t(grid->imax - 2));
    Solver solver(devices, *grid);
    double gosa = 0;
    const double seconds = measure(
        devices, options.repeat, [&] { solver.reset(); },
        [&] {
            for (int iteration = 0; iteration < iterations; ++iteration) solver.iterate(iteration);
            gosa = solver.gosa();
        });

    if (options.check) {
        const himeno::Reference reference = himeno::run_reference(*grid, iterations);
        // The comparison is exact, because kernel and reference use the same order of operations.
        const std::vector<float> pressure = solver.pressure(iterations);
        check_elements("pressure, from the second plane", pressure, pressure.size(), 0,
                       [&](std::size_t n) { return reference.pressure[grid->plane() + n]; });
        expect_near("gosa", 0, gosa, reference.gosa, 1e-4 * reference.gosa);
    }
    return {fmt::format("{}, {} iterations", grid->name, iterations), devices.count(), seconds,
            iterations * grid->flop_per_iteration()};
}

}  // namespace

int main(int argc, char **argv) {
    return run({"himeno_devices",
                "Himeno's 19-point Jacobi stencil, for several devices of one context.",
                "XS, S, M, L or XL: the grid, 32x32x64 to 512x512x1024 points",
                "iterations",
                {.size = "S", .iterations = 20}},
               argc, argv, solve);
}
