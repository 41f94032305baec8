#include "slab.hpp"

#include "jacobi.hpp"

#include <CL/cl_ext_dist.h>

#include <algorithm>

namespace himeno {

Slab::Slab(const Grid &grid, const Device &device, MPI_Comm comm)
    : grid_(grid), comm_(comm), rank_(rank_of(comm)), ranks_(size_of(comm)), device_(device) {
    const int inner = grid.imax - 2;
    const auto begin_of = [&](int rank) {
        return 1 + rank * (inner / ranks_) + std::min(rank, inner % ranks_);
    };
    begin_ = begin_of(rank_);
    planes_ = begin_of(rank_ + 1) - begin_;
    lower_neighbour_ = rank_ > 0 ? rank_ - 1 : MPI_PROC_NULL;
    upper_neighbour_ = rank_ < ranks_ - 1 ? rank_ + 1 : MPI_PROC_NULL;
    lower_first_ = rank_ % 2 == 0;
    group_ = std::min(grid.kmax, 256);

    context_ = make_context(device_);
    setup_ = make_queue();
    const std::string options =
        fmt::format("-DROWS={} -DCOLUMNS={} -DGROUP={}", grid.jmax, grid.kmax, group_);
    kernel_ = build_kernel(context_, device_, jacobi_source, options, "jacobi");

    const std::size_t points = (planes_ + 2) * grid.plane();
    a_ = make_buffer(4 * points);
    b_ = make_buffer(3 * points);
    c_ = make_buffer(3 * points);
    wrk1_ = make_buffer(points);
    bnd_ = make_buffer(points);
    for (Buffer &pressure : pressure_) pressure = make_field();
    partial_ = make_buffer(groups_per_plane() * planes_);
    for (int n = 0; n < 4; ++n) fill(a_, n * points, points, a_values[n]);
    for (int n = 0; n < 3; ++n) {
        fill(b_, n * points, points, b_values[n]);
        fill(c_, n * points, points, c_values[n]);
    }
    fill(wrk1_, 0, points, wrk1_value);
    fill(bnd_, 0, points, bnd_value);

    pinned_ = PinnedMemory(context_, device_, pinned_faces * face_size());
}

Event Slab::enqueue_jacobi(cl_command_queue queue, const Part &part, int iteration,
                           const WaitList &after) {
    cl_uint index = 0;
    const auto set = [&](std::size_t size, const void *value) {
        check(clSetKernelArg(kernel_.get(), index++, size, value), "clSetKernelArg");
    };
    for (const cl_mem buffer : {a_.get(), b_.get(), c_.get(), wrk1_.get(), bnd_.get(),
                                pressure(iteration), pressure(iteration + 1), partial_.get()})
        set(sizeof(cl_mem), &buffer);
    const cl_ulong matrix = (planes_ + 2) * grid_.plane();
    const cl_uint first = part.first;
    set(sizeof(matrix), &matrix);
    set(sizeof(first), &first);

    const std::size_t global[] = {std::size_t(grid_.kmax), std::size_t(grid_.jmax - 2),
                                  std::size_t(part.planes)};
    const std::size_t local[] = {group_, 1, 1};
    Event event;
    check(clEnqueueNDRangeKernel(queue, kernel_.get(), 3, nullptr, global, local, after.count(),
                                 after.data(), event.put()),
          "enqueueing the kernel");
    check(clTraceEvent(event.get(), part.name), "clTraceEvent");
    check(clRetainEvent(event.get()), "clRetainEvent");
    kernels_.emplace_back(event.get());
    return event;
}

void Slab::reset() {
    for (const Buffer &pressure : pressure_)
        for (int i = 0; i < planes_ + 2; ++i)
            fill(pressure, i * grid_.plane(), grid_.plane(),
                 grid_.initial_pressure(begin_ - 1 + i));
    check(clFinish(setup_.get()), "clFinish");
    kernels_.clear();
}

double Slab::computing() const {
    std::vector<std::pair<cl_ulong, cl_ulong>> intervals;
    for (const Event &event : kernels_) {
        cl_ulong start, end;
        check(clGetEventProfilingInfo(event.get(), CL_PROFILING_COMMAND_START, sizeof start, &start,
                                      nullptr),
              "profiling");
        check(clGetEventProfilingInfo(event.get(), CL_PROFILING_COMMAND_END, sizeof end, &end,
                                      nullptr),
              "profiling");
        intervals.emplace_back(start, end);
    }
    std::sort(intervals.begin(), intervals.end());
    cl_ulong covered = 0, until = 0;
    for (const auto &[start, end] : intervals) {
        covered += std::max(end, until) - std::max(start, until);
        until = std::max(end, until);
    }
    return double(covered) * 1e-9;
}

double Slab::gosa() const {
    // Each plane is summed on one rank, and the planes are added in order. Therefore the result
    // does not depend on the number of processes.
    const std::size_t per_plane = groups_per_plane();
    std::vector<float> partial(planes_ * per_plane);
    check(clEnqueueReadBuffer(setup_.get(), partial_.get(), CL_TRUE, 0,
                              partial.size() * sizeof(float), partial.data(), 0, nullptr, nullptr),
          "reading gosa");
    std::vector<double> planes(grid_.imax, 0.0);
    for (int i = 0; i < planes_; ++i)
        for (std::size_t n = 0; n < per_plane; ++n)
            planes[begin_ + i] += partial[i * per_plane + n];
    MPI_Allreduce(MPI_IN_PLACE, planes.data(), grid_.imax, MPI_DOUBLE, MPI_SUM, comm_);
    double gosa = 0.0;
    for (const double plane : planes) gosa += plane;
    return gosa;
}

std::vector<float> Slab::gather(int iteration) const {
    const auto [first, count, in_grid] = own();
    std::vector<float> mine(count * grid_.plane());
    check(clEnqueueReadBuffer(setup_.get(), pressure(iteration), CL_TRUE, first * face_size(),
                              mine.size() * sizeof(float), mine.data(), 0, nullptr, nullptr),
          "reading the pressure");

    MPI_Datatype plane;
    MPI_Type_contiguous(int(grid_.plane()), MPI_FLOAT, &plane);
    MPI_Type_commit(&plane);
    std::vector<float> all(rank_ == 0 ? grid_.points() : 0);
    std::vector<int> counts(ranks_), offsets(ranks_, 0);
    MPI_Gather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, comm_);
    for (int rank = 1; rank < ranks_; ++rank) offsets[rank] = offsets[rank - 1] + counts[rank - 1];
    MPI_Gatherv(mine.data(), count, plane, all.data(), counts.data(), offsets.data(), plane, 0,
                comm_);
    MPI_Type_free(&plane);
    return all;
}

void Slab::fill(const Buffer &buffer, std::size_t first, std::size_t count, float value) const {
    check(clEnqueueFillBuffer(setup_.get(), buffer.get(), &value, sizeof value,
                              first * sizeof(float), count * sizeof(float), 0, nullptr, nullptr),
          "clEnqueueFillBuffer");
}

}  // namespace himeno
