/// Blocking calls without events and other commands in flight, for which cldist has a fast path.

#include <thread>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

cl_int send_now(cl_command_queue queue, cl_mem buffer, std::size_t offset, std::size_t size,
                const mpi_view &mpi) {
    return clEnqueueSendBuffer(queue, buffer, CL_TRUE, offset, size, 1 - mpi.rank, 1, mpi.comm, 0,
                               nullptr, nullptr);
}

cl_int receive_now(cl_command_queue queue, cl_mem buffer, std::size_t offset, std::size_t size,
                   const mpi_view &mpi) {
    return clEnqueueRecvBuffer(queue, buffer, CL_TRUE, offset, size, 1 - mpi.rank, 1, mpi.comm, 0,
                               nullptr, nullptr);
}

}  // namespace

MPI_CASE(
    "blocking messages of all small sizes go back and forth on in-order and out-of-order queues",
    2) {
    const opencl cl;
    if (mpi.rank > 1) {
        return;
    }
    for (const queue_set &queues : cl.independent_queues(1)) {
        CAPTURE(queues.kind);
        for (const std::size_t size :
             {1UL, 8UL, 64UL, 1000UL, 16 * KiB - 1, 16 * KiB, 16 * KiB + 1, 64 * KiB}) {
            CAPTURE(size);
            const buffer_handle buffer =
                cl.filled(size + 200, 3 + static_cast<std::uint64_t>(mpi.rank));
            // The message goes back and forth, to different offsets. No byte around it changes.
            if (mpi.rank == 0) {
                CL_OK(send_now(queues[0], buffer, 100, size, mpi));
                CL_OK(receive_now(queues[0], buffer, 150, size + 50, mpi));
                cl.expect(buffer, 0, 150, 3);
                cl.expect(buffer, 150, size, 3, 100);
                cl.expect(buffer, 150 + size, 50, 3, 150 + size);
            } else {
                CL_OK(receive_now(queues[0], buffer, 20, size, mpi));
                CL_OK(send_now(queues[0], buffer, 20, size, mpi));
                cl.expect(buffer, 0, 20, 4);
                cl.expect(buffer, 20, size, 3, 100);
                cl.expect(buffer, 20 + size, 180, 4, 20 + size);
            }
        }
    }
}

MPI_CASE("short-lived buffers and sub-buffers are sent and received in place", 2) {
    const opencl cl;
    if (mpi.rank > 1) {
        return;
    }
    const queue_handle queue = cl.in_order_queue();
    const std::size_t unit = sub_buffer_alignment(cl.device);
    for (std::uint64_t turn = 0; turn < 100; ++turn) {
        CAPTURE(turn);
        constexpr std::array<std::size_t, 4> sizes{8, 4 * KiB, 64 * KiB, 1 * MiB};
        const std::size_t size = sizes.at(turn % sizes.size());
        const std::size_t origin = turn % 3 * unit;
        // The driver may reuse handles and addresses of earlier turns.
        const buffer_handle parent = cl.filled(origin + size, 2 * turn + (mpi.rank == 0 ? 0 : 1));
        const buffer_handle part = cl.sub_buffer(parent, origin, size);
        const cl_mem used = turn % 2 == 0 ? cl_mem(part) : cl_mem(parent);
        const std::size_t offset = turn % 2 == 0 ? 0 : origin;
        const bool waits = turn % 5 == 0;  // otherwise the call itself blocks
        event_handle event;
        cl_event *const wanted = waits ? event.out() : nullptr;
        const cl_bool blocking = waits ? CL_FALSE : CL_TRUE;
        if (mpi.rank == 0) {
            CL_OK(clEnqueueSendBuffer(queue, used, blocking, offset, size, 1, 7, mpi.comm, 0,
                                      nullptr, wanted));
        } else {
            CL_OK(clEnqueueRecvBuffer(queue, used, blocking, offset, size, 0, 7, mpi.comm, 0,
                                      nullptr, wanted));
        }
        if (waits) {
            const cl_event ended = event;
            CL_OK(clWaitForEvents(1, &ended));
        }
        if (mpi.rank == 1) {
            cl.expect(parent, origin, size, 2 * turn, origin);
            cl.expect(parent, 0, origin, 2 * turn + 1);
        }
    }
}

