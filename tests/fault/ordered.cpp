/// Device-ordered commands (CLDIST_PATH=device) of two processes that fail, or whose kernels wait
/// when the job ends. Each case needs its own job; the argument selects it. A script checks their
/// standard error, and that they end in time.

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include <unistd.h>

#include "bare_device.hpp"

using namespace cldist_test;

namespace {

constexpr std::size_t room = 4096;

bool ended_on_device(cl_event event) {
    char path[16] = "";
    clWaitForEvents(1, &event);
    clGetTransferInfo(event, CL_TRANSFER_PATH, sizeof path, path, nullptr);
    clReleaseEvent(event);
    return std::strcmp(path, "device") == 0;
}

/// Exchanges messages until the processes have agreed on the path.
void prepare_messages(const bare_device &d, int rank) {
    bool on_device = false;
    for (int i = 0; i < 40; ++i) {
        cl_event event = nullptr;
        clEnqueueSendrecvBuffer(d.queue, d.buffer, CL_FALSE, 0, 1000, 1 - rank, 1, d.buffer, room,
                                1000, 1 - rank, 1, MPI_COMM_WORLD, 0, nullptr, &event);
        on_device = ended_on_device(event);
    }
    expect("whether messages use path device", on_device ? 1 : 0, 1);
}

void prepare_collectives(const bare_device &d) {
    bool on_device = false;
    for (int i = 0; i < 40; ++i) {
        cl_event event = nullptr;
        clEnqueueBarrierMPI(d.queue, CL_FALSE, MPI_COMM_WORLD, 0, nullptr, &event);
        on_device = ended_on_device(event);
    }
    expect("whether collectives use path device", on_device ? 1 : 0, 1);
}

cl_event receive(const bare_device &d, std::size_t size) {
    cl_event event = nullptr;
    expect("the receive",
           clEnqueueRecvBuffer(d.queue, d.buffer, CL_FALSE, room, size, 0, 2, MPI_COMM_WORLD, 0,
                               nullptr, &event),
           CL_SUCCESS);
    return event;
}

/// Rank 0's message is longer than rank 1's receive.
void truncated(const bare_device &d, int rank) {
    prepare_messages(d, rank);
    if (rank == 0)
        clEnqueueSendBuffer(d.queue, d.buffer, CL_FALSE, 0, 2000, 1, 2, MPI_COMM_WORLD, 0, nullptr,
                            nullptr);
    else
        receive(d, 1000);
    clFinish(d.queue);
    MPI_Finalize();
}

/// Rank 0's message is not a command's.
void foreign(const bare_device &d, int rank) {
    prepare_messages(d, rank);
    const char bytes[1000] = "";
    if (rank == 0)
        MPI_Send(bytes, 1000, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
    else
        receive(d, 1000);
    clFinish(d.queue);
    MPI_Finalize();
}

/// Rank 0's send waits for a command, which waits for the result. Rank 1's kernel waits on the
/// device when this function returns.
cl_event wait_on_device(const bare_device &d, int rank) {
    prepare_messages(d, rank);
    cl_int error = CL_SUCCESS;
    cl_event gate = nullptr;
    if (rank == 0) {
        const int zero = 0;
        gate = clCreateUserEvent(d.context, &error);
        cl_event before = nullptr;
        clEnqueueFillBuffer(d.other_queue, d.buffer, &zero, sizeof zero, 0, room, 1, &gate,
                            &before);
        expect("the send",
               clEnqueueSendBuffer(d.queue, d.buffer, CL_FALSE, 0, 1000, 1, 2, MPI_COMM_WORLD, 1,
                                   &before, nullptr),
               CL_SUCCESS);
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        const cl_event event = receive(d, 1000);
        for (cl_int status = CL_QUEUED; status != CL_RUNNING; std::this_thread::yield())
            clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                           nullptr);
    }
    if (rank == 1) std::fprintf(stderr, "a kernel waits\n");
    MPI_Barrier(MPI_COMM_WORLD);
    return gate;
}

void failed(const bare_device &d, int rank) {
    const cl_event gate = wait_on_device(d, rank);
    if (rank == 0) clSetUserEventStatus(gate, -1);
    clFinish(d.queue);
    MPI_Finalize();
}

void finalized(const bare_device &d, int rank) {
    wait_on_device(d, rank);
    MPI_Finalize();
}

void killed(const bare_device &d, int rank) {
    wait_on_device(d, rank);
    if (rank == 0) ::raise(SIGKILL);
    clFinish(d.queue);
}

void left(const bare_device &d, int rank) {
    wait_on_device(d, rank);
    std::exit(0);
}

void aborted(const bare_device &d, int rank) {
    wait_on_device(d, rank);
    if (rank == 1) MPI_Abort(MPI_COMM_WORLD, 3);
    clFinish(d.queue);
}

void interrupted(const bare_device &d, int rank) {
    wait_on_device(d, rank);
    if (rank == 1) ::kill(::getppid(), SIGINT);
    clFinish(d.queue);
}

/// The processes call different collectives. Rank 1's kernel is held back.
void differing(const bare_device &d, int rank) {
    prepare_collectives(d);
    MPI_Barrier(MPI_COMM_WORLD);
    clEnqueueAllreduceBufferMPI(d.queue, d.buffer, CL_FALSE, 0, d.buffer, room, 10, MPI_INT,
                                rank == 0 ? MPI_SUM : MPI_MAX, MPI_COMM_WORLD, 0, nullptr, nullptr);
    clFinish(d.queue);
    MPI_Finalize();
}

/// A collective with a size per process. The part that one process sends to the other has 16 bytes,
/// but rank `wrong` passes `bytes`. The root is rank 0.
void differing_part(const bare_device &d, int rank, const std::string &kind, int wrong,
                    std::size_t bytes) {
    prepare_collectives(d);
    const std::size_t size = rank == wrong ? bytes : 16, own = rank == 0 ? 16 : size;
    const std::size_t first[] = {size, 16}, second[] = {16, size}, none[] = {16, 16};
    const std::size_t places[] = {0, 100};
    if (kind == "gatherv")
        clEnqueueGathervBufferMPI(d.queue, d.buffer, CL_FALSE, 0, own, MPI_BYTE, d.buffer, room,
                                  second, places, MPI_BYTE, 0, MPI_COMM_WORLD, 0, nullptr, nullptr);
    else if (kind == "scatterv")
        clEnqueueScattervBufferMPI(d.queue, d.buffer, CL_FALSE, 0, second, places, MPI_BYTE,
                                   d.buffer, room, own, MPI_BYTE, 0, MPI_COMM_WORLD, 0, nullptr,
                                   nullptr);
    else if (kind == "allgatherv")
        clEnqueueAllgathervBufferMPI(d.queue, d.buffer, CL_FALSE, 0, own, MPI_BYTE, d.buffer, room,
                                     second, places, MPI_BYTE, MPI_COMM_WORLD, 0, nullptr, nullptr);
    else
        clEnqueueAlltoallvBufferMPI(d.queue, d.buffer, CL_FALSE, 0, rank == 0 ? second : none,
                                    places, MPI_BYTE, d.buffer, room, rank == 0 ? none : first,
                                    places, MPI_BYTE, MPI_COMM_WORLD, 0, nullptr, nullptr);
    clFinish(d.queue);
    MPI_Finalize();
}

}  // namespace

int main(int argc, char **argv) {
    std::map<std::string, std::function<void(const bare_device &, int)>> cases{
        {"truncated", truncated}, {"foreign", foreign},         {"failed", failed},
        {"finalized", finalized}, {"killed", killed},           {"left", left},
        {"aborted", aborted},     {"interrupted", interrupted}, {"differing", differing}};
    for (const char *kind : {"gatherv", "scatterv", "allgatherv", "alltoallv"})
        cases.emplace(kind, [&](const bare_device &d, int rank) {
            differing_part(d, rank, argv[1], std::atoi(argv[2]),
                           std::strtoul(argv[3], nullptr, 10));
        });
    const auto found = cases.find(argc > 1 ? argv[1] : "");
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (found == cases.end()) {
        std::fprintf(stderr, "unknown case\n");
        return 2;
    }
    found->second(bare_device(2 * room), rank);
    return failures == 0 ? 0 : 1;
}
