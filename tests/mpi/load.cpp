/// Many commands at once, both directions at once, and no commands at all.

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

constexpr std::size_t slot = 16;

/// Number of commands in flight. Lower for GPUs, because NVIDIA's driver takes 1 to 26 ms to
/// enqueue a command behind 1,000 pending user events.
int how_many(const opencl &cl) { return cl.is_cpu() ? 10000 : 300; }

/// All receives are enqueued before the first send.
void many_commands(const mpi_view &mpi, const opencl &cl, cl_command_queue queue,
                   bool distinct_tags) {
    const int many = how_many(cl);
    const buffer_handle buffer =
        cl.filled(slot * static_cast<std::size_t>(many), static_cast<std::uint64_t>(mpi.rank));
    std::vector<event_handle> events;
    events.reserve(static_cast<std::size_t>(many));
    if (mpi.rank == 1) {
        for (int i = 0; i < many; ++i) {
            events.push_back(receive(queue, buffer, slot * static_cast<std::size_t>(i), slot, 0,
                                     distinct_tags ? i : 1, mpi.comm));
        }
        tell(mpi, 0);
    } else if (mpi.rank == 0) {
        await(mpi, 1);
        for (int i = 0; i < many; ++i) {
            // With distinct tags, the messages arrive in the reverse order of the receives.
            const int n = distinct_tags ? many - 1 - i : i;
            events.push_back(send(queue, buffer, slot * static_cast<std::size_t>(n), slot, 1,
                                  distinct_tags ? n : 1, mpi.comm));
        }
    }
    int wrong = 0;
    for (const event_handle &event : events) {
        wrong += wait_for(event, std::chrono::seconds(55)) == CL_COMPLETE ? 0 : 1;
    }
    CHECK(wrong == 0);
    if (mpi.rank == 1) {
        cl.expect(buffer, 0, slot * static_cast<std::size_t>(many), 0);
    }
}

/// How often the library's threads (cldist-*) have been scheduled, from the kernel's statistics.
long times_run() {
    long times = 0;
    for (const auto &thread : std::filesystem::directory_iterator("/proc/self/task")) {
        std::string name;
        std::getline(std::ifstream(thread.path() / "comm"), name);
        if (name.rfind("cldist-", 0) != 0) {
            continue;
        }
        long running_ns = 0;
        long waiting_ns = 0;
        long count = 0;
        std::ifstream(thread.path() / "schedstat") >> running_ns >> waiting_ns >> count;
        times += count;
    }
    return times;
}

}  // namespace

MPI_CASE("10,000 commands with distinct tags are in flight on an out-of-order queue", 2) {
    const opencl cl;
    const queue_handle queue = cl.out_of_order_queue();
    many_commands(mpi, cl, queue, true);
}

MPI_CASE(
    "10,000 commands with one tag are in flight on an out-of-order queue, and keep their order",
    2) {
    const opencl cl;
    const queue_handle queue = cl.out_of_order_queue();
    many_commands(mpi, cl, queue, false);
}

MPI_CASE("10,000 commands with one tag are in flight on an in-order queue", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    many_commands(mpi, cl, queue, false);
}

MPI_CASE("5,000 messages too large to be sent eagerly are in flight, and received in reverse order",
         2) {
    const opencl cl;
    const queue_handle queue = cl.out_of_order_queue();
    constexpr std::size_t size = 12 * 1024;
    const int many = how_many(cl) / 2;
    const buffer_handle buffer = cl.filled(size, static_cast<std::uint64_t>(mpi.rank));
    if (mpi.rank >= 2) {
        return;
    }
    std::vector<event_handle> events;
    if (mpi.rank == 0) {
        for (int i = 0; i < many; ++i) {
            events.push_back(send(queue, buffer, 0, size, 1, i, mpi.comm));
        }
        for (const event_handle &event : events) {
            await_start(event);
        }
        tell(mpi, 1);
    } else {
        await(mpi, 0);
        for (int i = many; i-- > 0;) {
            events.push_back(receive(queue, buffer, 0, size, 0, i, mpi.comm));
        }
    }
    int wrong = 0;
    for (const event_handle &event : events) {
        wrong += wait_for(event, std::chrono::seconds(55)) == CL_COMPLETE ? 0 : 1;
    }
    CHECK(wrong == 0);
    cl.expect(buffer, 0, size, 0);
}

MPI_CASE("10,000 commands wait for an event that fails, and all of them fail", 1) {
    const opencl cl;
    const queue_handle queue = cl.out_of_order_queue();
    const int many = how_many(cl) / 2;
    const buffer_handle buffer = cl.buffer(slot);
    const event_handle gate = cl.user_event();
    std::vector<event_handle> events;
    for (int i = 0; i < many; ++i) {
        events.push_back(receive(queue, buffer, 0, slot, mpi.rank, i, mpi.comm, {gate}));
        events.push_back(send(queue, buffer, 0, slot, mpi.rank, i, mpi.comm, {gate}));
    }
    CL_OK(clSetUserEventStatus(gate, -5));
    int wrong = 0;
    for (const event_handle &event : events) {
        wrong += wait_for(event, std::chrono::seconds(55)) < 0 ? 0 : 1;
    }
    CHECK(wrong == 0);
}

