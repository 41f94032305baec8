/// Processes that join the running job: MPI_Comm_spawn starts them, then they disconnect and
/// reconnect with MPI_Comm_accept and MPI_Comm_connect. Several messages at a time pass over
/// inter-communicators, which are freed as early as possible.

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "bare_device.hpp"

using namespace cldist_test;

namespace {

constexpr int processes = 2;  // on each side
constexpr int rounds = 20;
constexpr std::size_t small = 1000;
constexpr std::size_t large = 300000;

/// The byte that fills a message; messages differ by it.
unsigned char filling(bool spawned, int rank, int tag, int round) {
    return static_cast<unsigned char>(1 + (spawned ? 101 : 0) + 37 * rank + 11 * tag + round);
}

void expect_filled(const char *what, const std::vector<unsigned char> &data, std::size_t size,
                   unsigned char byte) {
    long wrong = 0;
    for (std::size_t i = 0; i < size; ++i) wrong += data[i] == byte ? 0 : 1;
    expect(what, wrong, 0);
}

cl_mem filled_buffer(const bare_device &d, std::size_t size, unsigned char byte) {
    cl_int error = CL_SUCCESS;
    std::vector<unsigned char> data(size, byte);
    cl_mem buffer = clCreateBuffer(d.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, size,
                                   data.data(), &error);
    expect("a buffer", error, CL_SUCCESS);
    return buffer;
}

/// Each process sends a small message with tag 0 and a large message with tag 1 to each process of
/// the other side. The receiver posts an MPI_Irecv with any tag before the one with tag 1, so by
/// MPI's order it must get tag 0. The received data is checked right after the wait.
void talk(const bare_device &d, MPI_Comm comm, bool spawned, int rank, int round) {
    struct Sender {
        std::vector<unsigned char> any = std::vector<unsigned char>(large);
        std::vector<unsigned char> narrow = std::vector<unsigned char>(large);
        std::array<MPI_Request, 2> requests{};
        std::array<MPI_Status, 2> statuses{};
    };
    std::array<Sender, processes> from;
    for (int peer = 0; peer < processes; ++peer) {
        Sender &s = from.at(peer);
        MPI_Irecv(s.any.data(), large, MPI_CL_MEM, peer, MPI_ANY_TAG, comm, s.requests.data());
        MPI_Irecv(s.narrow.data(), large, MPI_CL_MEM, peer, 1, comm, &s.requests[1]);
    }
    std::vector<cl_event> sent;
    for (int peer = 0; peer < processes; ++peer) {
        for (const int tag : {0, 1}) {
            const std::size_t size = tag == 0 ? small : large;
            cl_mem buffer = filled_buffer(d, size, filling(spawned, rank, tag, round));
            cl_event event = nullptr;
            expect("a send",
                   clEnqueueSendBuffer(d.queue, buffer, CL_FALSE, 0, size, peer, tag, comm, 0,
                                       nullptr, &event),
                   CL_SUCCESS);
            clReleaseMemObject(buffer);  // the command still retains it
            sent.push_back(event);
        }
    }
    clFlush(d.queue);
    for (int peer = 0; peer < processes; ++peer) {
        Sender &s = from.at(peer);
        MPI_Waitall(2, s.requests.data(), s.statuses.data());
        for (const int tag : {0, 1}) {
            const MPI_Status &status = s.statuses.at(tag);
            int bytes = 0;
            MPI_Get_count(&status, MPI_CL_MEM, &bytes);
            expect("the tag", status.MPI_TAG, tag);
            expect("the source", status.MPI_SOURCE, peer);
            expect("the bytes", bytes, static_cast<long>(tag == 0 ? small : large));
            expect_filled("the number of wrong bytes", tag == 0 ? s.any : s.narrow,
                          tag == 0 ? small : large, filling(!spawned, peer, tag, round));
        }
    }
    expect("the sends", clWaitForEvents(static_cast<cl_uint>(sent.size()), sent.data()),
           CL_SUCCESS);
    for (cl_event event : sent) clReleaseEvent(event);
}

/// Rank 0 receives one message from each other process, from any source, one after another into one
/// buffer. `merged` contains the processes of both sides.
void gather_from_all(const bare_device &d, MPI_Comm merged) {
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(merged, &rank);
    MPI_Comm_size(merged, &size);
    if (rank != 0) {
        cl_mem buffer = filled_buffer(d, large, static_cast<unsigned char>(rank));
        expect("the send",
               clEnqueueSendBuffer(d.queue, buffer, CL_TRUE, 0, large, 0, 5, merged, 0, nullptr,
                                   nullptr),
               CL_SUCCESS);
        clReleaseMemObject(buffer);
        return;
    }
    long sum = 0;
    for (int i = 1; i < size; ++i) {
        cl_event event = nullptr;
        expect("the receive",
               clEnqueueRecvBuffer(d.queue, d.buffer, CL_FALSE, 0, large, MPI_ANY_SOURCE,
                                   MPI_ANY_TAG, merged, 0, nullptr, &event),
               CL_SUCCESS);
        expect("the wait", clWaitForEvents(1, &event), CL_SUCCESS);
        std::vector<unsigned char> data(large);
        clEnqueueReadBuffer(d.queue, d.buffer, CL_TRUE, 0, large, data.data(), 0, nullptr, nullptr);
        int source = -1;
        clGetTransferInfo(event, CL_TRANSFER_SOURCE, sizeof source, &source, nullptr);
        expect_filled("the number of wrong bytes", data, large, static_cast<unsigned char>(source));
        sum += source;
        clReleaseEvent(event);
    }
    expect("the sum of the senders", sum, size * (size - 1) / 2);
}

/// Exchanges messages over three communicators. Frees each as soon as its last message has arrived.
void meet(const bare_device &d, MPI_Comm comm, bool spawned, int rank, int meeting) {
    expect("clDistInit", clDistInit(comm), CL_SUCCESS);
    MPI_Comm other = MPI_COMM_NULL;
    MPI_Comm_dup(comm, &other);
    expect("clDistInit of a duplicate", clDistInit(other), CL_SUCCESS);
    MPI_Comm merged = MPI_COMM_NULL;
    MPI_Intercomm_merge(comm, spawned ? 1 : 0, &merged);
    expect("clDistInit of the merged one", clDistInit(merged), CL_SUCCESS);
    for (int round = 0; round < rounds; ++round)
        talk(d, round % 2 == 0 ? comm : other, spawned, rank, round + meeting);
    MPI_Comm_free(&other);
    talk(d, comm, spawned, rank, rounds);
    gather_from_all(d, merged);
    MPI_Comm_free(&merged);
}

}  // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const bare_device d(large);
    MPI_Comm parent = MPI_COMM_NULL;
    MPI_Comm_get_parent(&parent);
    const bool spawned = parent != MPI_COMM_NULL;
    MPI_Comm comm = parent;
    if (!spawned)
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, processes, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &comm,
                       MPI_ERRCODES_IGNORE);
    meet(d, comm, spawned, rank, 0);

    std::array<char, MPI_MAX_PORT_NAME> port{};
    if (!spawned && rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port.data());
        for (int peer = 0; peer < processes; ++peer)
            MPI_Send(port.data(), port.size(), MPI_CL_MEM, peer, 9, comm);
    } else if (spawned) {
        MPI_Recv(port.data(), port.size(), MPI_CL_MEM, 0, 9, comm, MPI_STATUS_IGNORE);
    }
    MPI_Comm_disconnect(&comm);
    if (spawned)
        MPI_Comm_connect(port.data(), MPI_INFO_NULL, 0, MPI_COMM_WORLD, &comm);
    else
        MPI_Comm_accept(port.data(), MPI_INFO_NULL, 0, MPI_COMM_WORLD, &comm);
    meet(d, comm, spawned, rank, 1);
    MPI_Comm_disconnect(&comm);
    std::fprintf(stderr, "%s rank %d has met the others twice\n", spawned ? "spawned" : "first",
                 rank);
    std::fflush(stderr);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
