/// Transfers wait for their wait lists and fail with them.

#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

/// Rank 0 signals rank 1 and waits for the reply. Earlier messages between them have then arrived.
void round_trip(const mpi_view &mpi) {
    if (mpi.rank == 0) {
        tell(mpi, 1);
        await(mpi, 1);
    } else if (mpi.rank == 1) {
        await(mpi, 0);
        tell(mpi, 0);
    }
}

}  // namespace

MPI_CASE("a send starts when its wait list is complete, not before", 2) {
    const opencl cl;
    for (const std::size_t size : {100UL, 1UL << 20}) {
        CAPTURE(size);
        const queue_handle queue = cl.in_order_queue();
        const buffer_handle buffer = cl.filled(size, 1);
        if (mpi.rank == 0) {
            const event_handle one = cl.user_event();
            const event_handle two = cl.user_event();
            const event_handle sent = send(queue, buffer, 0, size, 1, 1, mpi.comm, {one, two});
            CL_OK(clSetUserEventStatus(one, CL_COMPLETE));
            round_trip(mpi);
            CHECK(transfer_status(sent) > CL_RUNNING);
            cl.fill(buffer, 0, size, 2);
            CL_OK(clSetUserEventStatus(two, CL_COMPLETE));
            expect_complete(sent);
        } else if (mpi.rank == 1) {
            const event_handle received = receive(queue, buffer, 0, size, 0, 1, mpi.comm);
            round_trip(mpi);
            CHECK(transfer_status(received) > CL_COMPLETE);
            tell(mpi, 0);
            expect_received(received, size, 0, 1);
            cl.expect(buffer, 0, size, 2);
        }
        if (mpi.rank == 0) {
            await(mpi, 1);
        }
    }
}

MPI_CASE("a receive starts when its wait list is complete, not before", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const queue_handle other = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(1000, 1);
    if (mpi.rank == 0) {
        expect_complete(send(queue, buffer, 0, 1000, 1, 1, mpi.comm));
        tell(mpi, 1);
        cl.fill(buffer, 0, 1000, 2);
        expect_complete(send(queue, buffer, 0, 1000, 1, 1, mpi.comm));
    } else if (mpi.rank == 1) {
        const buffer_handle late = cl.filled(1000, 3);
        const event_handle gate = cl.user_event();
        const event_handle gated = receive(queue, late, 0, 1000, 0, 1, mpi.comm, {gate});
        await(mpi, 0);
        // The first message matches this receive, which starts before the gated one.
        expect_received(receive(other, buffer, 0, 1000, 0, 1, mpi.comm), 1000, 0, 1);
        cl.expect(buffer, 0, 1000, 1);
        CHECK(status_of(gated) > CL_COMPLETE);
        cl.expect(late, 0, 1000, 3);
        CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
        expect_received(gated, 1000, 0, 1);
        cl.expect(late, 0, 1000, 2);
    }
}

MPI_CASE("a transfer waits for commands of other queues and for other transfers", 3) {
    // Rank 0 fills a buffer and sends it to rank 1, which forwards it to rank 2. All commands are
    // enqueued at once.
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const queue_handle other = cl.in_order_queue();
    constexpr std::size_t size = 300000;
    const buffer_handle buffer = cl.filled(size, 9);
    if (mpi.rank == 0) {
        const unsigned char value = 42;
        event_handle filled;
        CL_OK(clEnqueueFillBuffer(other, buffer, &value, 1, 0, size, 0, nullptr, filled.out()));
        expect_complete(send(queue, buffer, 0, size, 1, 1, mpi.comm, {filled}));
    } else if (mpi.rank == 1) {
        const event_handle received = receive(queue, buffer, 0, size, 0, 1, mpi.comm);
        expect_complete(send(other, buffer, 0, size, 2, 1, mpi.comm, {received}));
        expect_received(received, size, 0, 1);
    } else if (mpi.rank == 2) {
        expect_received(receive(queue, buffer, 0, size, 1, 1, mpi.comm), size, 1, 1);
        CHECK((cl.read(buffer, 0, size) == bytes(size, 42)));
    }
}

