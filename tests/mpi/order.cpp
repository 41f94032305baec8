/// The order of commands in queues, and of messages between processes.

#include "transfers.hpp"

using namespace cldist_test;

namespace {

std::size_t varied_size(int i) {
    constexpr std::size_t sizes[] = {1, 70000, 0, 8, 300000, 4096, 65536, 65, 131073, 1000};
    return sizes[static_cast<std::size_t>(i) % 10] + static_cast<std::size_t>(i) % 7;
}

/// Sends `count` messages with one tag on `queue` and checks that they arrive in order.
void messages_keep_order(const mpi_view &mpi, const opencl &cl, cl_command_queue queue, int count) {
    std::vector<buffer_handle> buffers;
    std::vector<event_handle> events;
    for (int i = 0; i < count; ++i) {
        const std::size_t size = varied_size(i);
        const auto seed = static_cast<std::uint64_t>(i);
        if (mpi.rank == 0) {
            buffers.push_back(cl.filled(size, seed));
            events.push_back(send(queue, buffers.back(), 0, size, 1, 5, mpi.comm));
        } else if (mpi.rank == 1) {
            buffers.push_back(cl.buffer(size + 10));
            events.push_back(receive(queue, buffers.back(), 0, size + 10, 0, 5, mpi.comm));
        }
    }
    for (std::size_t i = 0; i < events.size(); ++i) {
        CAPTURE(i);
        const std::size_t size = varied_size(static_cast<int>(i));
        expect_complete(events[i]);
        CHECK(transfer_info<std::size_t>(events[i], CL_TRANSFER_BYTES) == size);
        if (mpi.rank == 1) {
            cl.expect(buffers[i], 0, size, i);
        }
    }
}

}  // namespace

MPI_CASE("an in-order queue keeps fills, sends, receives and copies in order without events", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    constexpr std::size_t size = 20000;
    constexpr int rounds = 30;
    const buffer_handle buffer = cl.buffer(size);
    const buffer_handle log = cl.buffer(size * rounds);
    for (int i = 0; i < rounds; ++i) {
        const auto value = static_cast<unsigned char>(i + 1);
        if (mpi.rank == 0) {
            CL_OK(clEnqueueFillBuffer(queue, buffer, &value, 1, 0, size, 0, nullptr, nullptr));
            CL_OK(clEnqueueSendBuffer(queue, buffer, CL_FALSE, 0, size, 1, 3, mpi.comm, 0, nullptr,
                                      nullptr));
        } else if (mpi.rank == 1) {
            CL_OK(clEnqueueRecvBuffer(queue, buffer, CL_FALSE, 0, size, 0, 3, mpi.comm, 0, nullptr,
                                      nullptr));
            CL_OK(clEnqueueCopyBuffer(queue, buffer, log, 0, size * static_cast<std::size_t>(i),
                                      size, 0, nullptr, nullptr));
        }
    }
    finish(queue);
    if (mpi.rank == 1) {
        for (int i = 0; i < rounds; ++i) {
            const bytes found = cl.read(log, size * static_cast<std::size_t>(i), size);
            CHECK((found == bytes(size, static_cast<unsigned char>(i + 1))));
        }
    }
    mpi.barrier();
}

MPI_CASE("kernels of an in-order queue read received data and change the data that is sent next",
         2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const kernel_handle kernel = cl.kernel("add_one");
    const std::size_t size = 5000;
    constexpr int rounds = 10;
    const buffer_handle buffer = cl.filled(size, 1);
    cl_mem argument = buffer;
    CL_OK(clSetKernelArg(kernel, 0, sizeof(argument), &argument));
    if (mpi.rank < 2) {
        const int peer = 1 - mpi.rank;
        for (int i = 0; i < rounds; ++i) {
            if (mpi.rank == 0 || i > 0) {
                CL_OK(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &size, nullptr, 0, nullptr,
                                             nullptr));
                CL_OK(clEnqueueSendBuffer(queue, buffer, CL_FALSE, 0, size, peer, 1, mpi.comm, 0,
                                          nullptr, nullptr));
            }
            if (mpi.rank == 1 || i + 1 < rounds) {
                CL_OK(clEnqueueRecvBuffer(queue, buffer, CL_FALSE, 0, size, peer, 1, mpi.comm, 0,
                                          nullptr, nullptr));
            }
        }
        finish(queue);
        // Each send follows one more kernel, and rank 0's last send follows 2 * rounds - 1 kernels.
        bytes wanted = pattern(1, size);
        for (unsigned char &byte : wanted) {
            byte = static_cast<unsigned char>(byte + 2 * rounds - 1);
        }
        CHECK((cl.read(buffer, 0, size) == wanted));
    }
    mpi.barrier();
}