MPI_CASE("one large message after another arrives, whether it is staged or goes in place", 2) {
    const opencl cl;
    if (mpi.rank > 1) {
        return;
    }
    const queue_handle queue = cl.in_order_queue();
    constexpr std::size_t skip = 100;
    for (const std::size_t size : {512 * KiB, 3 * MiB + 13}) {
        for (std::uint64_t turn = 0; turn < 20; ++turn) {
            CAPTURE(size);
            CAPTURE(turn);
            const buffer_handle buffer =
                cl.filled(size + 2 * skip, 2 * turn + static_cast<std::uint64_t>(mpi.rank));
            if (mpi.rank == 0) {
                CL_OK(send_now(queue, buffer, skip, size, mpi));
            } else {
                CL_OK(receive_now(queue, buffer, skip, size, mpi));
                cl.expect(buffer, skip, size, 2 * turn, skip);
                cl.expect(buffer, 0, skip, 2 * turn + 1);
                cl.expect(buffer, skip + size, skip, 2 * turn + 1, skip + size);
            }
        }
    }
}

MPI_CASE("a small blocking call comes after earlier kernels and before later ones", 2) {
    const opencl cl;
    if (mpi.rank > 1) {
        return;
    }
    const queue_handle queue = cl.in_order_queue();
    const kernel_handle kernel = cl.kernel("add_one");
    constexpr std::size_t size = 256;
    const buffer_handle buffer = cl.filled(size, 1);
    cl_mem argument = buffer;
    CL_OK(clSetKernelArg(kernel, 0, sizeof(argument), &argument));
    bytes wanted = pattern(1, size);
    for (int turn = 0; turn < 20; ++turn) {
        const bool sends = turn % 2 == mpi.rank;
        if (sends) {
            CL_OK(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &size, nullptr, 0, nullptr,
                                         nullptr));
        }
        CL_OK(sends ? send_now(queue, buffer, 0, size, mpi)
                    : receive_now(queue, buffer, 0, size, mpi));
        for (auto &byte : wanted) {
            ++byte;
        }
        CHECK((cl.read(buffer, 0, size) == wanted));
    }
}

MPI_CASE(
    "a small blocking receive returns an error for a wrong message, and the next message arrives",
    2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(MiB, static_cast<std::uint64_t>(mpi.rank));
    if (mpi.rank == 0) {
        const bytes plain = pattern(8, 100);
        for (const std::size_t size : {51UL, 1000UL, MiB}) {
            CL_OK(send_now(queue, buffer, 0, size, mpi));
        }
        MPI_Send(plain.data(), 100, MPI_BYTE, 1, 1, mpi.comm);
        MPI_Send(plain.data(), 64, MPI_BYTE, 1, 1, mpi.comm);
        CL_OK(send_now(queue, buffer, 0, 50, mpi));
    } else if (mpi.rank == 1) {
        for (int i = 0; i < 3; ++i) {
            CHECK(receive_now(queue, buffer, 0, 50, mpi) == CL_MESSAGE_TRUNCATED);
        }
        for (int i = 0; i < 2; ++i) {
            CHECK(receive_now(queue, buffer, 0, 50, mpi) == CL_MESSAGE_NOT_RECOGNIZED);
        }
        cl.expect(buffer, 0, MiB, 1);
        CL_OK(receive_now(queue, buffer, 0, 50, mpi));
        cl.expect(buffer, 0, 50, 0);
        cl.expect(buffer, 50, MiB - 50, 1, 50);
    }
}

MPI_CASE("a blocking send and another thread's non-blocking send on its queue both end", 2) {
    const opencl cl;
    constexpr int rounds = 300;
    const queue_handle queues[] = {cl.in_order_queue(), cl.in_order_queue()};
    for (const std::size_t size : {64UL, 12000UL}) {
        const buffer_handle buffers[] = {cl.filled(size, 1), cl.filled(size, 2)};
        for (int round = 0; round < rounds; ++round) {
            if (mpi.rank == 0) {
                const event_handle gate = cl.user_event();
                {
                    const std::jthread other([&] {
                        const cl_event wait = gate;
                        clEnqueueSendBuffer(queues[0], buffers[0], CL_TRUE, 0, size, 1, 1, mpi.comm,
                                            1, &wait, nullptr);
                    });
                    const event_handle second =
                        send(queues[0], buffers[1], 0, size, 1, 2, mpi.comm);
                    CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
                }
                finish(queues[0]);
            } else if (mpi.rank == 1) {
                // Either message may come first.
                const event_handle one = receive(queues[0], buffers[1], 0, size, 0, 1, mpi.comm);
                const event_handle two = receive(queues[1], buffers[0], 0, size, 0, 2, mpi.comm);
                expect_received(one, size, 0, 1);
                expect_received(two, size, 0, 2);
            }
        }
        if (mpi.rank == 1) {
            cl.expect(buffers[1], 0, size, 1);
            cl.expect(buffers[0], 0, size, 2);
        }
    }
}
