// NPB's CG: computes the smallest eigenvalue of a sparse matrix by inverse iteration. Conjugate
// gradients solve the systems.
//
// Each device has a block of rows. An all-gather distributes the vector that the matrix is
// multiplied by. An all-reduce computes dot products. Neither passes through the host, which waits
// only for one number per outer iteration.

#include "npb.hpp"
#include "npb_cg_cl.hpp"

#include <algorithm>
#include <bit>

using namespace cluster;

namespace {

struct Class {
    char name;
    /// `nonzeros` is the number of nonzeros in each of the random vectors that define the matrix.
    std::size_t rows, nonzeros;
    int iterations;
    double shift, zeta;
};
constexpr Class classes[] = {{'S', 1400, 7, 15, 10, 8.5971775078648},
                             {'W', 7000, 8, 15, 12, 10.362595087124},
                             {'A', 14000, 11, 15, 20, 17.130235054029}};
constexpr int inner_iterations = 25;

struct Matrix {
    std::vector<cl_uint> row_begin, columns;
    std::vector<double> elements;
};

/// NPB's matrix: the sum of weighted outer products of random sparse vectors with themselves. Rows
/// after those of the class are empty.
Matrix make_matrix(const Class &size, std::size_t rows) {
    struct Element {
        cl_uint column;
        double value;
    };
    constexpr double condition = 0.1;
    const double ratio = std::pow(condition, 1.0 / double(size.rows));
    npb::Random random(314159265);
    random.next();  // NPB discards this number
    std::vector<std::vector<Element>> all(rows);
    double weight = 1;
    for (cl_uint i = 0; i < size.rows; ++i) {
        std::vector<Element> vector;
        const auto find = [&](std::size_t column) {
            return std::find_if(vector.begin(), vector.end(),
                                [&](const Element &e) { return e.column == column; });
        };
        while (vector.size() < size.nonzeros) {
            const double value = random.next();
            const auto column = std::size_t(random.next() * double(std::bit_ceil(size.rows)));
            if (column < size.rows && find(column) == vector.end())
                vector.push_back({cl_uint(column), value});
        }
        if (const auto own = find(i); own != vector.end())
            own->value = 0.5;
        else
            vector.push_back({i, 0.5});
        for (const Element &a : vector)
            for (const Element &b : vector)
                all[a.column].push_back(
                    {b.column,
                     weight * a.value * b.value +
                         (a.column == i && b.column == i ? condition - size.shift : 0.0)});
        weight *= ratio;
    }
    Matrix matrix{{0}, {}, {}};
    for (std::vector<Element> &row : all) {
        std::stable_sort(row.begin(), row.end(),
                         [](const Element &a, const Element &b) { return a.column < b.column; });
        for (std::size_t n = 0; n < row.size(); ++n) {
            if (n > 0 && row[n].column == row[n - 1].column) {
                matrix.elements.back() += row[n].value;
            } else {
                matrix.columns.push_back(row[n].column);
                matrix.elements.push_back(row[n].value);
            }
        }
        matrix.row_begin.push_back(cl_uint(matrix.columns.size()));
    }
    return matrix;
}

class Solver {
public:
    Solver(const Devices &devices, const Class &size)
        : size_(size),
          rows_((size.rows + std::size_t(devices.count()) - 1) / std::size_t(devices.count())),
          group_(devices.group_size(64)),
          queues_(queues(devices)) {
        const Program program = npb::build(devices, group_, npb_cg_source);
        npb::make_kernels(program, {{&multiply_, "multiply"},
                                    {&dot_, "dot_product"},
                                    {&add_up_, "add_up"},
                                    {&start_, "start"},
                                    {&advance_, "advance"},
                                    {&turn_, "turn"},
                                    {&subtract_, "subtract_from"},
                                    {&make_unit_, "make_unit"}});

        const Matrix matrix = make_matrix(size, rows_ * std::size_t(devices.count()));
        for (int device = 0; device < devices.count(); ++device) {
            const auto begin =
                std::span(matrix.row_begin).subspan(std::size_t(device) * rows_, rows_ + 1);
            std::vector<cl_uint> row_begin(begin.begin(), begin.end());
            for (cl_uint &row : row_begin) row -= begin.front();
            const std::size_t count = row_begin.back();
            // All rows of a device may be empty, but buffers must not be.
            const std::size_t stored = std::max<std::size_t>(count, 1);
            Part &part = parts_.emplace_back();
            part.row_begin = devices.buffer((rows_ + 1) * sizeof(cl_uint), CL_MEM_READ_ONLY);
            part.columns = devices.buffer(stored * sizeof(cl_uint), CL_MEM_READ_ONLY);
            part.elements = devices.buffer(stored * sizeof(double), CL_MEM_READ_ONLY);
            const cl_command_queue queue = devices.queue(device);
            write(queue, part.row_begin, std::span<const cl_uint>(row_begin));
            if (count > 0) {
                write(queue, part.columns, std::span(matrix.columns).subspan(begin.front(), count));
                write(queue, part.elements,
                      std::span(matrix.elements).subspan(begin.front(), count));
            }
            check(clFinish(queue), "clFinish");  // row_begin must exist until then
            for (Buffer *vector : {&part.x, &part.z, &part.r, &part.p, &part.q})
                *vector = devices.buffer(rows_ * sizeof(double));
            part.whole = devices.buffer(rows_ * std::size_t(devices.count()) * sizeof(double));
            part.partial = devices.buffer(group_ * sizeof(double));
            for (Buffer *number : {&part.own, &part.even, &part.odd, &part.dot})
                *number = devices.buffer(sizeof(double));
        }
    }

