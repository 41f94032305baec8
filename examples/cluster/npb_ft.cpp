// NPB's FT: solves a partial differential equation in three dimensions by Fourier transforms. Each
// device has some planes of the field and some rows of its transform. An all-to-all converts one
// layout to the other. After each step, the program computes a checksum of the field.

#include "npb.hpp"
#include "npb_ft_cl.hpp"

#include <algorithm>
#include <array>
#include <numbers>

using namespace cluster;

namespace {

constexpr std::size_t steps = 6;
struct Class {
    char name;
    std::size_t nx, ny, nz;
    double checksums[2 * steps];  ///< real and imaginary parts
    double points() const { return double(nx * ny * nz); }
};
constexpr Class classes[] = {
    {'S',
     64,
     64,
     64,
     {5.546087004964e+02, 4.845363331978e+02, 5.546385409189e+02, 4.865304269511e+02,
      5.546148406171e+02, 4.883910722336e+02, 5.545423607415e+02, 4.901273169046e+02,
      5.544255039624e+02, 4.917475857993e+02, 5.542683411902e+02, 4.932597244941e+02}},
    {'W',
     128,
     128,
     32,
     {5.673612178944e+02, 5.293246849175e+02, 5.631436885271e+02, 5.282149986629e+02,
      5.594024089970e+02, 5.270996558037e+02, 5.560698047020e+02, 5.260027904925e+02,
      5.530898991250e+02, 5.249400845633e+02, 5.504159734538e+02, 5.239212247086e+02}},
    {'A',
     256,
     256,
     128,
     {5.046735008193e+02, 5.114047905510e+02, 5.059412319734e+02, 5.098809666433e+02,
      5.069376896287e+02, 5.098144042213e+02, 5.077892868474e+02, 5.101336130759e+02,
      5.085233095391e+02, 5.104914655194e+02, 5.091487099959e+02, 5.107917842803e+02}}};

using Complex = std::array<double, 2>;
constexpr std::size_t lines = 4;  ///< number of lines that a work-group transforms

class Solver {
public:
    Solver(const Devices &devices, const Class &size)
        : size_(size), group_(devices.group_size(64)), queues_(queues(devices)) {
        const std::size_t longest = std::max({size.nx, size.ny, size.nz});
        const Program program =
            npb::build(devices, group_, npb_ft_source,
                       fmt::format("-DNX={} -DNY={} -DNZ={} -DLONGEST={} -DLINES={}", size.nx,
                                   size.ny, size.nz, longest, lines));
        npb::make_kernels(program, {{&fill_rows_, "fill_rows"},
                                    {&along_x_, "along_x"},
                                    {&along_y_, "along_y"},
                                    {&along_z_, "along_z"},
                                    {&evolve_, "evolve"},
                                    {&add_points_, "add_points"}});

        std::vector<Complex> roots(longest / 2);
        for (std::size_t k = 0; k < roots.size(); ++k) {
            const double angle = -2 * std::numbers::pi * double(k) / double(longest);
            roots[k] = {std::cos(angle), std::sin(angle)};
        }
        std::vector<double> damping;
        for (const std::size_t n : {size.nx, size.ny, size.nz})
            for (std::size_t k = 0; k < n; ++k) {
                const double wave = double(k) - (k < n / 2 ? 0 : double(n));
                damping.push_back(
                    std::exp(-4e-6 * std::numbers::pi * std::numbers::pi * wave * wave));
            }
        for (int device = 0; device < devices.count(); ++device) {
            Part part{.planes = devices.share(size.nz, device),
                      .rows = devices.share(size.ny, device)};
            for (Buffer *buffer : {&part.field, &part.blocks})
                *buffer = devices.buffer(part.planes.count * size.ny * size.nx * sizeof(Complex));
            for (Buffer *buffer : {&part.waves, &part.copy})
                *buffer = devices.buffer(size.nz * part.rows.count * size.nx * sizeof(Complex));
            part.roots = devices.buffer(roots.size() * sizeof(Complex), CL_MEM_READ_ONLY);
            part.damping = devices.buffer(damping.size() * sizeof(double), CL_MEM_READ_ONLY);
            for (Buffer *buffer : {&part.sums, &part.total})
                *buffer = devices.buffer(steps * sizeof(Complex));
            write(devices.queue(device), part.roots, std::span<const Complex>(roots));
            write(devices.queue(device), part.damping, std::span<const double>(damping));
            parts_.push_back(std::move(part));
        }
        devices.finish();  // roots and damping must exist until then

        for (const Part &from : parts_)
            for (const Part &to : parts_) {
                const std::size_t row = size.nx * sizeof(Complex);
                exchange_.in_blocks.push_back(to.rows.first * from.planes.count * row);
                exchange_.in_waves.push_back(from.planes.first * to.rows.count * row);
                exchange_.sizes.push_back(from.planes.count * to.rows.count * row);
            }
        const std::size_t n = parts_.size();
        back_ = exchange_;
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < n; ++j) {
                back_.in_blocks[i * n + j] = exchange_.in_blocks[j * n + i];
                back_.in_waves[i * n + j] = exchange_.in_waves[j * n + i];
                back_.sizes[i * n + j] = exchange_.sizes[j * n + i];
            }
    }

