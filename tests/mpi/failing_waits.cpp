/// Wait lists that fail while a blocking call waits for them. The library calls this program's own
/// clWaitForEvents instead of the platform's, so the test knows when the call waits.

#include <dlfcn.h>

#include <future>
#include <thread>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

/// The next call of clWaitForEvents in this thread fulfils this promise.
thread_local std::promise<void> *waits = nullptr;

/// Fails `event` once the thread that created this object calls clWaitForEvents.
class fails_during_wait {
public:
    explicit fails_during_wait(cl_event event)
        : setter([event, begun = now.get_future()] {
              begun.wait();
              clSetUserEventStatus(event, -77);
          }) {
        waits = &now;
    }
    ~fails_during_wait() {
        // The call did not wait. Its result shows that; the other thread must end.
        if (std::exchange(waits, nullptr) != nullptr) {
            now.set_value();
        }
    }
    fails_during_wait(const fails_during_wait &) = delete;
    fails_during_wait &operator=(const fails_during_wait &) = delete;

private:
    std::promise<void> now;
    std::jthread setter;
};

}  // namespace

extern "C" cl_int clWaitForEvents(cl_uint count, const cl_event *events) {
    if (waits != nullptr) {
        std::exchange(waits, nullptr)->set_value();
    }
    static const auto real =
        reinterpret_cast<decltype(&clWaitForEvents)>(dlsym(RTLD_NEXT, "clWaitForEvents"));
    return real(count, events);
}

