/// Devices that fail while collective commands read them. This program defines its own
/// clEnqueueReadBuffer, which the library calls instead of the platform's.

#include <dlfcn.h>

#include <atomic>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

/// Number of reads that succeed before one fails; negative: no read fails.
std::atomic<int> good_reads = -1;

}  // namespace

extern "C" cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                      size_t offset, size_t size, void *data, cl_uint count,
                                      const cl_event *events, cl_event *event) {
    if (good_reads >= 0 && good_reads-- == 0) {
        return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    }
    static const auto real =
        reinterpret_cast<decltype(&clEnqueueReadBuffer)>(dlsym(RTLD_NEXT, "clEnqueueReadBuffer"));
    return real(queue, buffer, blocking, offset, size, data, count, events, event);
}

MPI_CASE("if one device fails, at its first block or later, the collective fails in all processes",
         2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const std::size_t count = 9 * MiB;
    const buffer_handle in = cl.filled(count, 1);
    const buffer_handle out = cl.buffer(count);
    for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
        for (const int good : {0, 2}) {
            CAPTURE(blocking);
            CAPTURE(good);
            const bool fails = mpi.rank == 1;
            if (fails) {
                good_reads = good;
            }
            const cl_int wanted =
                fails ? CL_MEM_OBJECT_ALLOCATION_FAILURE : CL_PEER_TRANSFER_FAILED;
            event_handle event;
            const cl_int code = clEnqueueAllreduceBufferMPI(
                queue, in, blocking, 0, out, 0, count, MPI_UINT8_T, MPI_MAX, mpi.comm, 0, nullptr,
                blocking != CL_FALSE ? nullptr : event.out());
            if (blocking != CL_FALSE) {
                CHECK(code == wanted);
            } else {
                CL_OK(code);
                expect_failure(event, wanted);
            }
            const queue_handle after = cl.in_order_queue();
            CL_OK(clEnqueueAllreduceBufferMPI(after, in, CL_TRUE, 0, out, 0, count, MPI_UINT8_T,
                                              MPI_MAX, mpi.comm, 0, nullptr, nullptr));
            cl.expect(out, 0, count, 1);
        }
    }
}
