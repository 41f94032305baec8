/// The received data: sizes, offsets, and messages of unexpected sizes or kinds.

#include <cstdlib>
#include <numeric>
#include <thread>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

/// Sends a message from rank 0 to rank 1. Checks that it arrives intact at its offset and that no
/// byte around it changes.
void message_arrives(const mpi_view &mpi, const opencl &cl, std::size_t size,
                     std::size_t send_offset, std::size_t receive_offset) {
    CAPTURE(size);
    CAPTURE(send_offset);
    CAPTURE(receive_offset);
    const queue_handle queue = cl.in_order_queue();
    constexpr std::size_t margin = 16;
    if (mpi.rank == 0) {
        const buffer_handle buffer = cl.buffer(send_offset + size + margin);
        cl.fill(buffer, send_offset, size, size);
        expect_complete(send(queue, buffer, send_offset, size, 1, 1, mpi.comm));
    } else if (mpi.rank == 1) {
        const buffer_handle buffer = cl.buffer(receive_offset + size + margin);
        cl.fill(buffer, 0, receive_offset, 1001);
        cl.fill(buffer, receive_offset + size, margin, 1002);
        const event_handle received = receive(queue, buffer, receive_offset, size, 0, 1, mpi.comm);
        expect_received(received, size, 0, 1);
        cl.expect(buffer, 0, receive_offset, 1001);
        cl.expect(buffer, receive_offset, size, size);
        cl.expect(buffer, receive_offset + size, margin, 1002);
    }
}

/// Sends a message of `sent` bytes to a receive of only `room` bytes.
void message_is_truncated(const mpi_view &mpi, const opencl &cl, std::size_t sent,
                          std::size_t room) {
    CAPTURE(sent);
    CAPTURE(room);
    for (const queue_set &queues : cl.independent_queues(3)) {
        CAPTURE(queues.kind);
        if (mpi.rank == 0) {
            const buffer_handle buffer = cl.filled(sent, 1);
            const buffer_handle bystander = cl.filled(2 * MiB, 2);
            const event_handle other = send(queues[0], bystander, 0, 2 * MiB, 1, 2, mpi.comm);
            const event_handle longer = send(queues[1], buffer, 0, sent, 1, 1, mpi.comm);
            await_start(longer);
            const event_handle fitting = send(queues[2], buffer, 0, room, 1, 1, mpi.comm);
            expect_complete(longer);
            expect_complete(fitting);
            expect_complete(other);
        } else if (mpi.rank == 1) {
            const buffer_handle buffer = cl.filled(room + 64, 3);
            const buffer_handle second = cl.filled(room + 64, 4);
            const buffer_handle bystander = cl.buffer(2 * MiB);
            const event_handle truncated = receive(queues[0], buffer, 0, room, 0, 1, mpi.comm);
            await_start(truncated);
            const event_handle fitting = receive(queues[1], second, 0, room, 0, 1, mpi.comm);
            const event_handle other = receive(queues[2], bystander, 0, 2 * MiB, 0, 2, mpi.comm);
            expect_failure(truncated, CL_MESSAGE_TRUNCATED);
            CHECK(transfer_info<int>(truncated, CL_TRANSFER_SOURCE) == 0);
            CHECK(transfer_info<int>(truncated, CL_TRANSFER_TAG) == 1);
            cl.expect(buffer, 0, room + 64, 3);
            expect_received(fitting, room, 0, 1);
            cl.expect(second, 0, room, 1);
            cl.expect(second, room, 64, 4, room);
            expect_received(other, 2 * MiB, 0, 2);
            cl.expect(bystander, 0, 2 * MiB, 2);
        }
    }
}

}  // namespace

MPI_CASE("messages of many sizes arrive intact, at offsets that are not aligned", 2) {
    const opencl cl;
    std::vector<std::size_t> sizes{0,
                                   1,
                                   2,
                                   7,
                                   8,
                                   9,
                                   63,
                                   64,
                                   65,
                                   127,
                                   128,
                                   255,
                                   256,
                                   257,
                                   511,
                                   512,
                                   513,
                                   1023,
                                   1024,
                                   1025,
                                   2048,
                                   4032,
                                   4095,
                                   4096,
                                   4097,
                                   8128,
                                   8191,
                                   8192,
                                   8193,
                                   16383,
                                   16384,
                                   16385,
                                   32767,
                                   32768,
                                   32769,
                                   64 * KiB - 1,
                                   64 * KiB,
                                   64 * KiB + 1,
                                   128 * KiB + 1,
                                   256 * KiB - 1,
                                   256 * KiB,
                                   256 * KiB + 1,
                                   MiB - 1,
                                   MiB,
                                   MiB + 1,
                                   5 * MiB + 3};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        message_arrives(mpi, cl, sizes[i], 0, 0);
        message_arrives(mpi, cl, sizes[i], 1 + i, 3 + 2 * i);
    }
}

