#include "hosts.hpp"

namespace himeno {

void run_serial(Slab &slab, int iterations) {
    const Queue queue = slab.make_queue();
    const Face lower = slab.lower().face, upper = slab.upper().face;
    std::byte *lower_edge = slab.pinned_face(0), *lower_halo = slab.pinned_face(1);
    std::byte *upper_edge = slab.pinned_face(2), *upper_halo = slab.pinned_face(3);

    const auto read = [&](cl_mem pressure, const Face &face, std::byte *edge) {
        if (face.neighbour != MPI_PROC_NULL)
            check(clEnqueueReadBuffer(queue.get(), pressure, CL_TRUE, face.edge, face.size, edge, 0,
                                      nullptr, nullptr),
                  "reading an edge");
    };
    const auto write = [&](cl_mem pressure, const Face &face, const std::byte *halo) {
        if (face.neighbour != MPI_PROC_NULL)
            check(clEnqueueWriteBuffer(queue.get(), pressure, CL_TRUE, face.halo, face.size, halo,
                                       0, nullptr, nullptr),
                  "writing a halo");
    };

    for (int n = 0; n < iterations; ++n) {
        slab.enqueue_jacobi(queue.get(), slab.whole(), n, {});
        check(clFinish(queue.get()), "clFinish");

        const cl_mem pressure = slab.pressure(n + 1);
        read(pressure, lower, lower_edge);
        read(pressure, upper, upper_edge);
        const int size = int(lower.size);
        MPI_Sendrecv(lower_edge, size, MPI_BYTE, lower.neighbour, Slab::tag, upper_halo, size,
                     MPI_BYTE, upper.neighbour, Slab::tag, slab.comm(), MPI_STATUS_IGNORE);
        MPI_Sendrecv(upper_edge, size, MPI_BYTE, upper.neighbour, Slab::tag, lower_halo, size,
                     MPI_BYTE, lower.neighbour, Slab::tag, slab.comm(), MPI_STATUS_IGNORE);
        write(pressure, lower, lower_halo);
        write(pressure, upper, upper_halo);
    }
}

}  // namespace himeno
