#include "hosts.hpp"

#include <CL/cl_ext_dist.h>

namespace himeno {

// Each half has an in-order queue with a kernel, the exchange of the plane it computed, and the
// next kernel. Events between the queues make the kernels take turns. Nothing else orders the
// commands: the exchange of one half runs during the kernel of the other. The host neither calls
// MPI nor copies data.
//
// An exchange is enqueued after the kernel during which it runs. Both become ready at the same
// time. On a device that copies with its compute cores, the exchange must start first, and PoCL
// starts the command that was enqueued last.
void run_event_chained(Slab &slab, int iterations, int iterations_per_wait, int begin,
                       cl_event after) {
    const Half first = slab.first(), second = slab.second();
    const int end = begin + iterations;
    const Queue first_queue = slab.make_queue(), second_queue = slab.make_queue();
    Event first_done, second_done;

    const auto exchange = [&](const Queue &queue, const Face &face, int iteration) {
        const cl_mem pressure = slab.pressure(iteration + 1);
        check(clEnqueueSendrecvBuffer(queue.get(), pressure, CL_FALSE, face.edge, face.size,
                                      face.neighbour, Slab::tag, pressure, face.halo, face.size,
                                      face.neighbour, Slab::tag, slab.comm(), 0, nullptr, nullptr),
              "clEnqueueSendrecvBuffer");
        // No flush after the kernels: with one, NVIDIA's driver (580) overlaps nothing while the
        // queue contains an exchange.
        check(clFlush(queue.get()), "clFlush");
    };

    for (int n = begin; n < end; ++n) {
        first_done = slab.enqueue_jacobi(first_queue.get(), first.part, n,
                                         {n == begin ? after : second_done.get()});
        if (n > begin) exchange(second_queue, second.face, n - 1);
        second_done = slab.enqueue_jacobi(second_queue.get(), second.part, n, {first_done.get()});
        exchange(first_queue, first.face, n);

        // Waits only for the first half. The second half keeps the device busy until the host has
        // enqueued more commands.
        if ((n + 1 - begin) % iterations_per_wait == 0) wait(first_done);
    }
    exchange(second_queue, second.face, end - 1);
    check(clFinish(first_queue.get()), "clFinish");
    check(clFinish(second_queue.get()), "clFinish");
}

}  // namespace himeno
