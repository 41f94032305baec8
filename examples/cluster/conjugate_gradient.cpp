// Conjugate gradients for a sparse matrix (CSR): Poisson's equation on a square. Each device has a
// part of the rows. It multiplies its rows by the direction p, and fetches the elements of p that
// its rows need from the other devices. Each device reduces a dot product to one number, and the
// host reads and adds these numbers.

#include "common.hpp"
#include "conjugate_gradient_cl.hpp"

#include <cmath>

using namespace cluster;

namespace {

/// Iterations stop when the norm of the residual is at most this fraction of the right side's norm.
constexpr double goal = 1e-4;

struct Matrix {
    std::vector<cl_uint> row_begin{0}, columns;
    std::vector<float> elements;

    std::size_t rows() const { return row_begin.size() - 1; }
};

/// The 5-point Laplace operator on n x n points.
Matrix poisson(std::size_t n) {
    Matrix matrix;
    for (std::size_t row = 0; row < n * n; ++row) {
        const auto add = [&](bool inside, std::size_t column, float element) {
            if (!inside) return;
            matrix.columns.push_back(cl_uint(column));
            matrix.elements.push_back(element);
        };
        add(row >= n, row - n, -1.0f);
        add(row % n > 0, row - 1, -1.0f);
        add(true, row, 4.0f);
        add(row % n < n - 1, row + 1, -1.0f);
        add(row < n * (n - 1), row + n, -1.0f);
        matrix.row_begin.push_back(cl_uint(matrix.columns.size()));
    }
    return matrix;
}

/// Computes x after some iterations on the host.
std::vector<double> reference(const Matrix &matrix, const std::vector<float> &b, int iterations) {
    const std::size_t rows = matrix.rows();
    const auto dot = [&](const std::vector<double> &u, const std::vector<double> &v) {
        double sum = 0;
        for (std::size_t i = 0; i < rows; ++i) sum += u[i] * v[i];
        return sum;
    };
    std::vector<double> x(rows, 0.0), residual(b.begin(), b.end()), p = residual, product(rows);
    double square = dot(residual, residual);
    for (int iteration = 0; iteration < iterations; ++iteration) {
        for (std::size_t i = 0; i < rows; ++i) {
            product[i] = 0;
            for (cl_uint n = matrix.row_begin[i]; n < matrix.row_begin[i + 1]; ++n)
                product[i] += double(matrix.elements[n]) * p[matrix.columns[n]];
        }
        const double alpha = square / dot(p, product);
        for (std::size_t i = 0; i < rows; ++i) {
            x[i] += alpha * p[i];
            residual[i] -= alpha * product[i];
        }
        const double last = std::exchange(square, dot(residual, residual));
        for (std::size_t i = 0; i < rows; ++i) p[i] = residual[i] + square / last * p[i];
    }
    return x;
}

class Solver {
public:
    Solver(const Devices &devices, const Matrix &matrix) : devices_(devices) {
        group_ = devices.group_size(64);
        const Program program =
            devices.build(conjugate_gradient_source, fmt::format("-DGROUP={}", group_));
        const std::size_t whole = matrix.rows() * sizeof(float);
        for (int device = 0; device < devices.count(); ++device) {
            Part part{.rows = devices.share(matrix.rows(), device)};
            const std::size_t bytes = part.rows.count * sizeof(float);
            const auto begin =
                std::span(matrix.row_begin).subspan(part.rows.first, part.rows.count + 1);
            const Range own{begin.front(), begin.back() - begin.front()};
            std::vector<cl_uint> row_begin(begin.begin(), begin.end());
            for (cl_uint &row : row_begin) row -= begin.front();
            const auto columns = std::span(matrix.columns).subspan(own.first, own.count);
            const auto elements = std::span(matrix.elements).subspan(own.first, own.count);
            const auto [least, most] = std::minmax_element(columns.begin(), columns.end());
            part.needed = {*least, *most + 1 - *least};

            const cl_command_queue queue = devices.queue(device);
            part.row_begin =
                devices.buffer((part.rows.count + 1) * sizeof(cl_uint), CL_MEM_READ_ONLY);
            part.columns = devices.buffer(columns.size_bytes(), CL_MEM_READ_ONLY);
            part.elements = devices.buffer(elements.size_bytes(), CL_MEM_READ_ONLY);
            write(queue, part.row_begin, std::span<const cl_uint>(row_begin));
            write(queue, part.columns, columns);
            write(queue, part.elements, elements);
            check(clFinish(queue), "clFinish");  // row_begin must exist until then
            for (Buffer *buffer : {&part.x, &part.residual, &part.product})
                *buffer = devices.buffer(bytes);
            part.p = devices.buffer(whole);
            part.partial = devices.buffer(group_ * sizeof(float));
            part.dot = devices.buffer(sizeof(float));

            part.multiply = make_kernel(program, "multiply");
            part.p_product = make_kernel(program, "dot_product");
            part.square = make_kernel(program, "dot_product");
            part.add_up = make_kernel(program, "add_up");
            part.advance = make_kernel(program, "advance");
            part.turn = make_kernel(program, "turn");
            const auto first = cl_uint(part.rows.first), rows = cl_uint(part.rows.count);
            set_arguments(part.multiply, part.row_begin, part.columns, part.elements, part.p,
                          part.product, rows);
            set_arguments(part.p_product, part.p, first, part.product, part.partial, rows);
            set_arguments(part.square, part.residual, cl_uint{0}, part.residual, part.partial,
                          rows);
            set_arguments(part.add_up, part.partial, part.dot);
            parts_.push_back(std::move(part));
        }
    }

