#include "hosts.hpp"

#include <CL/cl_ext_dist.h>

namespace himeno {

// Each half has an in-order queue, which keeps its kernels and exchanges in order: a kernel, the exchange of the plane
// it computed, the next kernel. Across the queues, events make the kernels take turns. That is all the order there is,
// so the exchange of one half runs under the kernel of the other, and MPI never appears in the host program.
void run_event_chained(Slab &slab, int iterations, int iterations_per_wait) {
    const Queue first = slab.make_queue(), second = slab.make_queue();
    Event first_done, second_done;

    const auto exchange = [&](const Queue &queue, const Face &face, int iteration) {
        const cl_mem pressure = slab.pressure(iteration + 1);
        check(clEnqueueSendrecvBuffer(queue.get(), pressure, CL_FALSE, face.edge, face.size, face.neighbour, Slab::tag,
                                      pressure, face.halo, face.size, face.neighbour, Slab::tag, slab.comm(), 0, nullptr,
                                      nullptr),
              "clEnqueueSendrecvBuffer");
    };

    for (int n = 0; n < iterations; ++n) {
        first_done = slab.enqueue_jacobi(first.get(), slab.first_half(), n, {second_done.get()});
        if (n > 0)
            exchange(second, slab.second_face(), n - 1);
        second_done = slab.enqueue_jacobi(second.get(), slab.second_half(), n, {first_done.get()});
        exchange(first, slab.first_face(), n);

        // Waiting for the first half only: the second keeps the device busy until the host has enqueued more.
        if ((n + 1) % iterations_per_wait == 0)
            wait(first_done);
    }
    exchange(second, slab.second_face(), iterations - 1);
    check(clFinish(first.get()), "clFinish");
    check(clFinish(second.get()), "clFinish");
}

}  // namespace himeno
