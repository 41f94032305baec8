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

/// Where a half of the slab meets the neighbour's: this process sends its `edge` plane and receives
/// into `halo`. Offsets and size are in bytes. At the ends of the grid the neighbour is
/// MPI_PROC_NULL.
struct Face {
    int neighbour;
    std::size_t edge, halo, size;
};

struct Half {
    Part part;
    Face face;
};

/// Planes of the slab, from `first` on, and where they are in the grid.
struct Planes {
    int first, count, in_grid;
};

/// The planes of the grid that this process computes, with one halo plane on either side, on its
/// device.
///
///        rank - 1  |  lower half  |  upper half  |  rank + 1          i grows to the right
///                halo                          halo
///
/// Iteration n reads pressure(n) and writes pressure(n + 1); there are only two buffers, used in
/// turns.
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
    /// All planes here, halos included.
    Planes all() const { return {0, planes_ + 2, begin_ - 1}; }
    /// The planes that are this process's alone: those it computes and, at the ends, the grid's
    /// first or last one.
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

    /// The half that this process computes first, and the other. Neighbours begin with the halves
    /// in which they meet, or end with them: so both sides have a face ready at the same time, and
    /// half an iteration to exchange it.
    Half first() const { return lower_first_ ? lower() : upper(); }
    Half second() const { return lower_first_ ? upper() : lower(); }

    Queue make_queue() const { return examples::make_queue(context_, device_); }
    /// Space for all().
    Buffer make_field() const { return make_buffer((planes_ + 2) * grid_.plane()); }
    /// Page-locked host memory for a face; there are `pinned_faces` of them.
    std::byte *pinned_face(int index) const { return pinned_.data() + index * face_size(); }
    /// Whether the device copies with a separate unit, so that copies can run beside a kernel.
    bool copies_beside_kernels() const { return device_.is_gpu; }
    cl_mem pressure(int iteration) const { return pressure_[iteration % 2].get(); }

    /// Enqueues the kernel over `part` for one iteration; the event is shown in the trace and
    /// counted in computing().
    Event enqueue_jacobi(cl_command_queue queue, const Part &part, int iteration,
                         const WaitList &after);

    /// Back to the initial pressure.
    void reset();
    /// Seconds during which at least one kernel ran, since the last reset.
    double computing() const;
    /// gosa of the last iteration, the same number on every rank. Collective.
    double gosa() const;
    /// The whole grid's pressure, on rank 0; empty elsewhere. Collective.
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
    int begin_, planes_;  ///< the grid's plane that is plane 1 here, and how many are computed here
    int lower_neighbour_, upper_neighbour_;
    bool lower_first_;
    std::size_t group_;  ///< work-items of a work-group, all along k

    Device device_;
    Context context_;
    Queue setup_;
    Kernel kernel_;
    Buffer a_, b_, c_, wrk1_, bnd_, pressure_[2], partial_;
    PinnedMemory pinned_;
    std::vector<Event> kernels_;
};

}  // namespace himeno
