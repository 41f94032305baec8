#pragma once

#include "grid.hpp"

#include "opencl.hpp"

#include <mpi.h>

#include <cstddef>
#include <vector>

namespace himeno {

using namespace examples;

/// A range of planes of the slab; plane 0 and the last one are halos.
struct Part {
    int first, planes;
    const char *name;
};

/// The border between a half of the slab and the neighbour's slab. This process sends its plane at
/// `edge` and receives the neighbour's plane at `halo`. Offsets and size are in bytes. At the ends
/// of the grid, the neighbour is MPI_PROC_NULL.
struct Face {
    int neighbour;
    std::size_t edge, halo, size;
};

struct Half {
    Part part;
    Face face;
};

/// `count` planes of the slab from `first` on. In the grid they begin at plane `in_grid`.
struct Planes {
    int first, count, in_grid;
};

/// The planes of the grid that this process computes on its device, between two halo planes.
///
///        rank - 1  |  lower half  |  upper half  |  rank + 1          i grows to the right
///                halo                          halo
///
/// Iteration n reads pressure(n) and writes pressure(n + 1), which are two alternating buffers.
class Slab {
public:
    static constexpr int tag = 0;
    static constexpr int pinned_faces = 6;

    /// Each process needs two inner planes, one for each half.
    static int max_processes(const Grid &grid) { return (grid.imax - 2) / 2; }

    /// `comm` may have up to max_processes() processes. Collective.
    Slab(const Grid &grid, const Device &device, MPI_Comm comm);
    Slab(const Slab &) = delete;

    MPI_Comm comm() const { return comm_; }
    /// Bytes of a plane.
    std::size_t face_size() const { return grid_.plane() * sizeof(float); }
    /// All planes of the slab, including halos.
    Planes all() const { return {0, planes_ + 2, begin_ - 1}; }
    /// The planes that this process contributes to the grid: the computed ones and, at the ends,
    /// the grid's first or last plane.
    Planes own() const {
        const int first = rank_ == 0 ? 0 : 1;
        return {first, planes_ + (rank_ == 0) + (rank_ == ranks_ - 1), begin_ - 1 + first};
    }
    Part whole() const { return {1, planes_, "jacobi"}; }
    Half lower() const { return {{1, planes_ / 2, "jacobi lower"}, face(lower_neighbour_, 1, 0)}; }
    Half upper() const {
        return {{1 + planes_ / 2, planes_ - planes_ / 2, "jacobi upper"},
                face(upper_neighbour_, planes_, planes_ + 1)};
    }

    /// The half that this process computes first, and the other half. Two adjacent halves of
    /// neighbours are both first or both second, so that both faces are ready at the same time, and
    /// half an iteration remains to exchange them.
    Half first() const { return lower_first_ ? lower() : upper(); }
    Half second() const { return lower_first_ ? upper() : lower(); }

    Queue make_queue() const { return examples::make_queue(context_, device_); }
    /// Creates a buffer for the planes all().
    Buffer make_field() const { return make_buffer((planes_ + 2) * grid_.plane()); }
    /// Page-locked host memory for a face. `index` is below `pinned_faces`.
    std::byte *pinned_face(int index) const { return pinned_.data() + index * face_size(); }
    /// Whether the device has a copy engine, so that copies can run during a kernel.
    bool copies_beside_kernels() const { return device_.is_gpu; }
    cl_mem pressure(int iteration) const { return pressure_[iteration % 2].get(); }

    /// Enqueues the kernel over `part` for one iteration. Adds it to the trace and to computing().
    Event enqueue_jacobi(cl_command_queue queue, const Part &part, int iteration,
                         const WaitList &after);

    /// Sets the initial pressure.
    void reset();
    /// Seconds during which at least one kernel ran, since the last reset.
    double computing() const;
    /// gosa (the sum of squared residuals) of the last iteration, equal on all ranks. Collective.
    double gosa() const;
    /// The whole grid's pressure on rank 0; empty on other ranks. Collective.
    std::vector<float> gather(int iteration) const;

private:
    std::size_t groups_per_plane() const {
        return std::size_t(grid_.jmax - 2) * (std::size_t(grid_.kmax) / group_);
    }
    Face face(int neighbour, int edge, int halo) const {
        return {neighbour, edge * face_size(), halo * face_size(), face_size()};
    }
    Buffer make_buffer(std::size_t floats) const {
        return examples::make_buffer(context_, floats * sizeof(float));
    }
    void fill(const Buffer &buffer, std::size_t first, std::size_t count, float value) const;

    Grid grid_;
    MPI_Comm comm_;
    int rank_, ranks_;
    int begin_, planes_;  ///< the first computed plane of the grid, and the number of them
    int lower_neighbour_, upper_neighbour_;
    bool lower_first_;
    std::size_t group_;  ///< work-group size, along k

    Device device_;
    Context context_;
    Queue setup_;
    Kernel kernel_;
    Buffer a_, b_, c_, wrk1_, bnd_, pressure_[2], partial_;
    PinnedMemory pinned_;
    std::vector<Event> kernels_;
};

}  // namespace himeno
