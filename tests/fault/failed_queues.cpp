// Path device: a kernel of the program in front of a command without wait list fails. The job must
// end with a report, although the other process waits in a kernel or in MPI.
//
// usage: test_failed_queues send|receive|collective|held-collective
#include <string>

#include "bare_device.hpp"

using namespace cldist_test;

namespace {

constexpr std::size_t size = 1000;

/// Returns true in both processes if the command of both used path device. Releases the event.
bool on_device(cl_event event) {
    clWaitForEvents(1, &event);
    char path[16] = "";
    clGetTransferInfo(event, CL_TRANSFER_PATH, sizeof path, path, nullptr);
    clReleaseEvent(event);
    int here = std::string(path) == "device" ? 1 : 0, both = 0;
    MPI_Allreduce(&here, &both, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return both != 0;
}

cl_event enqueue(const bare_device &d, bool collective, bool sends, int other) {
    cl_event event = nullptr;
    const cl_int code = collective ? clEnqueueAllreduceBufferMPI(
                                         d.queue, d.buffer, CL_FALSE, 0, d.buffer, 0, size / 4,
                                         MPI_INT, MPI_SUM, MPI_COMM_WORLD, 0, nullptr, &event)
                        : sends ? clEnqueueSendBuffer(d.queue, d.buffer, CL_FALSE, 0, size, other,
                                                      1, MPI_COMM_WORLD, 0, nullptr, &event)
                                : clEnqueueRecvBuffer(d.queue, d.buffer, CL_FALSE, 0, size, other,
                                                      1, MPI_COMM_WORLD, 0, nullptr, &event);
    expect("the command", code, CL_SUCCESS);
    return event;
}

}  // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    const std::string what = argc > 1 ? argv[1] : "";
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const bare_device d(size);
    const bool collective = what == "collective" || what == "held-collective";
    const bool sends = (what == "send") == (rank == 0);
    while (!on_device(enqueue(d, collective, sends, 1 - rank))) {
    }
    // If this process has called, the other one's kernel is not held back. PoCL may lose a kernel
    // that is released while the command before it fails.
    if (rank == 1 && (what == "send" || what == "collective")) enqueue(d, collective, sends, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    // PoCL aborts if nobody else holds the event of a command that fails.
    cl_event events[3];
    if (rank == 0) {
        cl_int error = CL_SUCCESS;
        events[0] = clCreateUserEvent(d.context, &error);
        const char zero = 0;
        expect("clEnqueueFillBuffer",
               clEnqueueFillBuffer(d.queue, d.buffer, &zero, 1, 0, size, 1, &events[0], &events[1]),
               CL_SUCCESS);
        events[2] = enqueue(d, collective, sends, 1);
        std::fprintf(stderr, "the wait list fails\n");
        clSetUserEventStatus(events[0], -1);
    }
    // Nobody sends this message.
    MPI_Recv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