MPI_CASE("a message of 64 MiB arrives intact", 2) {
    const opencl cl;
    message_arrives(mpi, cl, 64 * MiB, 0, 0);
    message_arrives(mpi, cl, 64 * MiB + 1, 13, 7);
}

MPI_CASE("a shorter message leaves the rest of the buffer unchanged", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    for (const std::size_t size : {0UL, 1UL, 1000UL, 100 * KiB, 3 * MiB}) {
        CAPTURE(size);
        const std::size_t room = 4 * MiB;
        if (mpi.rank == 0) {
            const buffer_handle buffer = cl.filled(size, 1);
            expect_complete(send(queue, buffer, 0, size, 1, 1, mpi.comm));
        } else if (mpi.rank == 1) {
            const buffer_handle buffer = cl.filled(room, 2);
            expect_received(receive(queue, buffer, 0, room, 0, 1, mpi.comm), size, 0, 1);
            cl.expect(buffer, 0, size, 1);
            cl.expect(buffer, size, room - size, 2, size);
        }
    }
}

MPI_CASE("a small message longer than its receive fails it, and all other messages arrive", 2) {
    const opencl cl;
    message_is_truncated(mpi, cl, 100, 10);
    message_is_truncated(mpi, cl, 1, 0);
    message_is_truncated(mpi, cl, 65, 64);
}

MPI_CASE("a large message longer than its receive fails it, and all other messages arrive", 2) {
    const opencl cl;
    message_is_truncated(mpi, cl, 5 * MiB, 5 * MiB - 1);
    message_is_truncated(mpi, cl, 5 * MiB, 1000);
    message_is_truncated(mpi, cl, 5 * MiB, 0);
    message_is_truncated(mpi, cl, 100 * KiB, 100);
}

MPI_CASE("a message that is too long fails the receive of a send-receive, and its send arrives",
         2) {
    const opencl cl;
    // Repeated, because only sometimes one half fails before the other half's buffer is mapped.
    for (int round = 0; round < 10; ++round) {
        const std::vector<queue_set> sets = cl.independent_queues(1);
        const queue_set &queues = sets[static_cast<std::size_t>(round) % sets.size()];
        CAPTURE(queues.kind);
        const buffer_handle outgoing = cl.filled(200 * KiB, static_cast<std::uint64_t>(mpi.rank));
        const buffer_handle incoming = cl.filled(200 * KiB, 9);
        if (mpi.rank < 2) {
            const int peer = 1 - mpi.rank;
            const std::size_t room = mpi.rank == 0 ? 1000 : 200 * KiB;
            event_handle event;
            CL_OK(clEnqueueSendrecvBuffer(queues[0], outgoing, CL_FALSE, 0, 200 * KiB, peer, 1,
                                          incoming, 0, room, peer, 1, mpi.comm, 0, nullptr,
                                          event.out()));
            if (mpi.rank == 0) {
                expect_failure(event, CL_MESSAGE_TRUNCATED);
                cl.expect(incoming, 0, 200 * KiB, 9);
            } else {
                expect_received(event, 200 * KiB, 0, 1);
                cl.expect(incoming, 0, 200 * KiB, 0);
            }
        }
    }
}

MPI_CASE("a send-receive from MPI_PROC_NULL reports a receive without bytes, and its send arrives",
         1) {
    const opencl cl;
    for (const std::size_t size : {std::size_t{100}, 200 * KiB}) {
        CAPTURE(size);
        const buffer_handle outgoing = cl.filled(size, 1);
        const buffer_handle incoming = cl.filled(size, 9);
        const buffer_handle other = cl.filled(size, 9);
        const std::vector<queue_set> sets = cl.independent_queues(2);
        const event_handle received = receive(sets[0][1], other, 0, size, mpi.rank, 1, mpi.comm);
        event_handle event;
        CL_OK(clEnqueueSendrecvBuffer(sets[0][0], outgoing, CL_FALSE, 0, size, mpi.rank, 1,
                                      incoming, 0, size, MPI_PROC_NULL, 1, mpi.comm, 0, nullptr,
                                      event.out()));
        expect_received(received, size, mpi.rank, 1);
        expect_received(event, 0, MPI_PROC_NULL, MPI_ANY_TAG);
        CHECK(transfer_info<int>(event, CL_TRANSFER_DESTINATION) == mpi.rank);
        // The event describes the receive, for which no path was chosen.
        CHECK(transfer_text(event, CL_TRANSFER_PATH).empty());
        CHECK(!transfer_text(received, CL_TRANSFER_PATH).empty());
        cl.expect(other, 0, size, 1);
        cl.expect(incoming, 0, size, 9);
    }
}