MPI_CASE(
    "a blocking send whose wait list fails while it waits returns the error, and its receiver "
    "fails",
    2) {
    const opencl cl;
    for (const bool wants_event : {true, false}) {
        CAPTURE(wants_event);
        for (const queue_set &queues : cl.independent_queues(2)) {
            CAPTURE(queues.kind);
            const buffer_handle buffer = cl.filled(5000, static_cast<std::uint64_t>(mpi.rank));
            if (mpi.rank == 0) {
                const event_handle gate = cl.user_event();
                const cl_event list[] = {gate};
                event_handle event;
                cl_int code = CL_SUCCESS;
                {
                    const fails_during_wait failing(gate);
                    code = clEnqueueSendBuffer(queues[0], buffer, CL_TRUE, 0, 5000, 1, 1, mpi.comm,
                                               1, list, wants_event ? event.out() : nullptr);
                }
                CHECK(code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
                expect_complete(send(queues[1], buffer, 0, 5000, 1, 1, mpi.comm));
            } else if (mpi.rank == 1) {
                expect_failure(receive(queues[0], buffer, 0, 5000, 0, 1, mpi.comm),
                               CL_PEER_TRANSFER_FAILED);
                cl.expect(buffer, 0, 5000, 1);
                expect_received(receive(queues[1], buffer, 0, 5000, 0, 1, mpi.comm), 5000, 0, 1);
                cl.expect(buffer, 0, 5000, 0);
            }
        }
    }
}

MPI_CASE(
    "a blocking receive whose wait list fails while it waits returns the error and drops its "
    "message",
    2) {
    const opencl cl;
    for (const queue_set &queues : cl.independent_queues(2)) {
        CAPTURE(queues.kind);
        if (mpi.rank == 1) {
            const buffer_handle buffer = cl.filled(5000, 9);
            const event_handle gate = cl.user_event();
            const cl_event list[] = {gate};
            cl_int code = CL_SUCCESS;
            {
                const fails_during_wait failing(gate);
                code = clEnqueueRecvBuffer(queues[0], buffer, CL_TRUE, 0, 5000, 0, 1, mpi.comm, 1,
                                           list, nullptr);
            }
            CHECK(code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
            const buffer_handle next = cl.filled(5000, 9);
            const event_handle received = receive(queues[1], next, 0, 5000, 0, 1, mpi.comm);
            tell(mpi, 0);
            expect_received(received, 5000, 0, 1);
            cl.expect(next, 0, 5000, 2);
            cl.expect(buffer, 0, 5000, 9);
        } else if (mpi.rank == 0) {
            const buffer_handle first = cl.filled(5000, 1);
            const buffer_handle second = cl.filled(5000, 2);
            await(mpi, 1);
            const event_handle one = send(queues[0], first, 0, 5000, 1, 1, mpi.comm);
            await_start(one);
            const event_handle two = send(queues[1], second, 0, 5000, 1, 1, mpi.comm);
            expect_complete(one);
            expect_complete(two);
        }
    }
}

MPI_CASE("a blocking send whose wait list failed before the call also fails its receiver", 2) {
    const opencl cl;
    for (const bool wants_event : {true, false}) {
        CAPTURE(wants_event);
        for (const queue_set &queues : cl.independent_queues(1)) {
            CAPTURE(queues.kind);
            const buffer_handle buffer = cl.filled(5000, static_cast<std::uint64_t>(mpi.rank));
            if (mpi.rank == 0) {
                const event_handle gate = cl.user_event();
                const cl_event list[] = {gate};
                CL_OK(clSetUserEventStatus(gate, -77));
                cl_event event = nullptr;
                CHECK(clEnqueueSendBuffer(queues[0], buffer, CL_TRUE, 0, 5000, 1, 1, mpi.comm, 1,
                                          list, wants_event ? &event : nullptr) ==
                      CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
                CHECK(event == nullptr);
                CHECK(clEnqueueSendBuffer(queues[0], buffer, CL_TRUE, 0, 5000, MPI_PROC_NULL, 1,
                                          mpi.comm, 1, list, wants_event ? &event : nullptr) ==
                      CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
                CHECK(event == nullptr);
                expect_complete(send(queues[0], buffer, 0, 5000, 1, 1, mpi.comm));
            } else if (mpi.rank == 1) {
                expect_failure(receive(queues[0], buffer, 0, 5000, 0, 1, mpi.comm),
                               CL_PEER_TRANSFER_FAILED);
                cl.expect(buffer, 0, 5000, 1);
                expect_received(receive(queues[0], buffer, 0, 5000, 0, 1, mpi.comm), 5000, 0, 1);
                cl.expect(buffer, 0, 5000, 0);
            }
        }
    }
}

MPI_CASE("a blocking receive whose wait list failed before the call also drops its message", 2) {
    const opencl cl;
    for (const queue_set &queues : cl.independent_queues(1)) {
        CAPTURE(queues.kind);
        if (mpi.rank == 1) {
            const buffer_handle buffer = cl.filled(5000, 9);
            const event_handle gate = cl.user_event();
            const cl_event list[] = {gate};
            CL_OK(clSetUserEventStatus(gate, -77));
            CHECK(clEnqueueRecvBuffer(queues[0], buffer, CL_TRUE, 0, 5000, 0, 1, mpi.comm, 1, list,
                                      nullptr) == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
            expect_received(receive(queues[0], buffer, 0, 5000, 0, 1, mpi.comm), 5000, 0, 1);
            cl.expect(buffer, 0, 5000, 2);
        } else if (mpi.rank == 0) {
            const buffer_handle first = cl.filled(5000, 1);
            const buffer_handle second = cl.filled(5000, 2);
            expect_complete(send(queues[0], first, 0, 5000, 1, 1, mpi.comm));
            expect_complete(send(queues[0], second, 0, 5000, 1, 1, mpi.comm));
        }
    }
}

MPI_CASE(
    "a blocking send-receive whose wait list failed before the call fails its receiver and drops "
    "its message",
    2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle outgoing = cl.filled(5000, static_cast<std::uint64_t>(mpi.rank));
    const buffer_handle incoming = cl.filled(5000, 9);
    const int peer = 1 - mpi.rank;
    if (mpi.rank == 0) {
        const event_handle gate = cl.user_event();
        const cl_event list[] = {gate};
        CL_OK(clSetUserEventStatus(gate, -77));
        CHECK(clEnqueueSendrecvBuffer(queue, outgoing, CL_TRUE, 0, 5000, peer, 1, incoming, 0, 5000,
                                      peer, 1, mpi.comm, 1, list,
                                      nullptr) == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    } else if (mpi.rank == 1) {
        event_handle event;
        CL_OK(clEnqueueSendrecvBuffer(queue, outgoing, CL_FALSE, 0, 5000, peer, 1, incoming, 0,
                                      5000, peer, 1, mpi.comm, 0, nullptr, event.out()));
        expect_failure(event, CL_PEER_TRANSFER_FAILED);
    }
    if (mpi.rank < 2) {
        CL_OK(clEnqueueSendrecvBuffer(queue, outgoing, CL_TRUE, 0, 5000, peer, 1, incoming, 0, 5000,
                                      peer, 1, mpi.comm, 0, nullptr, nullptr));
        cl.expect(incoming, 0, 5000, static_cast<std::uint64_t>(peer));
    }
}