MPI_CASE(
    "a send whose wait list fails ends with that error, and its receiver with "
    "CL_PEER_TRANSFER_FAILED",
    2) {
    const opencl cl;
    for (const std::size_t size : {100UL, 2UL << 20}) {
        CAPTURE(size);
        for (const queue_set &queues : cl.independent_queues(2)) {
            CAPTURE(queues.kind);
            const buffer_handle buffer = cl.filled(size, static_cast<std::uint64_t>(mpi.rank));
            if (mpi.rank == 0) {
                const event_handle gate = cl.user_event();
                const event_handle sent = send(queues[0], buffer, 0, size, 1, 1, mpi.comm, {gate});
                CL_OK(clSetUserEventStatus(gate, -77));
                expect_failure(sent, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
                expect_complete(send(queues[1], buffer, 0, size, 1, 1, mpi.comm));
            } else if (mpi.rank == 1) {
                const event_handle failed = receive(queues[0], buffer, 0, size, 0, 1, mpi.comm);
                expect_failure(failed, CL_PEER_TRANSFER_FAILED);
                cl.expect(buffer, 0, size, 1);
                expect_received(receive(queues[1], buffer, 0, size, 0, 1, mpi.comm), size, 0, 1);
                cl.expect(buffer, 0, size, 0);
            }
        }
    }
}

MPI_CASE(
    "a send whose wait list failed before the call fails, its receiver fails, and its queue "
    "continues",
    2) {
    const opencl cl;
    for (const std::size_t size : {100UL, 2UL << 20}) {
        CAPTURE(size);
        for (const queue_set &queues : cl.independent_queues(1)) {
            CAPTURE(queues.kind);
            const buffer_handle buffer = cl.filled(size, static_cast<std::uint64_t>(mpi.rank));
            if (mpi.rank == 0) {
                const event_handle gate = cl.user_event();
                CL_OK(clSetUserEventStatus(gate, -77));
                const event_handle sent = send(queues[0], buffer, 0, size, 1, 1, mpi.comm, {gate});
                expect_failure(sent, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
                expect_complete(send(queues[0], buffer, 0, size, 1, 1, mpi.comm));
                CL_OK(clFinish(queues[0]));
            } else if (mpi.rank == 1) {
                const event_handle failed = receive(queues[0], buffer, 0, size, 0, 1, mpi.comm);
                expect_failure(failed, CL_PEER_TRANSFER_FAILED);
                expect_received(receive(queues[0], buffer, 0, size, 0, 1, mpi.comm), size, 0, 1);
                cl.expect(buffer, 0, size, 0);
            }
        }
    }
}

MPI_CASE("commands with MPI_PROC_NULL fail with their wait list", 1) {
    const opencl cl;
    const buffer_handle buffer = cl.filled(5000, 1);
    const buffer_handle other = cl.filled(5000, 2);
    for (const bool before_the_call : {true, false}) {
        CAPTURE(before_the_call);
        for (const queue_set &queues : cl.independent_queues(1)) {
            CAPTURE(queues.kind);
            const event_handle gate = cl.user_event();
            const cl_event list[] = {gate};
            if (before_the_call) CL_OK(clSetUserEventStatus(gate, -77));
            const event_handle sent =
                send(queues[0], buffer, 0, 5000, MPI_PROC_NULL, 1, mpi.comm, {gate});
            const event_handle received =
                receive(queues[0], buffer, 0, 5000, MPI_PROC_NULL, 1, mpi.comm, {gate});
            event_handle both;
            CL_OK(clEnqueueSendrecvBuffer(queues[0], buffer, CL_FALSE, 0, 5000, MPI_PROC_NULL, 1,
                                          other, 0, 5000, MPI_PROC_NULL, 1, mpi.comm, 1, list,
                                          both.out()));
            if (!before_the_call) CL_OK(clSetUserEventStatus(gate, -77));
            for (const cl_event event : {sent.get(), received.get(), both.get()})
                expect_failure(event, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
            expect_complete(send(queues[0], buffer, 0, 5000, MPI_PROC_NULL, 1, mpi.comm));
        }
    }
    cl.expect(buffer, 0, 5000, 1);
    cl.expect(other, 0, 5000, 2);
}

MPI_CASE(
    "a receive whose wait list fails drops its message, and the next receive gets the next message",
    2) {
    const opencl cl;
    for (const std::size_t size : {100UL, 2UL << 20}) {
        CAPTURE(size);
        for (const queue_set &queues : cl.independent_queues(2)) {
            CAPTURE(queues.kind);
            if (mpi.rank == 0) {
                const buffer_handle first = cl.filled(size, 1);
                const buffer_handle second = cl.filled(size, 2);
                const event_handle dropped = send(queues[0], first, 0, size, 1, 1, mpi.comm);
                await_start(dropped);
                await(mpi, 1);
                const event_handle taken = send(queues[1], second, 0, size, 1, 1, mpi.comm);
                expect_ended(dropped, CL_COMPLETE);
                expect_complete(taken);
            } else if (mpi.rank == 1) {
                const buffer_handle buffer = cl.filled(size, 3);
                const buffer_handle other = cl.buffer(size);
                const event_handle gate = cl.user_event();
                const event_handle failed =
                    receive(queues[0], buffer, 0, size, 0, 1, mpi.comm, {gate});
                CL_OK(clSetUserEventStatus(gate, -77));
                expect_failure(failed, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
                tell(mpi, 0);
                expect_received(receive(queues[1], other, 0, size, 0, 1, mpi.comm), size, 0, 1);
                cl.expect(other, 0, size, 2);
                cl.expect(buffer, 0, size, 3);
            }
        }
    }
}

MPI_CASE(
    "a receive whose wait list fails does not overwrite the output of a pending earlier command",
    2) {
    const opencl cl;
    const kernel_handle add_one = cl.kernel("add_one");
    for (const std::size_t size : {100UL, 2UL << 20}) {
        CAPTURE(size);
        const queue_handle queue = cl.in_order_queue();
        const queue_handle other = cl.in_order_queue();
        const buffer_handle small = cl.filled(16, 4);
        if (mpi.rank == 0) {
            const buffer_handle buffer = cl.filled(size, 1);
            const event_handle dropped = send(queue, buffer, 0, size, 1, 1, mpi.comm);
            for (int i = 0; i < 100; ++i) {
                expect_complete(send(other, small, 0, 16, 1, 2, mpi.comm));
            }
            expect_ended(dropped, CL_COMPLETE);
        } else if (mpi.rank == 1) {
            const buffer_handle buffer = cl.filled(size, 3);
            bytes wanted = cl.read(buffer, 0, size);
            for (unsigned char &byte : wanted) {
                ++byte;
            }
            const event_handle gate_of_kernel = cl.user_event();
            const event_handle gate = cl.user_event();
            const cl_mem argument = buffer;
            const cl_event wait = gate_of_kernel;
            event_handle written;
            CL_OK(clSetKernelArg(add_one, 0, sizeof argument, &argument));
            CL_OK(clEnqueueNDRangeKernel(queue, add_one, 1, nullptr, &size, nullptr, 1, &wait,
                                         written.out()));
            const event_handle failed = receive(queue, buffer, 0, size, 0, 1, mpi.comm, {gate});
            CL_OK(clSetUserEventStatus(gate, -77));
            // Gives the progress thread time to see the failure, which some drivers report before
            // the kernel has ended.
            for (int i = 0; i < 100; ++i) {
                expect_complete(receive(other, small, 0, 16, 0, 2, mpi.comm));
            }
            CL_OK(clSetUserEventStatus(gate_of_kernel, CL_COMPLETE));
            expect_ended(written, CL_COMPLETE);
            expect_failure(failed, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
            CHECK((cl.read(buffer, 0, size) == wanted));
        }
    }
}

MPI_CASE("a receive that fails before its message arrives still drops that message", 2) {
    const opencl cl;
    for (const queue_set &queues : cl.independent_queues(2)) {
        CAPTURE(queues.kind);
        if (mpi.rank == 1) {
            const buffer_handle buffer = cl.filled(1000, 3);
            const event_handle gate = cl.user_event();
            const event_handle failed = receive(queues[0], buffer, 0, 1000, 0, 1, mpi.comm, {gate});
            CL_OK(clSetUserEventStatus(gate, -77));
            await_start(failed);
            const buffer_handle other = cl.buffer(1000);
            const event_handle next = receive(queues[1], other, 0, 1000, 0, 1, mpi.comm);
            tell(mpi, 0);
            expect_received(next, 1000, 0, 1);
            expect_failure(failed, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
            cl.expect(other, 0, 1000, 2);
            cl.expect(buffer, 0, 1000, 3);
        } else if (mpi.rank == 0) {
            const buffer_handle first = cl.filled(1000, 1);
            const buffer_handle second = cl.filled(1000, 2);
            await(mpi, 1);
            const event_handle one = send(queues[0], first, 0, 1000, 1, 1, mpi.comm);
            await_start(one);
            const event_handle two = send(queues[1], second, 0, 1000, 1, 1, mpi.comm);
            expect_complete(one);
            expect_complete(two);
        }
    }
}

MPI_CASE("a command whose wait list fails stays behind the earlier messages of its in-order queue",
         2) {
    if (mpi.rank > 1) return;
    const opencl cl;
    constexpr std::size_t size = 100000;
    const queue_handle other = cl.in_order_queue();
    const buffer_handle small = cl.filled(16, 4);
    for (const int side : {0, 1}) {
        // A blocking call would wait for a wait list that fails later.
        for (const auto &[early, blocking] :
             {std::pair{true, CL_FALSE}, {true, CL_TRUE}, {false, CL_FALSE}}) {
            CAPTURE(side);
            CAPTURE(early);
            CAPTURE(blocking);
            const queue_handle queue = cl.in_order_queue();
            std::array<buffer_handle, 3> buffers;
            for (std::uint64_t i = 0; i < buffers.size(); ++i)
                buffers[i] = cl.filled(size, mpi.rank == 0 ? i : 9);
            const int peer = 1 - mpi.rank;
            const auto transfer = [&](cl_command_queue on, std::size_t i, cl_bool waits,
                                      cl_event after, event_handle &event) {
                const cl_uint count = after != nullptr ? 1 : 0;
                const cl_event *const list = after != nullptr ? &after : nullptr;
                return mpi.rank == 0 ? clEnqueueSendBuffer(on, buffers[i], waits, 0, size, peer, 1,
                                                           mpi.comm, count, list, event.out())
                                     : clEnqueueRecvBuffer(on, buffers[i], waits, 0, size, peer, 1,
                                                           mpi.comm, count, list, event.out());
            };
            const bool mine = mpi.rank == side;
            std::array<event_handle, 3> events;
            const event_handle gate = cl.user_event();
            const event_handle failing = cl.user_event();
            if (mine && early) CL_OK(clSetUserEventStatus(failing, -77));
            CL_OK(transfer(queue, 0, CL_FALSE, mine ? gate.get() : nullptr, events[0]));
            if (mine && blocking == CL_TRUE)
                CHECK(transfer(queue, 1, CL_TRUE, failing, events[1]) ==
                      CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
            else
                CL_OK(transfer(queue, 1, CL_FALSE, mine ? failing.get() : nullptr, events[1]));
            if (mine && !early) CL_OK(clSetUserEventStatus(failing, -77));
            // Gives the progress thread time to see the failure.
            for (int i = 0; i < 20; ++i) {
                if (mpi.rank == 0)
                    expect_complete(send(other, small, 0, 16, 1, 2, mpi.comm));
                else
                    expect_complete(receive(other, small, 0, 16, 0, 2, mpi.comm));
            }
            CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
            expect_complete(events[0]);
            if (!mine && side == 0)
                expect_failure(events[1], CL_PEER_TRANSFER_FAILED);
            else if (!mine)
                expect_complete(events[1]);
            else if (blocking == CL_FALSE)
                expect_failure(events[1], CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
            CL_OK(transfer(other, 2, CL_FALSE, nullptr, events[2]));
            expect_complete(events[2]);
            if (mpi.rank == 0) continue;
            cl.expect(buffers[0], 0, size, 0);
            cl.expect(buffers[1], 0, size, 9);
            cl.expect(buffers[2], 0, size, 2);
        }
    }
}

MPI_CASE("a receive behind a failed one takes its message before later receives of other queues",
         2) {
    if (mpi.rank > 1) return;
    const opencl cl;
    constexpr std::size_t size = 1000;
    const queue_handle other = cl.in_order_queue();
    for (int round = 0; round < 20; ++round) {
        CAPTURE(round);
        const queue_handle queue = cl.in_order_queue();
        if (mpi.rank == 0) {
            const event_handle failing = cl.user_event();
            CL_OK(clSetUserEventStatus(failing, -77));
            const buffer_handle second = cl.filled(size, 2);
            const buffer_handle third = cl.filled(size, 3);
            const event_handle failed = send(queue, second, 0, size, 1, 1, mpi.comm, {failing});
            expect_failure(failed, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
            expect_complete(send(other, second, 0, size, 1, 1, mpi.comm));
            expect_complete(send(other, third, 0, size, 1, 1, mpi.comm));
        } else {
            const buffer_handle buffer = cl.filled(size, 9);
            const buffer_handle last = cl.filled(size, 9);
            const event_handle first = receive(queue, buffer, 0, size, 0, 1, mpi.comm);
            const event_handle behind = receive(queue, buffer, 0, size, 0, 1, mpi.comm);
            wait_for(first);
            wait_for(behind);
            expect_complete(receive(other, last, 0, size, 0, 1, mpi.comm));
            cl.expect(last, 0, size, 3);
        }
    }
}

MPI_CASE("a send-receive whose wait list fails also fails its receiver, and drops its message", 2) {
    const opencl cl;
    for (const queue_set &queues : cl.independent_queues(2)) {
        CAPTURE(queues.kind);
        const buffer_handle outgoing = cl.filled(70000, static_cast<std::uint64_t>(mpi.rank));
        const buffer_handle incoming = cl.filled(70000, 9);
        if (mpi.rank == 0) {
            const event_handle gate = cl.user_event();
            const cl_event list[] = {gate};
            event_handle event;
            CL_OK(clEnqueueSendrecvBuffer(queues[0], outgoing, CL_FALSE, 0, 70000, 1, 1, incoming,
                                          0, 70000, 1, 1, mpi.comm, 1, list, event.out()));
            CL_OK(clSetUserEventStatus(gate, -77));
            expect_failure(event, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
            cl.expect(incoming, 0, 70000, 9);
        } else if (mpi.rank == 1) {
            event_handle event;
            CL_OK(clEnqueueSendrecvBuffer(queues[0], outgoing, CL_FALSE, 0, 70000, 0, 1, incoming,
                                          0, 70000, 0, 1, mpi.comm, 0, nullptr, event.out()));
            expect_failure(event, CL_PEER_TRANSFER_FAILED);
            cl.expect(incoming, 0, 70000, 9);
        }
        if (mpi.rank < 2) {
            event_handle event;
            CL_OK(clEnqueueSendrecvBuffer(queues[1], outgoing, CL_FALSE, 0, 70000, 1 - mpi.rank, 1,
                                          incoming, 0, 70000, 1 - mpi.rank, 1, mpi.comm, 0, nullptr,
                                          event.out()));
            expect_received(event, 70000, 1 - mpi.rank, 1);
            cl.expect(incoming, 0, 70000, static_cast<std::uint64_t>(1 - mpi.rank));
        }
    }
}

MPI_CASE("commands that wait for a failed transfer do not run", 2) {
    const opencl cl;
    for (const queue_set &queues : cl.independent_queues(2)) {
        CAPTURE(queues.kind);
        const buffer_handle buffer = cl.filled(1000, 1);
        if (mpi.rank == 0) {
            const buffer_handle longer = cl.filled(2000, 2);
            expect_complete(send(queues[0], longer, 0, 2000, 1, 1, mpi.comm));
        } else if (mpi.rank == 1) {
            const event_handle gate = cl.user_event();
            const event_handle failed = receive(queues[0], buffer, 0, 1000, 0, 1, mpi.comm, {gate});
            const unsigned char value = 3;
            const cl_event list[] = {failed};
            event_handle fill;
            CL_OK(clEnqueueFillBuffer(queues[1], buffer, &value, 1, 0, 1000, 1, list, fill.out()));
            CL_OK(clFlush(queues[1]));
            CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
            expect_failure(failed, CL_MESSAGE_TRUNCATED);
            expect_failed(fill);
            cl.expect(buffer, 0, 1000, 1);
        }
    }
}

MPI_CASE("a command may fail while later commands of its queue are enqueued", 2) {
    if (mpi.rank > 1) return;
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.buffer(128);
    std::minstd_rand delays(static_cast<unsigned>(77 + mpi.rank));
    // PoCL aborted within 1,600 rounds, but only with a pause at their ends.
    for (int round = 0; round < 2000; ++round) {
        round_trip(mpi);
        const std::chrono::microseconds delay(delays() % 150);
        std::vector<event_handle> events;
        if (mpi.rank == 0) {
            const event_handle gate = cl.user_event();
            events.push_back(send(queue, buffer, 0, 64, 1, 1, mpi.comm, {gate}));
            CL_OK(clFlush(queue));
            std::this_thread::sleep_for(delay);
            CL_OK(clSetUserEventStatus(gate, -5));
        } else {
            std::this_thread::sleep_for(delay);
            events.push_back(receive(queue, buffer, 0, 64, 0, 1, mpi.comm));
            for (int i = 0; i < 5; ++i)
                events.push_back(receive(queue, buffer, 64, 64, MPI_PROC_NULL, 0, mpi.comm));
        }
        CL_OK(clFlush(queue));
        for (const cl_event event : events) static_cast<void>(clWaitForEvents(1, &event));
        static_cast<void>(clFinish(queue));
        REQUIRE(transfer_info<cl_int>(events.front(), CL_TRANSFER_STATUS) < 0);
        std::this_thread::sleep_for(std::chrono::microseconds(1500));
    }
}