    /// Sets x to 1.
    void reset() {
        for (std::size_t device = 0; device < parts_.size(); ++device) {
            std::vector<double> ones(rows_);
            for (std::size_t i = 0; i < rows_; ++i)
                ones[i] = device * rows_ + i < size_.rows ? 1 : 0;
            write(queues_[device], parts_[device].x, std::span<const double>(ones));
            check(clFinish(queues_[device]), "clFinish");
        }
    }

    /// Runs an outer iteration and returns zeta.
    double iterate() {
        solve();
        dot(&Part::z, &Part::z, &Part::even);
        dot(&Part::x, &Part::z, &Part::dot);
        for_all([&](const Part &part, cl_command_queue queue) {
            launch_rows(queue, make_unit_, part.z, part.even, part.x);
        });
        return size_.shift + 1 / number(&Part::dot);
    }

    /// Returns |x - A z| for the x and z of the last iteration.
    double residual() const { return residual_; }

private:
    struct Part {
        Buffer row_begin{}, columns{}, elements{};
        Buffer x{}, z{}, r{}, p{}, q{};  ///< the device's own rows
        Buffer whole{};                  ///< all rows of p or z, for the multiplication
        Buffer partial{}, own{};         ///< sums over the device's own rows
        Buffer even{}, odd{}, dot{};     ///< sums over all rows
    };

    template <class Enqueue>
    void for_all(Enqueue &&enqueue) const {
        for (std::size_t device = 0; device < parts_.size(); ++device)
            enqueue(parts_[device], queues_[device]);
    }
    template <class... Arguments>
    void launch_rows(cl_command_queue queue, const Kernel &kernel,
                     const Arguments &...arguments) const {
        set_arguments(kernel, arguments..., cl_uint(rows_));
        launch(queue, kernel, {round_up(rows_, group_)}, {group_});
    }

