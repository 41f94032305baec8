// Conjugate gradients on several processes, with and without collective commands.
//
// Solves A x = b for the five-point Laplacian of an n x n grid. Each process has a part of the
// grid's rows. Each iteration needs two dot products over all processes, and the neighbours' rows
// at the border.
//
// Variant `command`: both exchanges are commands in one in-order queue. The sums stay on the
// devices, where kernels use them. The host enqueues iterations without waiting. Variant `by-hand`:
// the host reads, calls MPI and writes, like programs without cldist.

#include "opencl.hpp"
#include "options.hpp"

#include <CL/cl_ext_dist.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

using namespace examples;

namespace {

// Vectors with halos have one row before and one after the process's own rows. s contains r.r, p.Ap
// and the next r.r.
const char *const source = R"(
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define GROUP 64
void sum_of_group(double value, local double *part, global double *parts) {
    const size_t i = get_local_id(0);
    part[i] = value;
    for (size_t width = GROUP / 2; width > 0; width /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (i < width) part[i] += part[i + width];
    }
    if (i == 0) parts[get_group_id(0)] = part[0];
}
kernel void multiply(global const double *p, global double *q, global double *parts, ulong n, ulong count) {
    local double part[GROUP];
    const ulong i = get_global_id(0);
    double value = 0;
    if (i < count) {
        const ulong at = i + n, column = i % n;
        const double left = column > 0 ? p[at - 1] : 0, right = column + 1 < n ? p[at + 1] : 0;
        q[i] = 4 * p[at] - left - right - p[at - n] - p[at + n];
        value = q[i] * p[at];
    }
    sum_of_group(value, part, parts);
}
kernel void sum(global const double *parts, global double *s, uint to, ulong count) {
    double value = 0;
    for (ulong i = 0; i < count; ++i) value += parts[i];
    s[to] = value;
}
kernel void advance(global double *x, global double *r, global const double *p, global const double *q,
                 global const double *s, global double *parts, ulong n, ulong count) {
    local double part[GROUP];
    const ulong i = get_global_id(0);
    double value = 0;
    if (i < count) {
        const double alpha = s[0] / s[1];
        x[i] += alpha * p[i + n];
        r[i] -= alpha * q[i];
        value = r[i] * r[i];
    }
    sum_of_group(value, part, parts);
}
kernel void turn(global double *p, global const double *r, global const double *s, ulong n, ulong count) {
    const ulong i = get_global_id(0);
    if (i < count) p[i + n] = r[i] + s[2] / s[0] * p[i + n];
}
kernel void shift(global double *s) { s[0] = s[2]; }
)";

constexpr std::size_t group = 64;

struct Options {
    int size = 256, iterations = 0, rounds = 3, device = -1;
    std::string variant = "both";
};

struct Exchange {
    virtual ~Exchange() = default;
    /// Copies the neighbours' adjacent rows into the halos of `p`.
    virtual void halo(cl_mem p) = 0;
    /// Replaces element `at` of `s` by the sum over all processes.
    virtual void sum(cl_mem s, std::size_t at) = 0;
};

struct Neighbours {
    int before = MPI_PROC_NULL, behind = MPI_PROC_NULL;
    std::size_t row = 0, rows = 0;  ///< bytes of a row, number of own rows
};

class Commands final : public Exchange {
public:
    Commands(cl_command_queue queue, const Neighbours &n) : queue_(queue), n_(n) {}
    void halo(cl_mem p) override {
        const std::size_t last = n_.rows * n_.row;
        check(clEnqueueSendrecvBuffer(queue_, p, CL_FALSE, n_.row, n_.row, n_.before, 0, p,
                                      last + n_.row, n_.row, n_.behind, 0, MPI_COMM_WORLD, 0,
                                      nullptr, nullptr),
              "clEnqueueSendrecvBuffer");
        check(clEnqueueSendrecvBuffer(queue_, p, CL_FALSE, last, n_.row, n_.behind, 1, p, 0, n_.row,
                                      n_.before, 1, MPI_COMM_WORLD, 0, nullptr, nullptr),
              "clEnqueueSendrecvBuffer");
    }
    void sum(cl_mem s, std::size_t at) override {
        const std::size_t offset = at * sizeof(double);
        check(clEnqueueAllreduceBufferMPI(queue_, s, CL_FALSE, offset, s, offset, 1, MPI_DOUBLE,
                                          MPI_SUM, MPI_COMM_WORLD, 0, nullptr, nullptr),
              "clEnqueueAllreduceBufferMPI");
    }

private:
    cl_command_queue queue_;
    Neighbours n_;
};