    /// Sets x to 0.
    void reset(const std::vector<float> &b) {
        for (int device = 0; device < devices_.count(); ++device) {
            const Part &part = parts_[std::size_t(device)];
            const cl_command_queue queue = devices_.queue(device);
            fill(queue, part.x, 0.0f, 0, part.rows.count);
            write(queue, part.residual, std::span(b).subspan(part.rows.first, part.rows.count));
            write(queue, part.p, std::span(b));
        }
    }

    /// Runs at most `iterations` iterations. Returns the number of iterations.
    int solve(int iterations) {
        const double start = dot(&Part::square);
        double square = start;
        for (int iteration = 0; iteration < iterations; ++iteration) {
            if (square <= goal * goal * start) return iteration;
            for_all([&](const Part &part, cl_command_queue queue) {
                launch_rows(queue, part, part.multiply);
            });
            const auto alpha = float(square / dot(&Part::p_product));
            for_all([&](const Part &part, cl_command_queue queue) {
                set_arguments(part.advance, part.x, part.residual, part.p, part.product,
                              cl_uint(part.rows.first), cl_uint(part.rows.count), alpha);
                launch_rows(queue, part, part.advance);
            });
            const double last = std::exchange(square, dot(&Part::square));
            turn(float(square / last));
        }
        return iterations;
    }

    void read_x(std::vector<float> &x) const {
        for (int device = 0; device < devices_.count(); ++device) {
            const Part &part = parts_[std::size_t(device)];
            read(devices_.queue(device), part.x, CL_FALSE,
                 std::span(x).subspan(part.rows.first, part.rows.count));
        }
        devices_.finish();
    }

private:
    struct Part {
        Range rows{}, needed{};  ///< own rows; elements of p that these rows need
        Buffer row_begin{}, columns{}, elements{}, x{}, residual{}, p{}, product{}, partial{},
            dot{};
        Kernel multiply{}, p_product{}, square{}, add_up{}, advance{}, turn{};
    };

    template <class Enqueue>
    void for_all(Enqueue &&enqueue) const {
        for (int device = 0; device < devices_.count(); ++device)
            enqueue(parts_[std::size_t(device)], devices_.queue(device));
    }

    void launch_rows(cl_command_queue queue, const Part &part, const Kernel &kernel,
                     cl_event *event = nullptr) const {
        launch(queue, kernel, {round_up(part.rows.count, 64)}, {}, {}, event);
    }

    /// Runs the kernel on all devices at the same time, and returns the sum of their results.
    double dot(const Kernel Part::*kernel) const {
        std::vector<float> sums(parts_.size());
        Events done;
        std::size_t next = 0;
        for_all([&](const Part &part, cl_command_queue queue) {
            launch(queue, part.*kernel, {group_ * group_}, {group_});
            launch(queue, part.add_up, {group_}, {group_});
            read(queue, part.dot, CL_FALSE, std::span(sums).subspan(next++, 1), done.put());
            flush(queue);
        });
        done.wait();
        double sum = 0;
        for (const float part : sums) sum += part;
        return sum;
    }

    /// Computes the new direction: each device computes its part, then gets the elements that it
    /// needs from the other devices.
    void turn(float beta) const {
        std::vector<Events> turned(parts_.size());
        std::size_t next = 0;
        for_all([&](const Part &part, cl_command_queue queue) {
            set_arguments(part.turn, part.p, part.residual, cl_uint(part.rows.first),
                          cl_uint(part.rows.count), beta);
            launch_rows(queue, part, part.turn, turned[next++].put());
            flush(queue);
        });
        // These copies complete before any device changes its part, because the host reads the next
        // dot products first.
        for_all([&](const Part &to, cl_command_queue queue) {
            for (std::size_t n = 0; n < parts_.size(); ++n) {
                const Part &from = parts_[n];
                const std::size_t first = std::max(from.rows.first, to.needed.first);
                const std::size_t end = std::min(from.rows.end(), to.needed.end());
                if (&from == &to || first >= end) continue;
                check(clEnqueueCopyBuffer(queue, from.p.get(), to.p.get(), first * sizeof(float),
                                          first * sizeof(float), (end - first) * sizeof(float),
                                          turned[n].count(), turned[n].data(), nullptr),
                      "clEnqueueCopyBuffer");
            }
        });
    }

    const Devices &devices_;
    std::size_t group_;
    std::vector<Part> parts_;
};

Result run_solver(const Options &options) {
    const auto n = std::size_t(number(options.size.c_str(), 1));
    const Matrix matrix = poisson(n);
    const std::size_t rows = matrix.rows();
    std::vector<float> b(rows), x(rows);
    for (std::size_t i = 0; i < rows; ++i) b[i] = noise(cl_uint(i)) - 0.5f;

    const Devices devices(options.devices, rows);
    Solver solver(devices, matrix);
    int iterations = 0;
    const double seconds = measure(
        devices, options.repeat, [&] { solver.reset(b); },
        [&] {
            iterations = solver.solve(options.iterations);
            solver.read_x(x);
        });

    if (options.check) {
        const std::vector<double> expected = reference(matrix, b, iterations);
        double largest = 0;
        for (const double value : expected) largest = std::max(largest, std::abs(value));
        check_elements("x", x, rows, 1e-3 * largest, [&](std::size_t i) { return expected[i]; });
    }
    // Counts, per iteration, 2 operations per element of the matrix, and 2 per row in two dot
    // products and three vector sums.
    return {fmt::format("{0} x {0} points, {1} iterations", n, iterations), devices.count(),
            seconds, iterations * (2.0 * double(matrix.elements.size()) + 10.0 * double(rows))};
}

}  // namespace

int main(int argc, char **argv) {
    return run({"conjugate_gradient",
                "Solves Poisson's equation on a square by conjugate gradients.",
                "points along an edge of the square",
                "iterations at most",
                {.size = "192", .iterations = 50}},
               argc, argv, run_solver);
}