MPI_CASE("an out-of-order queue continues past a pending receive", 2) {
    const opencl cl;
    const queue_handle queue = cl.out_of_order_queue();
    const buffer_handle buffer = cl.filled(1000, 1);
    if (mpi.rank == 1) {
        const buffer_handle other = cl.filled(1000, 2);
        const kernel_handle kernel = cl.kernel("add_one");
        cl_mem argument = other;
        CL_OK(clSetKernelArg(kernel, 0, sizeof(argument), &argument));
        const event_handle received = receive(queue, buffer, 0, 1000, 0, 1, mpi.comm);
        const std::size_t size = 1000;
        event_handle ran;
        CL_OK(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &size, nullptr, 0, nullptr,
                                     ran.out()));
        CL_OK(clFlush(queue));
        expect_ended(ran, CL_COMPLETE);
        CHECK(status_of(received) > CL_COMPLETE);
        tell(mpi, 0);
        expect_received(received, 1000, 0, 1);
        cl.expect(buffer, 0, 1000, 7);
    } else if (mpi.rank == 0) {
        cl.fill(buffer, 0, 1000, 7);
        await(mpi, 1);
        expect_complete(send(queue, buffer, 0, 1000, 1, 1, mpi.comm));
    }
}

MPI_CASE("other queues continue past a pending receive on an in-order queue", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const queue_handle other = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(1000, 1);
    if (mpi.rank == 1) {
        const event_handle received = receive(queue, buffer, 0, 1000, 0, 1, mpi.comm);
        const buffer_handle scratch = cl.buffer(1000);
        const unsigned char value = 3;
        event_handle filled;
        event_handle held;
        CL_OK(clEnqueueFillBuffer(queue, scratch, &value, 1, 500, 500, 0, nullptr, held.out()));
        CL_OK(clEnqueueFillBuffer(other, scratch, &value, 1, 0, 500, 0, nullptr, filled.out()));
        CL_OK(clFlush(queue));
        CL_OK(clFlush(other));
        expect_ended(filled, CL_COMPLETE);
        CHECK(status_of(received) > CL_COMPLETE);
        CHECK(status_of(held) > CL_COMPLETE);
        tell(mpi, 0);
        expect_received(received, 1000, 0, 1);
        expect_ended(held, CL_COMPLETE);
    } else if (mpi.rank == 0) {
        await(mpi, 1);
        expect_complete(send(queue, buffer, 0, 1000, 1, 1, mpi.comm));
    }
}

MPI_CASE("100 messages of varied sizes with one tag arrive in the order of an in-order queue", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    messages_keep_order(mpi, cl, queue, 100);
}

MPI_CASE(
    "100 messages of varied sizes with one tag arrive in the order of enqueueing on an "
    "out-of-order queue",
    2) {
    const opencl cl;
    const queue_handle queue = cl.out_of_order_queue();
    messages_keep_order(mpi, cl, queue, 100);
}

MPI_CASE("messages that start later arrive later, whatever the order of enqueueing", 2) {
    const opencl cl;
    for (const queue_set &queues : cl.independent_queues(2)) {
        CAPTURE(queues.kind);
        const buffer_handle first = cl.filled(1000, 1);
        const buffer_handle second = cl.filled(1000, 2);
        if (mpi.rank == 0) {
            const event_handle gate = cl.user_event();
            const event_handle late = send(queues[0], first, 0, 1000, 1, 1, mpi.comm, {gate});
            const event_handle early = send(queues[1], second, 0, 1000, 1, 1, mpi.comm);
            expect_complete(early);
            CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
            expect_complete(late);
        } else if (mpi.rank == 1) {
            const buffer_handle one = cl.buffer(1000);
            const buffer_handle two = cl.buffer(1000);
            const event_handle received_one = receive(queues[0], one, 0, 1000, 0, 1, mpi.comm);
            await_start(received_one);
            const event_handle received_two = receive(queues[1], two, 0, 1000, 0, 1, mpi.comm);
            expect_received(received_one, 1000, 0, 1);
            expect_received(received_two, 1000, 0, 1);
            cl.expect(one, 0, 1000, 2);
            cl.expect(two, 0, 1000, 1);
        }
    }
}

