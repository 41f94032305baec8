/// Buffers that other processes of the host can read (clCreateBufferExportable), and their messages
/// on one host.

#include <cstdlib>
#include <string>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

buffer_handle exportable(const opencl &cl, std::size_t size,
                         cl_mem_flags flags = CL_MEM_READ_WRITE) {
    cl_int code = CL_INVALID_VALUE;
    buffer_handle buffer(clCreateBufferExportable(cl.context, cl.device, flags, size, &code));
    REQUIRE(code == CL_SUCCESS);
    return buffer;
}

/// Checks that creating the buffer fails with `code`.
void refused(cl_context context, cl_device_id device, cl_mem_flags flags, std::size_t size,
             cl_int code) {
    cl_int told = CL_SUCCESS;
    CHECK(clCreateBufferExportable(context, device, flags, size, &told) == nullptr);
    CHECK(told == code);
    CHECK(clCreateBufferExportable(context, device, flags, size, nullptr) == nullptr);
}

bool forced(const char *path) {
    const char *const value = std::getenv("CLDIST_PATH");
    return value != nullptr && std::string(value) == path;
}

}  // namespace

MPI_CASE(
    "messages from and to exportable buffers arrive, repeatedly, for the whole buffer and for "
    "ranges",
    2) {
    const opencl cl;
    if (mpi.rank > 1) {
        return;
    }
    const queue_handle queue = cl.in_order_queue();
    constexpr std::size_t size = 5 * MiB;
    const buffer_handle mine = exportable(cl, size + 100);
    // The processes may have different settings.
    const int here = forced("peer-to-peer") ? 1 : 0;
    int there = 0;
    MPI_Sendrecv(&here, 1, MPI_INT, 1 - mpi.rank, 0, &there, 1, MPI_INT, 1 - mpi.rank, 0, mpi.comm,
                 MPI_STATUS_IGNORE);
    for (std::uint64_t turn = 0; turn < 6; ++turn) {
        CAPTURE(turn);
        const std::size_t offset = turn % 2 == 0 ? 0 : 100;
        for (const std::size_t bytes : {std::size_t{10}, 70 * KiB, size}) {
            CAPTURE(bytes);
            if (mpi.rank == 0) {
                cl.fill(mine, offset, bytes, turn + 1);
                const event_handle sent = send(queue, mine, offset, bytes, 1, 1, mpi.comm);
                expect_complete(sent);
                if (here == 1 && there == 1 && bytes == size) {
                    CHECK(transfer_text(sent, CL_TRANSFER_PATH) == "peer-to-peer");
                }
            } else {
                const event_handle received = receive(queue, mine, offset, bytes, 0, 1, mpi.comm);
                expect_received(received, bytes, 0, 1);
                cl.expect(mine, offset, bytes, turn + 1);
            }
        }
    }
}

MPI_CASE("a blocking send of an exportable buffer comes after the commands before it", 2) {
    const opencl cl;
    if (mpi.rank > 1) {
        return;
    }
    const queue_handle queue = cl.in_order_queue();
    constexpr std::size_t size = 3 * MiB;
    const buffer_handle mine = exportable(cl, size);
    const buffer_handle other = cl.filled(size, 7);
    for (int turn = 0; turn < 5; ++turn) {
        if (mpi.rank == 0) {
            cl.fill(mine, 0, size, 1);
            CL_OK(clEnqueueCopyBuffer(queue, other, mine, 0, 0, size, 0, nullptr, nullptr));
            CL_OK(clEnqueueSendBuffer(queue, mine, CL_TRUE, 0, size, 1, 1, mpi.comm, 0, nullptr,
                                      nullptr));
            cl.fill(mine, 0, size, 2);
        } else {
            CL_OK(clEnqueueRecvBuffer(queue, mine, CL_TRUE, 0, size, 0, 1, mpi.comm, 0, nullptr,
                                      nullptr));
            cl.expect(mine, 0, size, 7);
        }
    }
}

MPI_CASE("exportable buffers may be created and released repeatedly", 2) {
    const opencl cl;
    if (mpi.rank > 1) {
        return;
    }
    const queue_handle queue = cl.in_order_queue();
    for (std::uint64_t turn = 0; turn < 20; ++turn) {
        const buffer_handle buffer = exportable(cl, MiB + turn);
        if (mpi.rank == 0) {
            cl.fill(buffer, 0, MiB, turn);
            expect_complete(send(queue, buffer, 0, MiB, 1, 1, mpi.comm));
        } else {
            expect_received(receive(queue, buffer, 0, MiB, 0, 1, mpi.comm), MiB, 0, 1);
            cl.expect(buffer, 0, MiB, turn);
        }
    }
}

MPI_CASE(
    "an exportable buffer is refused for the same errors as any buffer, and with a host pointer",
    1) {
    const opencl cl;
    refused(nullptr, cl.device, CL_MEM_READ_WRITE, 64, CL_INVALID_CONTEXT);
    refused(cl.context, nullptr, CL_MEM_READ_WRITE, 64, CL_INVALID_DEVICE);
    refused(cl.context, cl.device, CL_MEM_READ_WRITE, 0, CL_INVALID_BUFFER_SIZE);
    for (const cl_mem_flags flag :
         {CL_MEM_USE_HOST_PTR, CL_MEM_ALLOC_HOST_PTR, CL_MEM_COPY_HOST_PTR}) {
        refused(cl.context, cl.device, CL_MEM_READ_WRITE | flag, 64, CL_INVALID_VALUE);
    }
}

MPI_CASE("more messages at once than processes of a host share memory for still arrive", 2) {
    const opencl cl;
    if (mpi.rank > 1) {
        return;
    }
    constexpr std::size_t size = 600 * KiB;
    constexpr std::size_t count = 12;
    std::vector<queue_handle> queues;
    std::vector<buffer_handle> buffers;
    std::vector<event_handle> events;
    for (std::size_t i = 0; i < count; ++i) {
        queues.push_back(cl.in_order_queue());
        buffers.push_back(mpi.rank == 0 ? cl.filled(size, i) : cl.buffer(size));
    }
    // Rank 1 receives in the reverse order.
    for (std::size_t n = 0; n < count; ++n) {
        const std::size_t i = mpi.rank == 0 ? n : count - 1 - n;
        events.push_back(
            mpi.rank == 0
                ? send(queues[i], buffers[i], 0, size, 1, static_cast<int>(i), mpi.comm)
                : receive(queues[i], buffers[i], 0, size, 0, static_cast<int>(i), mpi.comm));
        if (mpi.rank == 1) {
            expect_received(events.back(), size, 0, static_cast<int>(i));
            cl.expect(buffers[i], 0, size, i);
        }
    }
    for (const event_handle &event : events) {
        expect_complete(event);
    }
}
