// NPB's MG: solves Poisson's equation on a periodic cube by multigrid V-cycles.
//
// Each device has some planes of the finer levels and gets their halos from its neighbours. Every
// device computes the whole grid of the coarser levels, which takes less time than messages.
// Between these levels, an all-reduce gives every device the whole grid.

#include "npb.hpp"
#include "npb_mg_cl.hpp"

#include <algorithm>
#include <bit>
#include <limits>

using namespace cluster;

namespace {

struct Class {
    char name;
    int levels;  ///< the finest level has 2^levels points along an edge
    double norm;
};
constexpr Class classes[] = {
    {'S', 5, 0.5307707005734e-04}, {'W', 7, 0.6467329375339e-05}, {'A', 8, 0.2433365309069e-05}};
constexpr int cycles = 4;

struct Charge {
    double random;
    std::size_t point;
};

/// NPB's right-hand side: draws one random number per point, and sets the ten largest to 1 and the
/// ten smallest to -1.
std::vector<std::pair<std::size_t, double>> charges(std::size_t points) {
    constexpr std::size_t count = 10;
    npb::Random random(314159265);
    std::vector<Charge> largest, smallest;
    const auto keep = [](std::vector<Charge> &kept, const Charge &charge, auto &&before) {
        if (kept.size() == count && !before(charge, kept.back())) return;
        kept.insert(std::upper_bound(kept.begin(), kept.end(), charge, before), charge);
        if (kept.size() > count) kept.pop_back();
    };
    for (std::size_t point = 0; point < points; ++point) {
        const Charge charge{random.next(), point};
        keep(largest, charge, [](const Charge &a, const Charge &b) { return a.random > b.random; });
        keep(smallest, charge,
             [](const Charge &a, const Charge &b) { return a.random < b.random; });
    }
    std::vector<std::pair<std::size_t, double>> all;
    for (const Charge &charge : largest) all.emplace_back(charge.point, 1.0);
    for (const Charge &charge : smallest) all.emplace_back(charge.point, -1.0);
    return all;
}

/// A device's planes of a level, between two halo planes.
struct Grid {
    Range planes{};
    Buffer u{}, r{};
};

struct Level {
    std::size_t n;
    bool shared;  ///< whether the devices share the planes; otherwise each has the whole grid
    std::vector<Grid> grids{};
    /// The offsets and sizes, in bytes, of two all-to-alls: `up` copies the upper outer planes to
    /// the lower halos, `down` the lower outer planes to the upper halos.
    struct Exchange {
        std::vector<std::size_t> from, to, sizes;
    } up{}, down{};

    std::size_t plane() const { return n * n; }
    std::size_t stored(const Grid &grid) const { return (grid.planes.count + 2) * plane(); }
    cl_uint mask() const { return shared ? std::numeric_limits<cl_uint>::max() : cl_uint(n - 1); }
};

class Solver {
public:
    Solver(const Devices &devices, const Class &size)
        : devices_(devices), group_(devices.group_size(64)), queues_(queues(devices)) {
        const Program program = npb::build(devices, group_, npb_mg_source);
        npb::make_kernels(program, {{&residual_, "residual"},
                                    {&smooth_, "smooth"},
                                    {&coarsen_, "coarsen"},
                                    {&refine_, "refine"},
                                    {&dot_, "dot_product"},
                                    {&add_up_, "add_up"}});

        // A device has at least one plane of the coarsest shared level, and each finer level
        // doubles this.
        const auto count = std::size_t(devices.count());
        const int whole = std::max(int(std::bit_width(count - 1)), std::min(4, size.levels - 1));
        for (int level = 1; level <= size.levels; ++level) {
            Level &added =
                levels_.emplace_back(Level{.n = std::size_t{1} << level, .shared = level > whole});
            for (int device = 0; device < devices.count(); ++device) {
                Grid grid{.planes = {0, added.n}};
                if (added.shared) {
                    const Range share = devices.share(std::size_t{1} << whole, device);
                    grid.planes = {share.first << (level - whole), share.count << (level - whole)};
                }
                for (Buffer *buffer : {&grid.u, &grid.r}) *buffer = field(added, grid);
                added.grids.push_back(std::move(grid));
            }
            if (added.shared) plan_exchange(added);
        }

        const Level &finest = levels_.back(), &coarse = levels_[std::size_t(whole) - 1];
        for (std::size_t device = 0; device < count; ++device) {
            Part part;
            part.v = field(finest, finest.grids[device]);
            part.own_planes = field(coarse, coarse.grids[device]);
            part.partial = devices.buffer(group_ * sizeof(double));
            for (Buffer *number : {&part.own, &part.sum}) *number = devices.buffer(sizeof(double));
            zero(device, part.v, finest.stored(finest.grids[device]));
            zero(device, part.own_planes, coarse.stored(coarse.grids[device]));
            parts_.push_back(std::move(part));
        }
        for (const auto &[point, value] : charges(finest.n * finest.plane()))
            for (std::size_t device = 0; device < count; ++device) {
                const Range planes = finest.grids[device].planes;
                const std::size_t z = point / finest.plane();
                if (z < planes.first || z >= planes.end()) continue;
                const std::size_t at = point - planes.first * finest.plane() + finest.plane();
                check(clEnqueueFillBuffer(queues_[device], parts_[device].v.get(), &value,
                                          sizeof value, at * sizeof value, sizeof value, 0, nullptr,
                                          nullptr),
                      "clEnqueueFillBuffer");
            }
    }

