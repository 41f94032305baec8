#include "powder.hpp"

#include "coagulate.hpp"

#include <CL/cl_ext_dist.h>

#include <algorithm>

namespace nanopowder {
namespace {

constexpr int slices = 32;  // work-group size

}  // namespace

Powder::Powder(const Aerosol &aerosol, const Device &device, MPI_Comm comm)
    : aerosol_(aerosol), device_(device), comm_(comm), rank_(rank_of(comm)), ranks_(size_of(comm)) {
    context_ = make_context(device_);
    queue_ = make_queue();
    kernel_ =
        build_kernel(context_, device_, coagulate_source,
                     fmt::format("-DBINS={} -DSLICES={}", aerosol_.bins, slices), "coagulate");
    const std::size_t now_size = (Aerosol::block + aerosol_.bins) * sizeof(float),
                      part_size = part() * sizeof(float);
    now_ = make_buffer(context_, now_size);
    next_ = make_buffer(context_, part_size);
    outgrown_ = make_buffer(context_, part_size);
    for (Buffer &matrix : matrix_) matrix = make_buffer(context_, matrix_size());
    for (PinnedMemory &matrix : host_matrix_)
        matrix = PinnedMemory(context_, device_, matrix_size());
    host_now_ = PinnedMemory(context_, device_, now_size);
    host_part_ = PinnedMemory(context_, device_, part_size);
    host_parts_ = PinnedMemory(context_, device_, part_size * ranks_);
}

void Powder::compute_matrix(int step, const std::function<void()> &meanwhile) {
    const double start = MPI_Wtime();
    double elsewhere = 0.0;
    aerosol_.collisions(step, host_matrix_[step % 2].floats(), [&] {
        if (!meanwhile) return;
        const double left = MPI_Wtime();
        meanwhile();
        elsewhere += MPI_Wtime() - left;
    });
    matrix_seconds_ += MPI_Wtime() - start - elsewhere;
}

Event Powder::write_matrix(const Queue &queue, int step) const {
    Event written;
    check(clEnqueueWriteBuffer(queue.get(), matrix(step), CL_FALSE, 0, matrix_size(),
                               host_matrix(step), 0, nullptr, written.put()),
          "writing a matrix");
    check(clFlush(queue.get()), "clFlush");
    check(clTraceEvent(written.get(), "write matrix"), "clTraceEvent");
    return written;
}

Event Powder::enqueue_step(int step, const Event &matrix_there) {
    cl_uint index = 0;
    const auto set = [&](std::size_t size, const void *value) {
        check(clSetKernelArg(kernel_.get(), index++, size, value), "clSetKernelArg");
    };
    for (const cl_mem buffer : {matrix(step), now_.get(), next_.get(), outgrown_.get()})
        set(sizeof buffer, &buffer);
    for (const cl_uint value : {cl_uint(rank_), cl_uint(ranks_)}) set(sizeof value, &value);

    const std::size_t local = slices, global = local * blocks_of(rank_);
    const WaitList after{matrix_there.get()};
    Event computed;
    check(clEnqueueNDRangeKernel(queue_.get(), kernel_.get(), 1, nullptr, &global, &local,
                                 after.count(), after.data(), computed.put()),
          "enqueueing the kernel");
    check(clEnqueueReadBuffer(queue_.get(), next_.get(), CL_FALSE, 0, part() * sizeof(float),
                              host_part_.data(), 0, nullptr, part_read_.put()),
          "reading a part");
    check(clFlush(queue_.get()), "clFlush");
    check(clTraceEvent(computed.get(), "coagulate"), "clTraceEvent");
    check(clRetainEvent(computed.get()), "clRetainEvent");
    kernels_.emplace_back(computed.get());
    return computed;
}

void Powder::gather() {
    wait(part_read_);
    const int count = int(part());
    MPI_Allgather(host_part_.data(), count, MPI_FLOAT, host_parts_.data(), count, MPI_FLOAT, comm_);
    sort(host_parts_.floats(), host_now_.floats() + Aerosol::block);
    // The host memory stays unchanged until the write is complete: the next gather() first waits
    // for a read that follows the write in the queue.
    check(clEnqueueWriteBuffer(queue_.get(), now_.get(), CL_FALSE, 0,
                               (Aerosol::block + aerosol_.bins) * sizeof(float), host_now_.data(),
                               0, nullptr, nullptr),
          "writing the concentrations");
    check(clFlush(queue_.get()), "clFlush");
}

void Powder::reset() {
    std::fill_n(host_now_.floats(), Aerosol::block, 0.0f);
    const std::vector<float> initial = aerosol_.initial();
    std::copy(initial.begin(), initial.end(), host_now_.floats() + Aerosol::block);
    check(clEnqueueWriteBuffer(queue_.get(), now_.get(), CL_TRUE, 0,
                               (Aerosol::block + aerosol_.bins) * sizeof(float), host_now_.data(),
                               0, nullptr, nullptr),
          "writing the concentrations");
    const float none = 0.0f;
    check(clEnqueueFillBuffer(queue_.get(), outgrown_.get(), &none, sizeof none, 0,
                              part() * sizeof none, 0, nullptr, nullptr),
          "clEnqueueFillBuffer");
    finish();
    kernels_.clear();
    matrix_seconds_ = 0.0;
}

double Powder::computing() const {
    cl_ulong sum = 0;
    for (const Event &event : kernels_) {
        cl_ulong start, end;
        check(clGetEventProfilingInfo(event.get(), CL_PROFILING_COMMAND_START, sizeof start, &start,
                                      nullptr),
              "profiling");
        check(clGetEventProfilingInfo(event.get(), CL_PROFILING_COMMAND_END, sizeof end, &end,
                                      nullptr),
              "profiling");
        sum += end - start;
    }
    return double(sum) * 1e-9;
}

std::vector<float> Powder::concentrations() const {
    const float *first = host_now_.floats() + Aerosol::block;
    return {first, first + aerosol_.bins};
}

double Powder::outgrown() const {
    // Adds in the order of the bins, so that the result does not depend on the number of processes.
    std::vector<float> mine(part()), shares(part() * ranks_), all(aerosol_.bins);
    check(clEnqueueReadBuffer(queue_.get(), outgrown_.get(), CL_TRUE, 0,
                              mine.size() * sizeof(float), mine.data(), 0, nullptr, nullptr),
          "reading what outgrew the bins");
    MPI_Allgather(mine.data(), int(mine.size()), MPI_FLOAT, shares.data(), int(mine.size()),
                  MPI_FLOAT, comm_);
    sort(shares.data(), all.data());
    double sum = 0.0;
    for (const float bin : all) sum += bin;
    return sum;
}

void Powder::sort(const float *shares, float *bins) const {
    for (int rank = 0; rank < ranks_; ++rank)
        for (int n = 0; n < blocks_of(rank); ++n)
            std::copy_n(shares + rank * part() + n * Aerosol::block, Aerosol::block,
                        bins + (n * ranks_ + rank) * Aerosol::block);
}

}  // namespace nanopowder