MPI_CASE("two processes send large messages to each other at once", 2) {
    const opencl cl;
    constexpr std::size_t size = 20 * MiB + 1;
    if (mpi.rank >= 2) {
        return;
    }
    const int peer = 1 - mpi.rank;
    const queue_handle sending = cl.in_order_queue();
    const queue_handle receiving = cl.in_order_queue();
    const buffer_handle outgoing = cl.filled(size, static_cast<std::uint64_t>(mpi.rank));
    const buffer_handle incoming = cl.buffer(size);
    const event_handle sent = send(sending, outgoing, 0, size, peer, 1, mpi.comm);
    const event_handle received = receive(receiving, incoming, 0, size, peer, 1, mpi.comm);
    expect_complete(sent);
    expect_received(received, size, peer, 1);
    cl.expect(incoming, 0, size, static_cast<std::uint64_t>(peer));
}

MPI_CASE("two processes send 8 large messages to each other at once, sends first", 2) {
    const opencl cl;
    constexpr std::size_t size = 4 * MiB;
    constexpr std::size_t count = 8;
    if (mpi.rank >= 2) {
        return;
    }
    const int peer = 1 - mpi.rank;
    for (const queue_set &queues : cl.independent_queues(2 * count)) {
        CAPTURE(queues.kind);
        const buffer_handle outgoing =
            cl.filled(size * count, static_cast<std::uint64_t>(mpi.rank));
        const buffer_handle incoming = cl.buffer(size * count);
        std::vector<event_handle> events;
        for (std::size_t i = 0; i < count; ++i) {
            events.push_back(send(queues[i], outgoing, i * size, size, peer, 1, mpi.comm));
            await_start(events.back());
        }
        for (std::size_t i = 0; i < count; ++i) {
            events.push_back(
                receive(queues[count + i], incoming, i * size, size, peer, 1, mpi.comm));
            await_start(events.back());
        }
        for (const event_handle &event : events) {
            expect_complete(event);
        }
        cl.expect(incoming, 0, size * count, static_cast<std::uint64_t>(peer));
    }
}

MPI_CASE("two processes exchange large messages with one send-receive each, blocking or not", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    if (mpi.rank >= 2) {
        return;
    }
    const int peer = 1 - mpi.rank;
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{9}, std::size_t{100000}, 10 * MiB + 1}) {
        for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
            CAPTURE(size);
            CAPTURE(blocking);
            const buffer_handle buffer =
                cl.filled(2 * size + 1, static_cast<std::uint64_t>(mpi.rank));
            event_handle event;
            CL_OK(clEnqueueSendrecvBuffer(queue, buffer, blocking, 0, size, peer, 1, buffer, size,
                                          size, peer, 1, mpi.comm, 0, nullptr, event.out()));
            expect_received(event, size, peer, 1);
            CHECK(transfer_info<int>(event, CL_TRANSFER_DESTINATION) == peer);
            cl.expect(buffer, 0, size, static_cast<std::uint64_t>(mpi.rank));
            cl.expect(buffer, size, size, static_cast<std::uint64_t>(peer));
        }
    }
}

MPI_CASE("a ring of send-receives passes a message to all processes in a circle", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    constexpr std::size_t size = 2 * MiB + 5;
    const int next = (mpi.rank + 1) % mpi.size;
    const int previous = (mpi.rank + mpi.size - 1) % mpi.size;
    const buffer_handle buffers[2] = {cl.filled(size, static_cast<std::uint64_t>(mpi.rank)),
                                      cl.buffer(size)};
    std::vector<event_handle> events(static_cast<std::size_t>(mpi.size));
    // Enqueued without waiting: the queue keeps the order.
    for (std::size_t i = 0; i < events.size(); ++i) {
        CL_OK(clEnqueueSendrecvBuffer(queue, buffers[i % 2], CL_FALSE, 0, size, next, 1,
                                      buffers[(i + 1) % 2], 0, size, previous, 1, mpi.comm, 0,
                                      nullptr, events[i].out()));
    }
    for (const event_handle &event : events) {
        expect_complete(event);
    }
    cl.expect(buffers[events.size() % 2], 0, size, static_cast<std::uint64_t>(mpi.rank));
    mpi.barrier();
}

MPI_CASE("a send-receive may send to one rank and receive from another, or from none", 3) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    constexpr std::size_t size = MiB;
    const buffer_handle outgoing = cl.filled(size, static_cast<std::uint64_t>(mpi.rank));
    const buffer_handle incoming = cl.filled(size, 99);
    const int next = mpi.rank + 1 < mpi.size ? mpi.rank + 1 : MPI_PROC_NULL;
    const int previous = mpi.rank > 0 ? mpi.rank - 1 : MPI_PROC_NULL;
    event_handle event;
    CL_OK(clEnqueueSendrecvBuffer(queue, outgoing, CL_FALSE, 0, size, next, 1, incoming, 0, size,
                                  previous, 1, mpi.comm, 0, nullptr, event.out()));
    expect_complete(event);
    CHECK(transfer_info<int>(event, CL_TRANSFER_SOURCE) == previous);
    CHECK(transfer_info<int>(event, CL_TRANSFER_DESTINATION) == next);
    cl.expect(incoming, 0, size,
              previous == MPI_PROC_NULL ? 99 : static_cast<std::uint64_t>(previous));
}

MPI_CASE("the library's threads sleep when there is nothing to do", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(MiB, static_cast<std::uint64_t>(mpi.rank));
    if (mpi.rank == 0) {
        expect_complete(send(queue, buffer, 0, MiB, 1, 1, mpi.comm));
    } else if (mpi.rank == 1) {
        expect_complete(receive(queue, buffer, 0, MiB, 0, 1, mpi.comm));
    }
    if (times_run() == 0) {
        skip_case("the system does not count how often threads run");
    }
    poll_until("the library's threads to sleep for half a second", [] {
        const long before = times_run();
        std::this_thread::sleep_for(std::chrono::milliseconds(500));  // the measured interval
        return times_run() == before;
    });
}