MPI_CASE("a blocking receive of a message that is too long returns CL_MESSAGE_TRUNCATED", 2) {
    const opencl cl;
    const buffer_handle buffer = cl.filled(200 * KiB, static_cast<std::uint64_t>(mpi.rank));
    for (const queue_set &queues : cl.independent_queues(2)) {
        CAPTURE(queues.kind);
        for (const std::size_t i : {0, 1}) {
            const std::size_t size = i == 0 ? 100 : 200 * KiB;
            CAPTURE(size);
            if (mpi.rank == 0) {
                expect_complete(send(queues[i], buffer, 0, size, 1, 1, mpi.comm));
            } else if (mpi.rank == 1) {
                event_handle event;
                CHECK(clEnqueueRecvBuffer(queues[i], buffer, CL_TRUE, 0, 50, 0, 1, mpi.comm, 0,
                                          nullptr, event.out()) == CL_MESSAGE_TRUNCATED);
                cl.expect(buffer, 0, 200 * KiB, 1);
            }
        }
    }
}

MPI_CASE("commands enqueued after a failed command in an in-order queue succeed", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(100, static_cast<std::uint64_t>(mpi.rank));
    for (int round = 0; round < 50; ++round) {
        CAPTURE(round);
        if (mpi.rank == 0) {
            expect_complete(send(queue, buffer, 0, 100, 1, 1, mpi.comm));
            expect_complete(send(queue, buffer, 0, 100, 1, 2, mpi.comm));
        } else if (mpi.rank == 1) {
            const event_handle failed = receive(queue, buffer, 0, 50, 0, 1, mpi.comm);
            CL_OK(clFlush(queue));
            while (status_of(failed) > CL_COMPLETE) std::this_thread::yield();
            expect_received(receive(queue, buffer, 0, 100, 0, 2, mpi.comm), 100, 0, 2);
        }
    }
}

MPI_CASE(
    "a plain MPI message fails the receive that it matches, and the next correct message arrives",
    2) {
    const opencl cl;
    for (const std::size_t size : {0UL, 3UL, 100UL, 4096UL, MiB}) {
        CAPTURE(size);
        for (const queue_set &queues : cl.independent_queues(2)) {
            CAPTURE(queues.kind);
            const buffer_handle buffer = cl.filled(3 * MiB, static_cast<std::uint64_t>(mpi.rank));
            if (mpi.rank == 0) {
                const bytes plain = pattern(8, size);
                MPI_Request request = MPI_REQUEST_NULL;
                MPI_Isend(plain.data(), static_cast<int>(size), MPI_BYTE, 1, 1, mpi.comm, &request);
                const event_handle sent = send(queues[0], buffer, 0, 3 * MiB, 1, 1, mpi.comm);
                poll_until("the plain message to be received", [&] {
                    int done = 0;
                    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
                    return done != 0;
                });
                expect_complete(sent);
            } else if (mpi.rank == 1) {
                const event_handle failed = receive(queues[0], buffer, 0, 3 * MiB, 0, 1, mpi.comm);
                expect_failure(failed, CL_MESSAGE_NOT_RECOGNIZED);
                cl.expect(buffer, 0, 3 * MiB, 1);
                const event_handle received =
                    receive(queues[1], buffer, 0, 3 * MiB, 0, 1, mpi.comm);
                expect_received(received, 3 * MiB, 0, 1);
                cl.expect(buffer, 0, 3 * MiB, 0);
            }
        }
    }
}

MPI_CASE("plain MPI messages on other tags are ignored", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(MiB, static_cast<std::uint64_t>(mpi.rank));
    bytes plain = pattern(static_cast<std::uint64_t>(10 + mpi.rank), 100000);
    if (mpi.rank < 2) {
        const int peer = 1 - mpi.rank;
        bytes incoming(plain.size());
        MPI_Request requests[2];
        MPI_Irecv(incoming.data(), static_cast<int>(incoming.size()), MPI_BYTE, peer, 2, mpi.comm,
                  &requests[0]);
        MPI_Isend(plain.data(), static_cast<int>(plain.size()), MPI_BYTE, peer, 2, mpi.comm,
                  &requests[1]);
        const event_handle event = mpi.rank == 0 ? send(queue, buffer, 0, MiB, 1, 1, mpi.comm)
                                                 : receive(queue, buffer, 0, MiB, 0, 1, mpi.comm);
        poll_until("the plain messages", [&] {
            int done = 0;
            MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
            return done != 0;
        });
        expect_complete(event);
        CHECK((incoming == pattern(static_cast<std::uint64_t>(10 + peer), 100000)));
        cl.expect(buffer, 0, MiB, 0);
    }
}

