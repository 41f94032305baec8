#include "hosts.hpp"

namespace himeno {
namespace {

/// One half of the slab, its in-order queue, and the exchange of its face through page-locked memory.
class Half {
public:
    Half(Slab &slab, const Part &part, const Face &face, int first_pinned_face)
        : slab_(slab), part_(part), face_(face), queue_(slab.make_queue()), edge_(slab.pinned_face(first_pinned_face)),
          halo_{slab.pinned_face(first_pinned_face + 1), slab.pinned_face(first_pinned_face + 2)} {}

    /// Enqueues the kernel, once `turn` is complete, and the read of the plane that the neighbour waits for. The receive
    /// is posted long before its message, into the one of two buffers from which no write can be in flight.
    void compute(int iteration, const Event &turn) {
        kernel_ = slab_.enqueue_jacobi(queue_.get(), part_, iteration, {turn.get()});
        if (alone())
            return;
        MPI_Irecv(halo_[iteration % 2], int(face_.size), MPI_BYTE, face_.neighbour, Slab::tag, slab_.comm(), &requests_[0]);
        check(clEnqueueReadBuffer(queue_.get(), slab_.pressure(iteration + 1), CL_FALSE, face_.edge, face_.size, edge_, 0,
                                  nullptr, read_.put()),
              "reading an edge");
        check(clFlush(queue_.get()), "clFlush");
    }

    /// Exchanges the planes and enqueues the write of the one received; the next kernel follows it in the queue.
    void exchange(int iteration) {
        if (alone())
            return;
        wait(read_);
        MPI_Isend(edge_, int(face_.size), MPI_BYTE, face_.neighbour, Slab::tag, slab_.comm(), &requests_[1]);
        MPI_Waitall(2, requests_, MPI_STATUSES_IGNORE);
        check(clEnqueueWriteBuffer(queue_.get(), slab_.pressure(iteration + 1), CL_FALSE, face_.halo, face_.size,
                                   halo_[iteration % 2], 0, nullptr, nullptr),
              "writing a halo");
    }

    /// When the other half's kernel may run. A device that copies with the cores it computes on must have read the edge
    /// before, or the exchange would wait for that kernel.
    const Event &turn() const { return alone() || slab_.copies_beside_kernels() ? kernel_ : read_; }

    void finish() { check(clFinish(queue_.get()), "clFinish"); }

private:
    bool alone() const { return face_.neighbour == MPI_PROC_NULL; }

    Slab &slab_;
    Part part_;
    Face face_;
    Queue queue_;
    std::byte *edge_, *halo_[2];
    MPI_Request requests_[2];
    Event kernel_, read_;
};

}  // namespace

void run_hand_optimised(Slab &slab, int iterations) {
    Half first(slab, slab.first_half(), slab.first_face(), 0);
    Half second(slab, slab.second_half(), slab.second_face(), 3);

    for (int n = 0; n < iterations; ++n) {
        first.compute(n, second.turn());
        if (n > 0)
            second.exchange(n - 1);
        second.compute(n, first.turn());
        first.exchange(n);
    }
    second.exchange(iterations - 1);
    first.finish();
    second.finish();
}

}  // namespace himeno