    /// Runs 25 steps towards A z = x and computes the residual.
    void solve() {
        for_all([&](const Part &part, cl_command_queue queue) {
            launch_rows(queue, start_, part.x, part.z, part.r, part.p);
        });
        Buffer Part::*square = &Part::even;
        Buffer Part::*last_square = &Part::odd;
        dot(&Part::r, &Part::r, square);
        for (int iteration = 0; iteration < inner_iterations; ++iteration) {
            multiply(&Part::p);
            dot(&Part::p, &Part::q, &Part::dot);
            for_all([&](const Part &part, cl_command_queue queue) {
                launch_rows(queue, advance_, part.z, part.r, part.p, part.q, part.*square,
                            part.dot);
            });
            std::swap(square, last_square);
            dot(&Part::r, &Part::r, square);
            for_all([&](const Part &part, cl_command_queue queue) {
                launch_rows(queue, turn_, part.p, part.r, part.*square, part.*last_square);
            });
        }
        multiply(&Part::z);
        for_all([&](const Part &part, cl_command_queue queue) {
            launch_rows(queue, subtract_, part.x, part.q);
        });
        dot(&Part::q, &Part::q, &Part::dot);
        residual_ = std::sqrt(number(&Part::dot));
    }

    /// q = A v
    void multiply(Buffer Part::*v) const {
        check(clEnqueueAllGatherBuffer(queues_.data(), cl_uint(queues_.size()),
                                       buffers(parts_, v).data(),
                                       buffers(parts_, &Part::whole).data(), nullptr, nullptr,
                                       rows_ * sizeof(double), 0, nullptr, nullptr),
              "clEnqueueAllGatherBuffer");
        for_all([&](const Part &part, cl_command_queue queue) {
            launch_rows(queue, multiply_, part.row_begin, part.columns, part.elements, part.whole,
                        part.q);
        });
    }

    /// Computes the dot product of all rows on every device.
    void dot(Buffer Part::*u, Buffer Part::*v, Buffer Part::*result) const {
        for_all([&](const Part &part, cl_command_queue queue) {
            set_arguments(dot_, part.*u, part.*v, part.partial, cl_ulong{0}, cl_ulong(rows_));
            launch(queue, dot_, {group_ * group_}, {group_});
            set_arguments(add_up_, part.partial, part.own);
            launch(queue, add_up_, {group_}, {group_});
        });
        check(clEnqueueAllReduceBuffer(queues_.data(), cl_uint(queues_.size()),
                                       buffers(parts_, &Part::own).data(),
                                       buffers(parts_, result).data(), nullptr, nullptr,
                                       sizeof(double), CL_DOUBLE_DIST, 0, nullptr, nullptr),
              "clEnqueueAllReduceBuffer");
    }

    /// Reads a number that is the same on all devices.
    double number(Buffer Part::*buffer) const {
        double value;
        read(queues_.front(), parts_.front().*buffer, CL_TRUE, std::span(&value, 1));
        return value;
    }

    const Class &size_;
    const std::size_t rows_;  ///< per device; the last rows may be empty
    const std::size_t group_;
    const std::vector<cl_command_queue> queues_;
    Kernel multiply_, dot_, add_up_, start_, advance_, turn_, subtract_, make_unit_;
    std::vector<Part> parts_;
    double residual_ = 0;
};

Result run_cg(const Options &options) {
    const Class &size = npb::find_class(classes, options.size);
    const Devices devices(options.devices, size.rows);
    Solver solver(devices, size);
    double zeta = 0;
    const double seconds = measure(
        devices, options.repeat, [&] { solver.reset(); },
        [&] {
            for (int iteration = 0; iteration < size.iterations; ++iteration)
                zeta = solver.iterate();
        });
    fmt::print("|x - A z| = {:.5e}\n", solver.residual());
    if (options.check) npb::verify("zeta", {&zeta, 1}, {&size.zeta, 1}, 1e-10);
    // Counts operations like NPB.
    const double products = double(size.nonzeros * (size.nonzeros + 1));
    return {fmt::format("class {}", size.name), devices.count(), seconds,
            2.0 * size.iterations * double(size.rows) *
                (3 + products + inner_iterations * (5 + products) + 3)};
}

}  // namespace

int main(int argc, char **argv) {
    return run({"npb_cg",
                "NPB's CG: an eigenvalue of a sparse matrix by conjugate gradients, with NPB's "
                "verification.",
                "S, W or A: the class, 1400, 7000 or 14000 rows",
                nullptr,
                {.size = "S"}},
               argc, argv, run_cg);
}
