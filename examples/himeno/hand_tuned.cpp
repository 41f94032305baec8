#include "hosts.hpp"

namespace himeno {
namespace {

/// One half of the slab, its in-order queue, and the exchange of its face through page-locked
/// memory with persistent requests.
class TunedHalf {
public:
    TunedHalf(Slab &slab, const Half &half, int first_pinned_face)
        : slab_(slab),
          part_(half.part),
          face_(half.face),
          queue_(slab.make_queue()),
          edge_(slab.pinned_face(first_pinned_face)),
          halo_{slab.pinned_face(first_pinned_face + 1), slab.pinned_face(first_pinned_face + 2)} {
        const int size = int(face_.size);
        MPI_Send_init(edge_, size, MPI_BYTE, face_.neighbour, Slab::tag, slab.comm(), &send_);
        for (const int n : {0, 1})
            MPI_Recv_init(halo_[n], size, MPI_BYTE, face_.neighbour, Slab::tag, slab.comm(),
                          &receive_[n]);
    }
    ~TunedHalf() {
        for (MPI_Request *request : {&send_, &receive_[0], &receive_[1]}) MPI_Request_free(request);
    }
    TunedHalf(const TunedHalf &) = delete;

    /// Enqueues the kernel, which waits for `turn`, and the read of the plane that the neighbour
    /// needs. Posts the receive early, into the one of two buffers from which no write to the
    /// device can be in flight.
    void compute(int iteration, const Event &turn) {
        kernel_ = slab_.enqueue_jacobi(queue_.get(), part_, iteration, {turn.get()});
        if (!alone()) {
            MPI_Start(&receive_[iteration % 2]);
            check(clEnqueueReadBuffer(queue_.get(), slab_.pressure(iteration + 1), CL_FALSE,
                                      face_.edge, face_.size, edge_, 0, nullptr, read_.put()),
                  "reading an edge");
        }
        check(clFlush(queue_.get()), "clFlush");
    }

    /// Exchanges planes with the neighbour and enqueues the write of the received plane.
    void exchange(int iteration) {
        if (alone()) return;
        wait(read_);
        MPI_Start(&send_);
        MPI_Wait(&receive_[iteration % 2], MPI_STATUS_IGNORE);
        check(
            clEnqueueWriteBuffer(queue_.get(), slab_.pressure(iteration + 1), CL_FALSE, face_.halo,
                                 face_.size, halo_[iteration % 2], 0, nullptr, nullptr),
            "writing a halo");
        check(clFlush(queue_.get()), "clFlush");
        MPI_Wait(&send_, MPI_STATUS_IGNORE);
    }

    /// The event after which the other half's kernel may run. A device that copies with its compute
    /// cores must read the edge first; otherwise the exchange would wait for that kernel.
    const Event &turn() const { return alone() || slab_.copies_beside_kernels() ? kernel_ : read_; }

    void finish() { check(clFinish(queue_.get()), "clFinish"); }

private:
    bool alone() const { return face_.neighbour == MPI_PROC_NULL; }

    Slab &slab_;
    Part part_;
    Face face_;
    Queue queue_;
    std::byte *edge_, *halo_[2];
    MPI_Request send_, receive_[2];
    Event kernel_, read_;
};

}  // namespace

void run_hand_tuned(Slab &slab, int iterations) {
    TunedHalf first(slab, slab.first(), 0);
    TunedHalf second(slab, slab.second(), 3);

    for (int n = 0; n < iterations; ++n) {
        first.compute(n, second.turn());
        if (n > 0) second.exchange(n - 1);
        second.compute(n, first.turn());
        first.exchange(n);
    }
    second.exchange(iterations - 1);
    first.finish();
    second.finish();
}

}  // namespace himeno