    std::array<double, 2 * steps> run() const {
        for_all([&](const Part &part, cl_command_queue queue) {
            const std::size_t rows = part.planes.count * size_.ny;
            set_arguments(fill_rows_, part.field, cl_ulong(part.planes.first * size_.ny),
                          cl_uint(rows));
            launch(queue, fill_rows_, {round_up(rows, group_)}, {group_});
        });
        transform();
        for (std::size_t step = 0; step < steps; ++step) {
            for_all([&](const Part &part, cl_command_queue queue) {
                set_arguments(evolve_, part.waves, part.copy, part.damping,
                              cl_uint(part.rows.first), cl_uint(part.rows.count));
                launch(queue, evolve_, {size_.nx, part.rows.count, size_.nz},
                       {std::min(group_, size_.nx), 1, 1});
            });
            transform_back();
            for_all([&](const Part &part, cl_command_queue queue) {
                set_arguments(add_points_, part.field, part.sums, cl_uint(part.planes.first),
                              cl_uint(part.planes.count), cl_uint(step));
                launch(queue, add_points_, {group_}, {group_});
            });
        }
        std::array<double, 2 * steps> checksums;
        check(clEnqueueReduceBuffer(queues_.front(), cl_uint(parts_.size()),
                                    buffers(parts_, &Part::sums).data(), parts_.front().total.get(),
                                    nullptr, 0, sizeof checksums, CL_DOUBLE_DIST, 0, nullptr,
                                    nullptr),
              "clEnqueueReduceBuffer");
        read(queues_.front(), parts_.front().total, CL_TRUE, std::span<double>(checksums));
        return checksums;
    }

private:
    struct Part {
        Range planes{}, rows{};    ///< own planes of the field, own rows of its transform
        Buffer field{}, blocks{};  ///< contents of the planes
        Buffer waves{}, copy{};    ///< contents of the rows
        Buffer roots{}, damping{};
        Buffer sums{}, total{};
    };
    /// Offsets and sizes of an all-to-all in bytes.
    struct Exchange {
        std::vector<std::size_t> in_blocks, in_waves, sizes;
    };

    template <class Enqueue>
    void for_all(Enqueue &&enqueue) const {
        for (std::size_t device = 0; device < parts_.size(); ++device)
            enqueue(parts_[device], queues_[device]);
    }
    void launch_lines(cl_command_queue queue, const Kernel &kernel, std::size_t count) const {
        launch(queue, kernel, {count, group_ / lines}, {lines, group_ / lines});
    }
    static Local memory(std::size_t n) { return {2 * lines * n * sizeof(Complex)}; }