MPI_CASE("sub-buffers are sent and received between processes", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const std::size_t unit = std::lcm(sub_buffer_alignment(cl.device), std::size_t{4096});
    for (const std::size_t size : {100UL, 3 * MiB}) {
        CAPTURE(size);
        const buffer_handle parent =
            cl.filled(3 * unit + size + 100, static_cast<std::uint64_t>(mpi.rank));
        if (mpi.rank == 0) {
            const buffer_handle part = cl.sub_buffer(parent, unit, size + 50);
            expect_complete(send(queue, part, 11, size, 1, 1, mpi.comm));
        } else if (mpi.rank == 1) {
            const buffer_handle part = cl.sub_buffer(parent, 2 * unit, size + 50);
            expect_received(receive(queue, part, 5, size, 0, 1, mpi.comm), size, 0, 1);
            cl.expect(parent, 0, 2 * unit + 5, 1);
            cl.expect(parent, 2 * unit + 5, size, 0, unit + 11);
            cl.expect(parent, 2 * unit + 5 + size, 40, 1, 2 * unit + 5 + size);
        }
    }
}

MPI_CASE("buffers that use host memory are sent and received", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    for (const std::size_t size : {1000UL, 3 * MiB}) {
        CAPTURE(size);
        bytes memory = pattern(static_cast<std::uint64_t>(mpi.rank), size);
        cl_int error = CL_SUCCESS;
        const buffer_handle used(clCreateBuffer(cl.context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                                size, memory.data(), &error));
        CL_OK(error);
        const buffer_handle allocated = cl.buffer(size, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR);
        if (mpi.rank == 0) {
            expect_complete(send(queue, used, 0, size, 1, 1, mpi.comm));
            cl.fill(allocated, 0, size, 5);
            expect_complete(send(queue, allocated, 0, size, 1, 1, mpi.comm));
        } else if (mpi.rank == 1) {
            expect_received(receive(queue, allocated, 0, size, 0, 1, mpi.comm), size, 0, 1);
            cl.expect(allocated, 0, size, 0);
            expect_received(receive(queue, used, 0, size, 0, 1, mpi.comm), size, 0, 1);
            cl.expect(used, 0, size, 5);
        }
    }
}

MPI_CASE("a message beyond 4 GiB arrives intact, to an offset beyond 4 GiB", 2) {
    if (const char *huge = std::getenv("CLDIST_TEST_HUGE");
        huge == nullptr || std::string(huge) != "1") {
        skip_case("takes much memory; set CLDIST_TEST_HUGE=1");
    }
    const opencl cl;
    constexpr std::size_t size = (std::size_t{4} << 30) + 5;
    constexpr std::size_t offset = (std::size_t{4} << 30) + 3;
    constexpr std::size_t step = 64 * MiB;
    need_memory(cl, mpi.rank == 1 ? offset + size : size);
    const queue_handle queue = cl.in_order_queue();
    const std::chrono::seconds limit(55);
    // In steps, so that the host never holds all bytes.
    if (mpi.rank == 0) {
        const buffer_handle buffer = cl.buffer(size);
        for (std::size_t at = 0; at < size; at += step) {
            cl.fill(buffer, at, std::min(step, size - at), at);
        }
        expect_complete(send(queue, buffer, 0, size, 1, 1, mpi.comm), limit);
    } else if (mpi.rank == 1) {
        const buffer_handle buffer = cl.buffer(offset + size);
        const event_handle received = receive(queue, buffer, offset, size, 0, 1, mpi.comm);
        expect_complete(received, limit);
        CHECK(transfer_info<std::size_t>(received, CL_TRANSFER_BYTES) == size);
        for (std::size_t at = 0; at < size; at += step) {
            cl.expect(buffer, offset + at, std::min(step, size - at), at);
        }
    }
}

MPI_CASE("a send and a receive use offsets beyond 4 GiB", 2) {
    if (const char *huge = std::getenv("CLDIST_TEST_HUGE");
        huge == nullptr || std::string(huge) != "1") {
        skip_case("takes much memory; set CLDIST_TEST_HUGE=1");
    }
    const opencl cl;
    constexpr std::size_t offset = (std::size_t{4} << 30) + 1;
    constexpr std::size_t size = 3 * MiB;
    need_memory(cl, offset + size);
    const queue_handle queue = cl.in_order_queue();
    if (mpi.rank < 2) {
        const buffer_handle buffer = cl.buffer(offset + size);
        cl.fill(buffer, offset, size, static_cast<std::uint64_t>(mpi.rank));
        if (mpi.rank == 0) {
            expect_complete(send(queue, buffer, offset, size, 1, 1, mpi.comm));
        } else {
            expect_received(receive(queue, buffer, offset, size, 0, 1, mpi.comm), size, 0, 1);
            cl.expect(buffer, offset, size, 0);
        }
    }
}