    /// Sets u to 0.
    void reset() {
        const Level &finest = levels_.back();
        for (std::size_t device = 0; device < parts_.size(); ++device)
            zero(device, finest.grids[device].u, finest.stored(finest.grids[device]));
    }

    /// Runs all cycles and returns the norm of the residual.
    double run() {
        residual(levels_.back());
        for (int i = 0; i < cycles; ++i) {
            cycle();
            residual(levels_.back());
        }
        return norm();
    }

private:
    struct Part {
        Buffer v{};  ///< right-hand side of the finest level
        /// r of the finest level that is not shared: the device's planes; other planes are zero.
        Buffer own_planes{};
        Buffer partial{}, own{}, sum{};
    };

    Buffer field(const Level &level, const Grid &grid) const {
        return devices_.buffer(level.stored(grid) * sizeof(double));
    }
    void zero(std::size_t device, const Buffer &buffer, std::size_t count) const {
        const double value = 0;
        check(clEnqueueFillBuffer(queues_[device], buffer.get(), &value, sizeof value, 0,
                                  count * sizeof value, 0, nullptr, nullptr),
              "clEnqueueFillBuffer");
    }

    void plan_exchange(Level &level) const {
        const std::size_t count = level.grids.size(), plane = level.plane() * sizeof(double);
        for (Level::Exchange *exchange : {&level.up, &level.down})
            for (auto *list : {&exchange->from, &exchange->to, &exchange->sizes})
                list->resize(count * count);
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t above = i * count + (i + 1) % count,
                              below = i * count + (i + count - 1) % count;
            level.up.from[above] = level.grids[i].planes.count * plane;
            level.up.sizes[above] = plane;
            level.down.from[below] = plane;
            level.down.to[below] = (level.grids[(i + count - 1) % count].planes.count + 1) * plane;
            level.down.sizes[below] = plane;
        }
    }
    void exchange(const Level &level, Buffer Grid::*buffer) const {
        if (!level.shared) return;
        const std::vector<cl_mem> list = buffers(level.grids, buffer);
        for (const Level::Exchange *way : {&level.up, &level.down})
            check(clEnqueueAlltoAllVBuffer(queues_.data(), cl_uint(list.size()), list.data(),
                                           list.data(), way->from.data(), way->to.data(),
                                           way->sizes.data(), 0, nullptr, nullptr),
                  "clEnqueueAlltoAllVBuffer");
    }

    /// Launches one work-item per point.
    template <class... Arguments>
    void launch_points(std::size_t device, const Kernel &kernel, std::size_t points,
                       const Arguments &...arguments) const {
        set_arguments(kernel, arguments..., cl_ulong(points));
        launch(queues_[device], kernel, {round_up(points, group_)}, {group_});
    }

