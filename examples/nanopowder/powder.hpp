#pragma once

#include "aerosol.hpp"

#include "opencl.hpp"

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace nanopowder {

using namespace examples;

/// The part of the bins that this process computes, on its device: every n-th block of 8 bins, with
/// n processes.
///
/// A step needs the matrix of its temperature, which is computed on rank 0, on every device. Two
/// matrices take turns, on the device and in page-locked host memory, so that one can be on its way
/// while the other is used. A step also needs the concentrations of all bins, which are gathered
/// after the step before.
class Powder {
public:
    static constexpr int tag = 0;

    /// Each process needs a block.
    static int max_processes(const Aerosol &aerosol) { return aerosol.bins / Aerosol::block; }

    /// Collective.
    Powder(const Aerosol &aerosol, const Device &device, MPI_Comm comm);

    MPI_Comm comm() const { return comm_; }
    int rank() const { return rank_; }
    int ranks() const { return ranks_; }

    Queue make_queue() const { return examples::make_queue(context_, device_); }
    std::size_t matrix_size() const {
        return std::size_t(aerosol_.bins) * aerosol_.bins * sizeof(float);
    }
    cl_mem matrix(int step) const { return matrix_[step % 2].get(); }
    std::byte *host_matrix(int step) const { return host_matrix_[step % 2].data(); }

    /// Computes the matrix of a step into its host memory, on the calling thread. Calls `meanwhile`
    /// now and then, and does not count its time.
    void compute_matrix(int step, const std::function<void()> &meanwhile = {});
    /// Enqueues the write of a step's matrix from host memory to the device.
    Event write_matrix(const Queue &queue, int step) const;

    /// Enqueues the kernel of a step, once `matrix_there` is complete, and the read of its result.
    Event enqueue_step(int step, const Event &matrix_there);
    /// Waits for the step's result, exchanges it with the other processes, and enqueues the write
    /// of all concentrations for the next step. Collective.
    void gather();
    /// Waits for all that was enqueued here.
    void finish() const { check(clFinish(queue_.get()), "clFinish"); }

    /// Back to the start.
    void reset();
    /// Seconds in which kernels ran and in which the host computed matrices, since the last reset.
    double computing() const;
    double computing_matrices() const { return matrix_seconds_; }
    /// Of all bins, the same on every rank.
    std::vector<float> concentrations() const;
    /// Mass of the particles that left the range of the bins. Collective.
    double outgrown() const;

private:
    int blocks_of(int rank) const {
        return (aerosol_.bins / Aerosol::block - rank + ranks_ - 1) / ranks_;
    }
    /// Bins, of the largest share.
    std::size_t part() const { return std::size_t(blocks_of(0)) * Aerosol::block; }
    /// From the shares of all ranks, one after another, to the order of the bins.
    void sort(const float *shares, float *bins) const;

    Aerosol aerosol_;
    Device device_;
    MPI_Comm comm_;
    int rank_, ranks_;
    Context context_;
    Queue queue_;
    Kernel kernel_;
    Buffer matrix_[2], now_, next_, outgrown_;
    PinnedMemory host_matrix_[2], host_now_, host_part_, host_parts_;
    Event part_read_;
    std::vector<Event> kernels_;
    double matrix_seconds_ = 0.0;
};

}  // namespace nanopowder