MPI_CASE("a blocking send and a blocking receive return when they are complete", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    for (const std::size_t size : {0UL, 8UL, 5000UL, 200000UL, 9UL << 20}) {
        CAPTURE(size);
        if (mpi.rank == 0) {
            const buffer_handle buffer = cl.filled(size, size);
            event_handle event;
            CL_OK(clEnqueueSendBuffer(queue, buffer, CL_TRUE, 0, size, 1, 1, mpi.comm, 0, nullptr,
                                      event.out()));
            CHECK(status_of(event) == CL_COMPLETE);
            cl.fill(buffer, 0, size, 77);  // the buffer may be reused
        } else if (mpi.rank == 1) {
            const buffer_handle buffer = cl.buffer(size + 1);
            event_handle event;
            CL_OK(clEnqueueRecvBuffer(queue, buffer, CL_TRUE, 0, size, 0, 1, mpi.comm, 0, nullptr,
                                      event.out()));
            CHECK(status_of(event) == CL_COMPLETE);
            cl.expect(buffer, 0, size, size);
            expect_received(event, size, 0, 1);
        }
    }
}

MPI_CASE("a blocking call comes after the commands before it on its in-order queue", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    constexpr std::size_t size = 2 << 20;
    const buffer_handle buffer = cl.filled(size, 1);
    if (mpi.rank == 0) {
        for (unsigned char value = 1; value < 5; ++value) {
            CL_OK(clEnqueueFillBuffer(queue, buffer, &value, 1, 0, size, 0, nullptr, nullptr));
            CL_OK(clEnqueueSendBuffer(queue, buffer, CL_TRUE, 0, size, 1, 1, mpi.comm, 0, nullptr,
                                      nullptr));
        }
    } else if (mpi.rank == 1) {
        const buffer_handle second = cl.buffer(size);
        for (unsigned char value = 1; value < 5; value += 2) {
            // The first receive does not block. The second waits for it in the queue.
            const event_handle event = receive(queue, buffer, 0, size, 0, 1, mpi.comm);
            CL_OK(clEnqueueRecvBuffer(queue, second, CL_TRUE, 0, size, 0, 1, mpi.comm, 0, nullptr,
                                      nullptr));
            CHECK(status_of(event) == CL_COMPLETE);
            CHECK((cl.read(buffer, 0, size) == bytes(size, value)));
            CHECK((cl.read(second, 0, size) == bytes(size, static_cast<unsigned char>(value + 1))));
        }
    }
}

MPI_CASE("blocking calls in an out-of-order queue do not wait for another command's message", 2) {
    const opencl cl;
    const queue_handle queue = cl.out_of_order_queue();
    constexpr std::size_t size = 200;
    const buffer_handle buffer = cl.filled(2 * size, static_cast<std::uint64_t>(mpi.rank));
    if (mpi.rank == 1) {
        const event_handle pending = receive(queue, buffer, 0, size, 0, 1, mpi.comm);
        // Without an event, the calling thread copies through the queue itself.
        CL_OK(clEnqueueRecvBuffer(queue, buffer, CL_TRUE, size, size, 0, 2, mpi.comm, 0, nullptr,
                                  nullptr));
        CL_OK(clEnqueueSendBuffer(queue, buffer, CL_TRUE, size, size, 0, 3, mpi.comm, 0, nullptr,
                                  nullptr));
        CHECK(status_of(pending) != CL_COMPLETE);
        tell(mpi, 0);
        expect_received(pending, size, 0, 1);
        cl.expect(buffer, size, size, 0);
    } else if (mpi.rank == 0) {
        const event_handle sent = send(queue, buffer, 0, size, 1, 2, mpi.comm);
        const event_handle back = receive(queue, buffer, size, size, 1, 3, mpi.comm);
        await(mpi, 1);
        const event_handle last = send(queue, buffer, 0, size, 1, 1, mpi.comm);
        expect_complete(sent);
        expect_complete(back);
        expect_complete(last);
        cl.expect(buffer, size, size, 0);
    }
}
