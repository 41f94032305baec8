/// Wait lists that fail while a blocking call waits for them, or while the progress thread starts
/// commands. The library calls this program's own clWaitForEvents and PMPI_Isend instead of the
/// platform's and MPI's, so the test knows when the call waits, and can stop the progress thread.

#include <dlfcn.h>

#include <atomic>
#include <future>
#include <semaphore>
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

/// While the object exists, other threads wait in PMPI_Isend for let_pass().
class stopped_sends {
public:
    stopped_sends() { stops = true; }
    ~stopped_sends() {
        stops = false;
        let_pass();
    }
    stopped_sends(const stopped_sends &) = delete;
    stopped_sends &operator=(const stopped_sends &) = delete;

    static void await_thread() {
        poll_until("the progress thread to send", [] { return arrived.try_acquire(); });
    }
    static void let_pass() { passes.release(); }
    static void call() {
        if (!stops || std::this_thread::get_id() == tester) return;
        arrived.release();
        passes.acquire();
    }

private:
    static inline const std::thread::id tester = std::this_thread::get_id();
    static inline std::atomic<bool> stops = false;
    static inline std::counting_semaphore<> arrived{0};
    static inline std::counting_semaphore<> passes{0};
};

}  // namespace

extern "C" int PMPI_Isend(const void *data, int count, MPI_Datatype type, int dest, int tag,
                          MPI_Comm comm, MPI_Request *request) {
    stopped_sends::call();
    static const auto real =
        reinterpret_cast<decltype(&PMPI_Isend)>(dlsym(RTLD_NEXT, "PMPI_Isend"));
    return real(data, count, type, dest, tag, comm, request);
}

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

MPI_CASE("a failed send does not overtake a send of its queue that is about to start", 2) {
    const opencl cl;
    if (!cl.is_cpu()) skip_case("GPUs report failures later");
    constexpr std::size_t size = 5000;
    std::vector<queue_handle> queues;
    std::vector<buffer_handle> buffers;
    for (std::uint64_t i = 0; i < 5; ++i) {
        queues.push_back(cl.in_order_queue());
        buffers.push_back(cl.filled(size, mpi.rank == 0 ? i : 9));
    }
    if (mpi.rank == 0) {
        const event_handle first = cl.user_event(), later = cl.user_event(), bad = cl.user_event();
        const auto enqueue = [&](std::size_t queue, std::size_t buffer, int tag, wait_list gate) {
            return send(queues[queue], buffers[buffer], 0, size, 1, tag, mpi.comm, gate);
        };
        const event_handle one = enqueue(0, 0, 1, {first});
        const event_handle two = enqueue(1, 1, 2, {later});
        const event_handle good = enqueue(2, 2, 3, {later});
        const event_handle failed = enqueue(2, 3, 3, {bad});
        event_handle last;
        {
            const stopped_sends sends;
            CL_OK(clSetUserEventStatus(first, CL_COMPLETE));
            sends.await_thread();
            // The progress thread then starts both commands in one round.
            CL_OK(clSetUserEventStatus(later, CL_COMPLETE));
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            sends.let_pass();
            sends.await_thread();
            CL_OK(clSetUserEventStatus(bad, -77));
            last = enqueue(3, 4, 3, {});
        }
        for (const cl_event event : {one.get(), two.get(), good.get(), last.get()})
            expect_complete(event);
        expect_failed(failed);
    } else if (mpi.rank == 1) {
        std::vector<event_handle> received;
        for (const int tag : {1, 2, 3, 3, 3}) {
            const std::size_t i = received.size();
            received.push_back(receive(queues[i], buffers[i], 0, size, 0, tag, mpi.comm));
            await_start(received.back());
        }
        for (const std::size_t i : {0U, 1U, 2U, 4U}) {
            expect_complete(received[i]);
            cl.expect(buffers[i], 0, size, i);
        }
        expect_failure(received[3], CL_PEER_TRANSFER_FAILED);
    }
}