class ByHand final : public Exchange {
public:
    ByHand(cl_command_queue queue, const Neighbours &n)
        : queue_(queue), n_(n), out_(n.row / sizeof(double)), in_(out_.size()) {}
    void halo(cl_mem p) override {
        const std::size_t last = n_.rows * n_.row;
        swap(p, n_.row, n_.before, last + n_.row, n_.behind);
        swap(p, last, n_.behind, 0, n_.before);
    }
    void sum(cl_mem s, std::size_t at) override {
        double mine = 0;
        double all = 0;
        check(clEnqueueReadBuffer(queue_, s, CL_TRUE, at * sizeof mine, sizeof mine, &mine, 0,
                                  nullptr, nullptr),
              "clEnqueueReadBuffer");
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        check(clEnqueueWriteBuffer(queue_, s, CL_TRUE, at * sizeof all, sizeof all, &all, 0,
                                   nullptr, nullptr),
              "clEnqueueWriteBuffer");
    }

private:
    void swap(cl_mem p, std::size_t from, int to_rank, std::size_t to, int from_rank) {
        const int count = int(out_.size());
        if (to_rank != MPI_PROC_NULL)
            check(clEnqueueReadBuffer(queue_, p, CL_TRUE, from, n_.row, out_.data(), 0, nullptr,
                                      nullptr),
                  "clEnqueueReadBuffer");
        MPI_Sendrecv(out_.data(), count, MPI_DOUBLE, to_rank, 0, in_.data(), count, MPI_DOUBLE,
                     from_rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (from_rank != MPI_PROC_NULL)
            check(clEnqueueWriteBuffer(queue_, p, CL_TRUE, to, n_.row, in_.data(), 0, nullptr,
                                       nullptr),
                  "clEnqueueWriteBuffer");
    }

    cl_command_queue queue_;
    Neighbours n_;
    std::vector<double> out_, in_;
};

template <typename T>
void set(const Kernel &kernel, cl_uint index, const T &value) {
    check(clSetKernelArg(kernel.get(), index, sizeof value, &value), "clSetKernelArg");
}
template <typename... T>
void set_all(const Kernel &kernel, const T &...values) {
    cl_uint index = 0;
    (set(kernel, index++, values), ...);
}

class Solver {
public:
    Solver(const Options &options, int rank, int ranks)
        : n_(std::size_t(options.size)),
          first_(n_ * std::size_t(rank) / std::size_t(ranks)),
          rows_(n_ * std::size_t(rank + 1) / std::size_t(ranks) - first_),
          device_(Device::choose(options.device, MPI_COMM_WORLD)),
          context_(make_context(device_)),
          queue_(make_queue(context_, device_)) {
        neighbours_ = {rank > 0 ? rank - 1 : MPI_PROC_NULL,
                       rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL, n_ * sizeof(double), rows_};
        items_ = (rows_ * n_ + group - 1) / group * group;
        const std::size_t bytes = rows_ * n_ * sizeof(double), halo = 2 * n_ * sizeof(double);
        x_ = make_buffer(context_, bytes);
        r_ = make_buffer(context_, bytes);
        q_ = make_buffer(context_, bytes);
        p_ = make_buffer(context_, bytes + halo);
        s_ = make_buffer(context_, 3 * sizeof(double));
        parts_ = make_buffer(context_, items_ / group * sizeof(double));
        const auto kernel = [&](const char *name) {
            return build_kernel(context_, device_, source, "", name);
        };
        multiply_ = kernel("multiply");
        sum_ = kernel("sum");
        step_ = kernel("advance");
        turn_ = kernel("turn");
        shift_ = kernel("shift");
        const cl_ulong n = n_, count = rows_ * n_, parts = items_ / group;
        set_all(multiply_, p_.get(), q_.get(), parts_.get(), n, count);
        set_all(sum_, parts_.get(), s_.get(), cl_uint(0), parts);
        set_all(step_, x_.get(), r_.get(), p_.get(), q_.get(), s_.get(), parts_.get(), n, count);
        set_all(turn_, p_.get(), r_.get(), s_.get(), n, count);
        set_all(shift_, s_.get());
    }

    /// Returns an element of the expected solution. b is A times this solution.
    [[nodiscard]] double wanted(std::size_t row, std::size_t column) const {
        if (row >= n_ || column >= n_) return 0;
        return std::sin(0.1 * double(row)) + std::cos(0.07 * double(column));
    }

