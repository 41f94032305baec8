#include "hosts.hpp"

#include <CL/cl_ext_dist.h>

namespace himeno {

// Nothing overlaps, and the host waits for nothing until the end. Each kernel is followed by the
// exchange of both faces. Adjacent processes exchange a face in the same turn.
void run_in_order(Slab &slab, int iterations) {
    const Queue queue = slab.make_queue();

    for (int n = 0; n < iterations; ++n) {
        slab.enqueue_jacobi(queue.get(), slab.whole(), n, {});
        const cl_mem pressure = slab.pressure(n + 1);
        for (const Half &half : {slab.first(), slab.second()})
            check(clEnqueueSendrecvBuffer(queue.get(), pressure, CL_FALSE, half.face.edge,
                                          half.face.size, half.face.neighbour, Slab::tag, pressure,
                                          half.face.halo, half.face.size, half.face.neighbour,
                                          Slab::tag, slab.comm(), 0, nullptr, nullptr),
                  "clEnqueueSendrecvBuffer");
    }
    check(clFinish(queue.get()), "clFinish");
}

}  // namespace himeno
