#pragma once

#include "aerosol.hpp"

#include "opencl.hpp"

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace nanopowder {

using namespace examples;

/// The bins that this process computes on its device: with n processes, every n-th block of 8 bins.
///
/// In each step, every device needs the matrix for the step's temperature, which rank 0 computes.
/// Two matrices alternate, on the device and in page-locked host memory, so that one can be
/// transferred while the other is used. A step also needs the concentrations of all bins, which
/// gather() has collected after the previous step.
class Powder {
public:
    static constexpr int tag = 0;

    /// Each process needs at least one block.
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

    /// Computes the matrix of a step in host_matrix(step). Calls `meanwhile` regularly, without
    /// counting its time in computing_matrices().
    void compute_matrix(int step, const std::function<void()> &meanwhile = {});
    /// Enqueues the write of a step's matrix from host memory to the device.
    Event write_matrix(const Queue &queue, int step) const;

    /// Enqueues the kernel of a step, which waits for `matrix_there`, and the read of its result.
    Event enqueue_step(int step, const Event &matrix_there);
    /// Waits for the step's result, exchanges it with the other processes, and enqueues the write
    /// of all concentrations for the next step. Collective.
    void gather();
    /// Waits for the commands of enqueue_step() and gather().
    void finish() const { check(clFinish(queue_.get()), "clFinish"); }

    /// Sets the initial concentrations.
    void reset();
    /// Seconds in which kernels ran and in which the host computed matrices, since the last reset.
    double computing() const;
    double computing_matrices() const { return matrix_seconds_; }
    /// The concentrations of all bins, equal on all ranks.
    std::vector<float> concentrations() const;
    /// The mass of the particles that have become too large for the bins. Collective.
    double outgrown() const;

private:
    int blocks_of(int rank) const {
        return (aerosol_.bins / Aerosol::block - rank + ranks_ - 1) / ranks_;
    }
    /// The number of bins in the largest share, that of rank 0.
    std::size_t part() const { return std::size_t(blocks_of(0)) * Aerosol::block; }
    /// Copies the consecutive shares of all ranks to `bins`, in the order of the bins.
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