    void along_x(const Part &part, cl_command_queue queue, cl_uint inverse) const {
        set_arguments(along_x_, part.field, part.roots, memory(size_.nx), inverse);
        launch_lines(queue, along_x_, part.planes.count * size_.ny);
    }
    void along_y(const Part &part, cl_command_queue queue, cl_uint inverse) const {
        set_arguments(along_y_, inverse ? part.blocks : part.field,
                      inverse ? part.field : part.blocks, part.roots, memory(size_.ny),
                      cl_uint(part.planes.count), cl_uint(parts_.size()), inverse);
        launch_lines(queue, along_y_, part.planes.count * size_.nx);
    }
    void along_z(const Part &part, cl_command_queue queue, cl_uint inverse) const {
        set_arguments(along_z_, inverse ? part.copy : part.waves, part.roots, memory(size_.nz),
                      cl_uint(part.rows.count), inverse);
        launch_lines(queue, along_z_, part.rows.count * size_.nx);
    }

    /// Transforms the field to waves.
    void transform() const {
        for_all([&](const Part &part, cl_command_queue queue) {
            along_x(part, queue, 0);
            along_y(part, queue, 0);
        });
        check(clEnqueueAlltoAllVBuffer(
                  queues_.data(), cl_uint(parts_.size()), buffers(parts_, &Part::blocks).data(),
                  buffers(parts_, &Part::waves).data(), exchange_.in_blocks.data(),
                  exchange_.in_waves.data(), exchange_.sizes.data(), 0, nullptr, nullptr),
              "clEnqueueAlltoAllVBuffer");
        for_all([&](const Part &part, cl_command_queue queue) { along_z(part, queue, 0); });
    }
    /// Transforms the copy of the waves back to the field.
    void transform_back() const {
        for_all([&](const Part &part, cl_command_queue queue) { along_z(part, queue, 1); });
        check(clEnqueueAlltoAllVBuffer(
                  queues_.data(), cl_uint(parts_.size()), buffers(parts_, &Part::copy).data(),
                  buffers(parts_, &Part::blocks).data(), back_.in_waves.data(),
                  back_.in_blocks.data(), back_.sizes.data(), 0, nullptr, nullptr),
              "clEnqueueAlltoAllVBuffer");
        for_all([&](const Part &part, cl_command_queue queue) {
            along_y(part, queue, 1);
            along_x(part, queue, 1);
        });
    }

    const Class &size_;
    const std::size_t group_;
    const std::vector<cl_command_queue> queues_;
    Kernel fill_rows_, along_x_, along_y_, along_z_, evolve_, add_points_;
    std::vector<Part> parts_;
    Exchange exchange_, back_;  ///< from blocks to waves, and back
};

Result run_ft(const Options &options) {
    const Class &size = npb::find_class(classes, options.size);
    const Devices devices(options.devices, std::min(size.ny, size.nz));
    const Solver solver(devices, size);
    std::array<double, 2 * steps> checksums{};
    const double seconds = measure(devices, options.repeat, [&] { checksums = solver.run(); });
    if (options.check) npb::verify("checksum", checksums, size.checksums, 1e-12);
    // Counts operations like NPB.
    const double n = size.points(), log_n = std::log(n);
    return {fmt::format("class {}", size.name), devices.count(), seconds,
            n * (14.8157 + 7.19641 * log_n + (5.23518 + 7.21113 * log_n) * steps)};
}

}  // namespace

int main(int argc, char **argv) {
    return run({"npb_ft",
                "NPB's FT: three-dimensional Fourier transforms with an all-to-all, with NPB's "
                "verification.",
                "S, W or A: the class, 64 x 64 x 64, 128 x 128 x 32 or 256 x 256 x 128 points",
                nullptr,
                {.size = "S"}},
               argc, argv, run_ft);
}