MPI_CASE("a send between failed sends of its queue keeps its position", 2) {
    const opencl cl;
    if (!cl.is_cpu()) skip_case("on GPUs, all commands behind a failed one may fail");
    // The progress thread must see one start before another, which is likely in each round.
    for (int round = 0; round < 8; ++round) {
        constexpr std::size_t size = 5000;
        const queue_handle queue = cl.in_order_queue();
        std::vector<buffer_handle> buffers;
        for (std::uint64_t i = 0; i < 4; ++i)
            buffers.push_back(cl.filled(size, mpi.rank == 0 ? i : 9));
        if (mpi.rank == 0) {
            const event_handle first = cl.user_event(), bad = cl.user_event(),
                               worse = cl.user_event();
            const auto enqueue = [&](std::size_t i, wait_list gate) {
                return send(queue, buffers[i], 0, size, 1, 1, mpi.comm, gate);
            };
            const event_handle one = enqueue(0, {first});
            const event_handle two = enqueue(1, {bad});
            CL_OK(clSetUserEventStatus(bad, -77));
            const event_handle three = enqueue(2, {});
            const event_handle four = enqueue(3, {worse});
            CL_OK(clSetUserEventStatus(worse, -77));
            // The platform completes the start of the third command before that of the first one.
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            CL_OK(clSetUserEventStatus(first, CL_COMPLETE));
            await_start(one);
            expect_complete(one);
            expect_complete(three);
            expect_failed(two);
            expect_failed(four);
        } else if (mpi.rank == 1) {
            std::vector<event_handle> received;
            std::vector<queue_handle> own;
            for (const buffer_handle &buffer : buffers) {
                own.push_back(cl.in_order_queue());
                received.push_back(receive(own.back(), buffer, 0, size, 0, 1, mpi.comm));
                await_start(received.back());
            }
            for (const std::size_t i : {0U, 2U}) {
                expect_complete(received[i]);
                cl.expect(buffers[i], 0, size, i);
            }
            for (const std::size_t i : {1U, 3U})
                expect_failure(received[i], CL_PEER_TRANSFER_FAILED);
        }
    }
}

MPI_CASE("a blocking send behind a failed send starts after the sends before that one", 2) {
    const opencl cl;
    if (!cl.is_cpu()) skip_case("on GPUs, all commands behind a failed one may fail");
    constexpr std::size_t size = 5000;
    for (const bool wants_event : {true, false}) {
        CAPTURE(wants_event);
        std::vector<queue_handle> queues;
        std::vector<buffer_handle> buffers;
        for (std::uint64_t i = 0; i < 3; ++i) {
            queues.push_back(cl.in_order_queue());
            buffers.push_back(cl.filled(size, mpi.rank == 0 ? i : 9));
        }
        if (mpi.rank == 0) {
            const event_handle first = cl.user_event(), bad = cl.user_event();
            const auto enqueue = [&](std::size_t i, wait_list gate) {
                return send(queues[0], buffers[i], 0, size, 1, 1, mpi.comm, gate);
            };
            const event_handle one = enqueue(0, {first});
            const event_handle two = enqueue(1, {bad});
            CL_OK(clSetUserEventStatus(bad, -77));
            event_handle event;
            {
                const std::jthread setter([&] {
                    std::this_thread::sleep_for(std::chrono::milliseconds(100));
                    clSetUserEventStatus(first, CL_COMPLETE);
                });
                CL_OK(clEnqueueSendBuffer(queues[0], buffers[2], CL_TRUE, 0, size, 1, 1, mpi.comm,
                                          0, nullptr, wants_event ? event.out() : nullptr));
            }
            expect_complete(one);
            expect_failed(two);
        } else if (mpi.rank == 1) {
            std::vector<event_handle> received;
            for (std::size_t i = 0; i < 3; ++i) {
                received.push_back(receive(queues[i], buffers[i], 0, size, 0, 1, mpi.comm));
                await_start(received.back());
            }
            for (const std::size_t i : {0U, 2U}) {
                expect_complete(received[i]);
                cl.expect(buffers[i], 0, size, i);
            }
            expect_failure(received[1], CL_PEER_TRANSFER_FAILED);
        }
    }
}