    /// Returns the seconds of `iterations`.
    double solve(bool commands, int iterations) {
        const std::size_t count = rows_ * n_;
        std::vector<double> b(count), zeros(count), p((rows_ + 2) * n_);
        double mine = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t row = first_ + i / n_, column = i % n_;
            b[i] = 4 * wanted(row, column) - wanted(row, column - 1) - wanted(row, column + 1) -
                   wanted(row - 1, column) - wanted(row + 1, column);
            p[i + n_] = b[i];
            mine += b[i] * b[i];
        }
        double s[3] = {0, 0, 0};
        MPI_Allreduce(&mine, &s[0], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        write(x_, zeros.data(), count);
        write(r_, b.data(), count);
        write(p_, p.data(), p.size());
        write(s_, s, 3);
        Commands with(queue_.get(), neighbours_);
        ByHand without(queue_.get(), neighbours_);
        Exchange &exchange = commands ? static_cast<Exchange &>(with) : without;
        MPI_Barrier(MPI_COMM_WORLD);
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < iterations; ++i) {
            exchange.halo(p_.get());
            launch(multiply_, items_);
            dot(1, exchange);
            launch(step_, items_);
            dot(2, exchange);
            launch(turn_, items_);
            launch(shift_, 1);
            // Limits the number of waiting commands.
            if (i % 100 == 99) check(clFinish(queue_.get()), "clFinish");
        }
        check(clFinish(queue_.get()), "clFinish");
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }

    /// Returns the largest difference to the expected solution.
    double error() {
        std::vector<double> x(rows_ * n_);
        check(clEnqueueReadBuffer(queue_.get(), x_.get(), CL_TRUE, 0, x.size() * sizeof(double),
                                  x.data(), 0, nullptr, nullptr),
              "clEnqueueReadBuffer");
        double mine = 0, all = 0;
        for (std::size_t i = 0; i < x.size(); ++i)
            mine = std::max(mine, std::abs(x[i] - wanted(first_ + i / n_, i % n_)));
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        return all;
    }

private:
    void write(const Buffer &buffer, const double *data, std::size_t count) {
        check(clEnqueueWriteBuffer(queue_.get(), buffer.get(), CL_TRUE, 0, count * sizeof(double),
                                   data, 0, nullptr, nullptr),
              "clEnqueueWriteBuffer");
    }
    void launch(const Kernel &kernel, std::size_t items) {
        const std::size_t local = items == 1 ? 1 : group;
        check(clEnqueueNDRangeKernel(queue_.get(), kernel.get(), 1, nullptr, &items, &local, 0,
                                     nullptr, nullptr),
              "clEnqueueNDRangeKernel");
    }
    void dot(cl_uint to, Exchange &exchange) {
        set(sum_, 2, to);
        launch(sum_, 1);
        exchange.sum(s_.get(), to);
    }

    std::size_t n_, first_, rows_, items_ = 0;
    Device device_;
    Context context_;
    Queue queue_;
    Neighbours neighbours_;
    Buffer x_, r_, q_, p_, s_, parts_;
    Kernel multiply_, sum_, step_, turn_, shift_;
};

Options options_of(int argc, char **argv) {
    Options options;
    for (int i = 1; i < argc; i += 2) {
        const std::string_view name = argv[i];
        if (i + 1 == argc) refuse(fmt::format("{} needs a value", name));
        if (name == "--size")
            options.size = number(argv[i + 1], 2);
        else if (name == "--iterations")
            options.iterations = number(argv[i + 1], 1);
        else if (name == "--rounds")
            options.rounds = number(argv[i + 1], 1);
        else if (name == "--device")
            options.device = number(argv[i + 1], 0);
        else if (name == "--variant")
            options.variant = argv[i + 1];
        else
            refuse(fmt::format(
                "no option {} (--size N, --iterations N, --rounds N, --device N, --variant "
                "command|by-hand|both)",
                name));
    }
    const std::string_view variants[] = {"command", "by-hand", "both"};
    if (std::find(std::begin(variants), std::end(variants), options.variant) == std::end(variants))
        refuse(fmt::format("no variant {}", options.variant));
    if (size_of(MPI_COMM_WORLD) > options.size) refuse("there are more processes than rows");
    if (options.iterations == 0) options.iterations = 6 * options.size;
    return options;
}

}  // namespace

int main(int argc, char **argv) {
    return run_program("conjugate_gradient", argc, argv, [&](int rank) {
        const Options options = options_of(argc, argv);
        Solver solver(options, rank, size_of(MPI_COMM_WORLD));
        std::vector<double> seconds[2];
        int status = 0;
        for (int round = 0; round <= options.rounds; ++round) {
            for (const bool commands : {true, false}) {
                if (options.variant == (commands ? "by-hand" : "command")) continue;
                const double taken = solver.solve(commands, options.iterations);
                if (round > 0) seconds[commands ? 1 : 0].push_back(taken);
                const double error = solver.error();
                if (error < 1e-6) continue;
                status = 1;
                if (rank == 0)
                    fmt::print(stderr, "{}: off by {}\n", commands ? "command" : "by-hand", error);
            }
        }
        for (const bool commands : {true, false}) {
            std::vector<double> &all = seconds[commands ? 1 : 0];
            if (all.empty() || rank != 0) continue;
            std::sort(all.begin(), all.end());
            fmt::print("{}: {:.1f} us an iteration\n", commands ? "command" : "by-hand",
                       all[all.size() / 2] / options.iterations * 1e6);
        }
        return status;
    });
}