    void cycle() const {
        for (std::size_t i = levels_.size() - 1; i > 0; --i) coarsen(levels_[i], levels_[i - 1]);
        smooth(levels_.front(), false);
        for (std::size_t i = 1; i < levels_.size(); ++i) {
            const bool finest = i + 1 == levels_.size();
            refine(levels_[i - 1], levels_[i], finest);
            residual(levels_[i]);
            smooth(levels_[i], true);
        }
    }
    void residual(const Level &level) const {
        const bool finest = &level == &levels_.back();
        for (std::size_t device = 0; device < parts_.size(); ++device) {
            const Grid &grid = level.grids[device];
            launch_points(device, residual_, grid.planes.count * level.plane(), grid.u,
                          finest ? parts_[device].v : grid.r, grid.r, cl_uint(level.n),
                          level.mask());
        }
        exchange(level, &Grid::r);
    }
    void smooth(const Level &level, bool add) const {
        for (std::size_t device = 0; device < parts_.size(); ++device) {
            const Grid &grid = level.grids[device];
            launch_points(device, smooth_, grid.planes.count * level.plane(), grid.r, grid.u,
                          cl_uint(add), cl_uint(level.n), level.mask());
        }
        exchange(level, &Grid::u);
    }
    void coarsen(const Level &fine, const Level &coarse) const {
        const bool gather = fine.shared && !coarse.shared;
        for (std::size_t device = 0; device < parts_.size(); ++device) {
            const Grid &from = fine.grids[device], &to = coarse.grids[device];
            launch_points(device, coarsen_, from.planes.count / 2 * coarse.plane(), from.r,
                          gather ? parts_[device].own_planes : to.r, fine.mask(),
                          cl_uint(gather ? from.planes.first / 2 : 0), cl_uint(coarse.n));
        }
        if (gather)  // the planes of other devices are zeros here
            check(clEnqueueAllReduceBuffer(queues_.data(), cl_uint(parts_.size()),
                                           buffers(parts_, &Part::own_planes).data(),
                                           buffers(coarse.grids, &Grid::r).data(), nullptr, nullptr,
                                           coarse.stored(coarse.grids.front()) * sizeof(double),
                                           CL_DOUBLE_DIST, 0, nullptr, nullptr),
                  "clEnqueueAllReduceBuffer");
        else
            exchange(coarse, &Grid::r);
    }
    void refine(const Level &coarse, const Level &fine, bool add) const {
        const bool scatter = fine.shared && !coarse.shared;
        for (std::size_t device = 0; device < parts_.size(); ++device) {
            const Grid &from = coarse.grids[device], &to = fine.grids[device];
            launch_points(device, refine_, to.planes.count * fine.plane(), from.u, to.u,
                          coarse.mask(), cl_uint(scatter ? to.planes.first / 2 : 0), cl_uint(add),
                          cl_uint(fine.n));
        }
        exchange(fine, &Grid::u);
    }

    double norm() const {
        const Level &finest = levels_.back();
        for (std::size_t device = 0; device < parts_.size(); ++device) {
            const Grid &grid = finest.grids[device];
            const Part &part = parts_[device];
            set_arguments(dot_, grid.r, grid.r, part.partial, cl_ulong(finest.plane()),
                          cl_ulong(grid.planes.count * finest.plane()));
            launch(queues_[device], dot_, {group_ * group_}, {group_});
            set_arguments(add_up_, part.partial, part.own);
            launch(queues_[device], add_up_, {group_}, {group_});
        }
        check(
            clEnqueueReduceBuffer(queues_.front(), cl_uint(parts_.size()),
                                  buffers(parts_, &Part::own).data(), parts_.front().sum.get(),
                                  nullptr, 0, sizeof(double), CL_DOUBLE_DIST, 0, nullptr, nullptr),
            "clEnqueueReduceBuffer");
        double sum;
        read(queues_.front(), parts_.front().sum, CL_TRUE, std::span(&sum, 1));
        return std::sqrt(sum / double(finest.n * finest.plane()));
    }

    const Devices &devices_;
    const std::size_t group_;
    const std::vector<cl_command_queue> queues_;
    Kernel residual_, smooth_, coarsen_, refine_, dot_, add_up_;
    std::vector<Level> levels_;  ///< the coarsest level comes first
    std::vector<Part> parts_;
};

Result run_mg(const Options &options) {
    const Class &size = npb::find_class(classes, options.size);
    const std::size_t n = std::size_t{1} << size.levels;
    const Devices devices(options.devices, n / 2);
    Solver solver(devices, size);
    double norm = 0;
    const double seconds = measure(
        devices, options.repeat, [&] { solver.reset(); }, [&] { norm = solver.run(); });
    if (options.check) npb::verify("norm", {&norm, 1}, {&size.norm, 1}, 1e-8);
    // Counts operations like NPB.
    return {fmt::format("class {}", size.name), devices.count(), seconds,
            58.0 * cycles * double(n * n * n)};
}

}  // namespace

int main(int argc, char **argv) {
    return run({"npb_mg",
                "NPB's MG: multigrid V-cycles for Poisson's equation, with NPB's verification.",
                "S, W or A: the class, 32, 128 or 256 points along an edge",
                nullptr,
                {.size = "S"}},
               argc, argv, run_mg);
}
