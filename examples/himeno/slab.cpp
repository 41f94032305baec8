#include "slab.hpp"

#include "jacobi.hpp"

#include <CL/cl_ext_dist.h>

#include <algorithm>

namespace himeno {
namespace {

std::vector<cl_device_id> devices_of(cl_device_type type) {
    cl_uint count = 0;
    if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS) return {};
    std::vector<cl_platform_id> platforms(count);
    check(clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
    std::vector<cl_device_id> devices;
    for (cl_platform_id platform : platforms) {
        if (clGetDeviceIDs(platform, type, 0, nullptr, &count) != CL_SUCCESS) continue;
        devices.resize(devices.size() + count);
        check(clGetDeviceIDs(platform, type, count, &*devices.end() - count, nullptr), "clGetDeviceIDs");
    }
    return devices;
}

int rank_of(MPI_Comm comm) {
    int rank;
    MPI_Comm_rank(comm, &rank);
    return rank;
}

int size_of(MPI_Comm comm) {
    int size;
    MPI_Comm_size(comm, &size);
    return size;
}

}  // namespace

Device Device::choose(int index, MPI_Comm comm) {
    std::vector<cl_device_id> devices = devices_of(CL_DEVICE_TYPE_GPU);
    const bool is_gpu = !devices.empty();
    if (!is_gpu) devices = devices_of(CL_DEVICE_TYPE_CPU);
    if (devices.empty()) throw std::runtime_error("no OpenCL device found");
    if (index < 0) {
        MPI_Comm host;
        MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
        index = rank_of(host) % int(devices.size());
        MPI_Comm_free(&host);
    }
    if (index >= int(devices.size()))
        throw std::runtime_error(fmt::format("there is no device {}, only {}", index, devices.size()));
    std::size_t size;
    check(clGetDeviceInfo(devices[index], CL_DEVICE_NAME, 0, nullptr, &size), "clGetDeviceInfo");
    std::string name(size, '\0');
    check(clGetDeviceInfo(devices[index], CL_DEVICE_NAME, size, name.data(), nullptr), "clGetDeviceInfo");
    name.pop_back();  // the terminating zero
    return {devices[index], is_gpu, name};
}

Slab::Slab(const Grid &grid, const Device &device, MPI_Comm comm)
    : grid_(grid), comm_(comm), rank_(rank_of(comm)), ranks_(size_of(comm)), device_(device) {
    const int inner = grid.imax - 2;
    const auto begin_of = [&](int rank) { return 1 + rank * (inner / ranks_) + std::min(rank, inner % ranks_); };
    begin_ = begin_of(rank_);
    planes_ = begin_of(rank_ + 1) - begin_;
    lower_neighbour_ = rank_ > 0 ? rank_ - 1 : MPI_PROC_NULL;
    upper_neighbour_ = rank_ < ranks_ - 1 ? rank_ + 1 : MPI_PROC_NULL;
    lower_first_ = rank_ % 2 == 0;
    group_ = std::min(grid.kmax, 256);

    cl_int status;
    context_ = Context(clCreateContext(nullptr, 1, &device_.id, nullptr, nullptr, &status));
    check(status, "clCreateContext");
    setup_ = make_queue();

    const char *source = jacobi_source;
    program_ = Program(clCreateProgramWithSource(context_.get(), 1, &source, nullptr, &status));
    check(status, "clCreateProgramWithSource");
    const std::string options = fmt::format("-DROWS={} -DCOLUMNS={} -DGROUP={}", grid.jmax, grid.kmax, group_);
    check(clBuildProgram(program_.get(), 1, &device_.id, options.c_str(), nullptr, nullptr), "building jacobi.cl");
    kernel_ = Kernel(clCreateKernel(program_.get(), "jacobi", &status));
    check(status, "clCreateKernel");

    const std::size_t points = (planes_ + 2) * grid.plane();
    a_ = make_buffer(4 * points);
    b_ = make_buffer(3 * points);
    c_ = make_buffer(3 * points);
    wrk1_ = make_buffer(points);
    bnd_ = make_buffer(points);
    for (Buffer &pressure : pressure_) pressure = make_buffer(points);
    partial_ = make_buffer(groups_per_plane() * planes_);
    for (int n = 0; n < 4; ++n) fill(a_, n * points, points, a_values[n]);
    for (int n = 0; n < 3; ++n) {
        fill(b_, n * points, points, b_values[n]);
        fill(c_, n * points, points, c_values[n]);
    }
    fill(wrk1_, 0, points, wrk1_value);
    fill(bnd_, 0, points, bnd_value);

    const std::size_t pinned_size = pinned_faces * face_size();
    pinned_memory_ = make_buffer(pinned_size / sizeof(float), CL_MEM_ALLOC_HOST_PTR);
    pinned_ = static_cast<std::byte *>(clEnqueueMapBuffer(setup_.get(), pinned_memory_.get(), CL_TRUE,
                                                          CL_MAP_READ | CL_MAP_WRITE, 0, pinned_size, 0, nullptr,
                                                          nullptr, &status));
    check(status, "mapping page-locked memory");
}

Slab::~Slab() {
    clEnqueueUnmapMemObject(setup_.get(), pinned_memory_.get(), pinned_, 0, nullptr, nullptr);
    clFinish(setup_.get());
}

Queue Slab::make_queue() const {
    cl_int status;
    const cl_queue_properties properties[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0};
    Queue queue(clCreateCommandQueueWithProperties(context_.get(), device_.id, properties, &status));
    check(status, "clCreateCommandQueueWithProperties");
    return queue;
}

Event Slab::enqueue_jacobi(cl_command_queue queue, const Part &part, int iteration, const WaitList &after) {
    cl_uint index = 0;
    const auto set = [&](std::size_t size, const void *value) {
        check(clSetKernelArg(kernel_.get(), index++, size, value), "clSetKernelArg");
    };
    for (const cl_mem buffer : {a_.get(), b_.get(), c_.get(), wrk1_.get(), bnd_.get(), pressure(iteration),
                                pressure(iteration + 1), partial_.get()})
        set(sizeof(cl_mem), &buffer);
    const cl_ulong matrix = (planes_ + 2) * grid_.plane();
    const cl_uint first = part.first;
    set(sizeof(matrix), &matrix);
    set(sizeof(first), &first);

    const std::size_t global[] = {std::size_t(grid_.kmax), std::size_t(grid_.jmax - 2), std::size_t(part.planes)};
    const std::size_t local[] = {group_, 1, 1};
    Event event;
    check(clEnqueueNDRangeKernel(queue, kernel_.get(), 3, nullptr, global, local, after.count(), after.data(),
                                 event.put()),
          "enqueueing the kernel");
    check(clFlush(queue), "clFlush");
    check(clTraceEvent(event.get(), part.name), "clTraceEvent");
    check(clRetainEvent(event.get()), "clRetainEvent");
    kernels_.emplace_back(event.get());
    return event;
}

void Slab::reset() {
    for (const Buffer &pressure : pressure_)
        for (int i = 0; i < planes_ + 2; ++i)
            fill(pressure, i * grid_.plane(), grid_.plane(), grid_.initial_pressure(begin_ - 1 + i));
    check(clFinish(setup_.get()), "clFinish");
    kernels_.clear();
}

double Slab::computing() const {
    std::vector<std::pair<cl_ulong, cl_ulong>> intervals;
    for (const Event &event : kernels_) {
        cl_ulong start, end;
        check(clGetEventProfilingInfo(event.get(), CL_PROFILING_COMMAND_START, sizeof start, &start, nullptr),
              "profiling");
        check(clGetEventProfilingInfo(event.get(), CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr), "profiling");
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
    // Each plane's sum is made on one rank, in one order, and the planes are added in one order: the number does not
    // depend on the decomposition.
    const std::size_t per_plane = groups_per_plane();
    std::vector<float> partial(planes_ * per_plane);
    check(clEnqueueReadBuffer(setup_.get(), partial_.get(), CL_TRUE, 0, partial.size() * sizeof(float), partial.data(),
                              0, nullptr, nullptr),
          "reading gosa");
    std::vector<double> planes(grid_.imax, 0.0);
    for (int i = 0; i < planes_; ++i)
        for (std::size_t n = 0; n < per_plane; ++n) planes[begin_ + i] += partial[i * per_plane + n];
    MPI_Allreduce(MPI_IN_PLACE, planes.data(), grid_.imax, MPI_DOUBLE, MPI_SUM, comm_);
    double gosa = 0.0;
    for (const double plane : planes) gosa += plane;
    return gosa;
}

std::vector<float> Slab::gather(int iteration) const {
    // The grid's first and last plane come along with the slabs next to them.
    const int first = rank_ == 0 ? 0 : 1, count = planes_ + (rank_ == 0) + (rank_ == ranks_ - 1);
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
    MPI_Gatherv(mine.data(), count, plane, all.data(), counts.data(), offsets.data(), plane, 0, comm_);
    MPI_Type_free(&plane);
    return all;
}

Buffer Slab::make_buffer(std::size_t floats, cl_mem_flags flags) const {
    cl_int status;
    Buffer buffer(clCreateBuffer(context_.get(), flags, floats * sizeof(float), nullptr, &status));
    check(status, "clCreateBuffer");
    return buffer;
}

void Slab::fill(const Buffer &buffer, std::size_t first, std::size_t count, float value) const {
    check(clEnqueueFillBuffer(setup_.get(), buffer.get(), &value, sizeof value, first * sizeof(float),
                              count * sizeof(float), 0, nullptr, nullptr),
          "clEnqueueFillBuffer");
}

}  // namespace himeno
