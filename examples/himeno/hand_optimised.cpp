#include "hosts.hpp"

namespace himeno {
namespace {

/// One half of the slab with its in-order queue. Exchanges its face through page-locked memory.
class HalfByHand {
public:
    HalfByHand(Slab &slab, const Half &half, int first_pinned_face)
        : slab_(slab),
          half_(half),
          queue_(slab.make_queue()),
          edge_(slab.pinned_face(first_pinned_face)),
          halo_(slab.pinned_face(first_pinned_face + 1)) {}

    /// Enqueues the kernel, then the read of the plane that the neighbour needs.
    void compute(int iteration) {
        slab_.enqueue_jacobi(queue_.get(), half_.part, iteration, {});
        if (!alone())
            check(clEnqueueReadBuffer(queue_.get(), slab_.pressure(iteration + 1), CL_FALSE,
                                      half_.face.edge, half_.face.size, edge_, 0, nullptr, nullptr),
                  "reading an edge");
        check(clFlush(queue_.get()), "clFlush");
    }

    /// Exchanges planes with the neighbour and enqueues the write of the received one before the
    /// next kernel. Call finish() first, so that the edge is read and the previous halo is written.
    void exchange(int iteration) {
        if (alone()) return;
        const int size = int(half_.face.size), neighbour = half_.face.neighbour;
        MPI_Request requests[2];
        MPI_Irecv(halo_, size, MPI_BYTE, neighbour, Slab::tag, slab_.comm(), &requests[0]);
        MPI_Isend(edge_, size, MPI_BYTE, neighbour, Slab::tag, slab_.comm(), &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        check(clEnqueueWriteBuffer(queue_.get(), slab_.pressure(iteration + 1), CL_FALSE,
                                   half_.face.halo, half_.face.size, halo_, 0, nullptr, nullptr),
              "writing a halo");
        check(clFlush(queue_.get()), "clFlush");
    }

    void finish() { check(clFinish(queue_.get()), "clFinish"); }

private:
    bool alone() const { return half_.face.neighbour == MPI_PROC_NULL; }

    Slab &slab_;
    const Half half_;
    Queue queue_;
    std::byte *edge_, *halo_;
};

}  // namespace

void run_hand_optimised(Slab &slab, int iterations) {
    HalfByHand first(slab, slab.first(), 0);
    HalfByHand second(slab, slab.second(), 2);

    for (int n = 0; n < iterations; ++n) {
        first.compute(n);
        if (n > 0) second.exchange(n - 1);
        first.finish();
        second.compute(n);
        first.exchange(n);
        second.finish();
    }
    second.exchange(iterations - 1);
    first.finish();
    second.finish();
}

}  // namespace himeno
