/// MPI's rules of matching: source, tag, communicator, threads.

#include <set>
#include <thread>

#include "transfers.hpp"

using namespace cldist_test;

MPI_CASE("a receive posted before its send completes with the sender's bytes", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    for (const std::size_t size : {10UL, 100000UL, 3UL << 20}) {
        CAPTURE(size);
        const buffer_handle buffer = cl.filled(size, static_cast<std::uint64_t>(mpi.rank));
        if (mpi.rank == 1) {
            const event_handle received = receive(queue, buffer, 0, size, 0, 1, mpi.comm);
            await_start(received);
            tell(mpi, 0);
            expect_received(received, size, 0, 1);
            cl.expect(buffer, 0, size, 0);
        } else if (mpi.rank == 0) {
            await(mpi, 1);
            expect_complete(send(queue, buffer, 0, size, 1, 1, mpi.comm));
        }
    }
}

MPI_CASE("a receive posted after its message arrived completes with the sender's bytes", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    for (const std::size_t size : {10UL, 100000UL, 3UL << 20}) {
        CAPTURE(size);
        const buffer_handle buffer = cl.filled(size, static_cast<std::uint64_t>(mpi.rank));
        if (mpi.rank == 0) {
            expect_complete(send(queue, buffer, 0, size, 1, 1, mpi.comm));
        } else if (mpi.rank == 1) {
            poll_until("the message", [&] {
                int found = 0;
                MPI_Iprobe(0, 1, mpi.comm, &found, MPI_STATUS_IGNORE);
                return found != 0;
            });
            expect_received(receive(queue, buffer, 0, size, 0, 1, mpi.comm), size, 0, 1);
            cl.expect(buffer, 0, size, 0);
        }
    }
}

MPI_CASE("messages are matched by their tags, whatever the order of the receives", 2) {
    const opencl cl;
    constexpr int count = 10;
    for (const queue_set &queues : cl.independent_queues(count)) {
        CAPTURE(queues.kind);
        std::vector<buffer_handle> buffers;
        std::vector<event_handle> events;
        for (int i = 0; i < count; ++i) {
            const int tag = mpi.rank == 0 ? i : count - 1 - i;
            const std::size_t size = 1000U + 30000U * static_cast<unsigned>(tag);
            buffers.push_back(
                cl.filled(size, mpi.rank == 0 ? static_cast<std::uint64_t>(tag) : 99));
            if (mpi.rank == 0) {
                events.push_back(
                    send(queues[events.size()], buffers.back(), 0, size, 1, tag, mpi.comm));
            } else if (mpi.rank == 1) {
                events.push_back(
                    receive(queues[events.size()], buffers.back(), 0, size, 0, tag, mpi.comm));
            }
        }
        for (std::size_t i = 0; i < events.size(); ++i) {
            expect_complete(events[i]);
            if (mpi.rank == 1) {
                const std::size_t tag = count - 1 - i;
                expect_received(events[i], 1000 + 30000 * tag, 0, static_cast<int>(tag));
                cl.expect(buffers[i], 0, 1000 + 30000 * tag, tag);
            }
        }
    }
}

MPI_CASE("a receive from any source accepts messages of all ranks and reports the sender", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    constexpr std::size_t size = 100000;
    if (mpi.rank != 0) {
        const buffer_handle buffer = cl.filled(size, static_cast<std::uint64_t>(mpi.rank));
        expect_complete(
            send(queue, buffer, 0, size - static_cast<unsigned>(mpi.rank), 0, 6, mpi.comm));
        return;
    }
    std::set<int> senders;
    for (int i = 1; i < mpi.size; ++i) {
        const buffer_handle buffer = cl.buffer(size);
        const event_handle received = receive(queue, buffer, 0, size, MPI_ANY_SOURCE, 6, mpi.comm);
        expect_complete(received);
        const int source = transfer_info<int>(received, CL_TRANSFER_SOURCE);
        REQUIRE(source > 0);
        CHECK(senders.insert(source).second);
        expect_received(received, size - static_cast<unsigned>(source), source, 6);
        cl.expect(buffer, 0, size - static_cast<unsigned>(source),
                  static_cast<std::uint64_t>(source));
    }
}

MPI_CASE("a receive of any tag accepts messages in their order and reports the tag", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.buffer(100000);
    for (const int tag : {3, 0, 17, 4}) {
        const std::size_t size = 20000U * static_cast<unsigned>(tag % 5);
        if (mpi.rank == 0) {
            cl.fill(buffer, 0, size, static_cast<std::uint64_t>(tag));
            expect_complete(send(queue, buffer, 0, size, 1, tag, mpi.comm));
        } else if (mpi.rank == 1) {
            expect_received(receive(queue, buffer, 0, 100000, 0, MPI_ANY_TAG, mpi.comm), size, 0,
                            tag);
            cl.expect(buffer, 0, size, static_cast<std::uint64_t>(tag));
        }
    }
}

MPI_CASE("a receive from any source and of any tag gets every message once", 2) {
    const opencl cl;
    constexpr int each = 5;
    const int count = mpi.rank == 0 ? each * (mpi.size - 1) : each;
    for (const queue_set &queues : cl.independent_queues(static_cast<std::size_t>(count))) {
        CAPTURE(queues.kind);
        mpi.barrier();  // no receive from any source gets a message of the next round
        if (mpi.rank != 0) {
            std::vector<buffer_handle> buffers;
            std::vector<event_handle> events;
            for (int i = 0; i < count; ++i) {
                buffers.push_back(cl.filled(50000, static_cast<std::uint64_t>(mpi.rank * 100 + i)));
                events.push_back(send(queues[events.size()], buffers.back(), 0, 50000, 0,
                                      mpi.rank * 100 + i, mpi.comm));
            }
            for (const event_handle &event : events) {
                expect_complete(event);
            }
            continue;
        }
        std::set<int> tags;
        std::vector<buffer_handle> buffers;
        std::vector<event_handle> events;
        for (int i = 0; i < count; ++i) {
            buffers.push_back(cl.buffer(50000));
            events.push_back(receive(queues[events.size()], buffers.back(), 0, 50000,
                                     MPI_ANY_SOURCE, MPI_ANY_TAG, mpi.comm));
        }
        for (std::size_t i = 0; i < events.size(); ++i) {
            expect_complete(events[i]);
            const int tag = transfer_info<int>(events[i], CL_TRANSFER_TAG);
            CHECK(transfer_info<int>(events[i], CL_TRANSFER_SOURCE) == tag / 100);
            CHECK(tags.insert(tag).second);
            cl.expect(buffers[i], 0, 50000, static_cast<std::uint64_t>(tag));
        }
    }
}

MPI_CASE("the highest tag that MPI allows works", 2) {
    int *highest = nullptr;
    int found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &highest, &found);
    REQUIRE(found != 0);
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(100000, static_cast<std::uint64_t>(mpi.rank));
    if (mpi.rank == 0) {
        expect_complete(send(queue, buffer, 0, 100000, 1, *highest, mpi.comm));
    } else if (mpi.rank == 1) {
        expect_received(receive(queue, buffer, 0, 100000, 0, *highest, mpi.comm), 100000, 0,
                        *highest);
        cl.expect(buffer, 0, 100000, 0);
    }
}

MPI_CASE("equal tags on two communicators do not mix", 2) {
    const opencl cl;
    MPI_Comm second = MPI_COMM_NULL;
    MPI_Comm_dup(mpi.comm, &second);
    constexpr std::size_t size = 80000;
    for (const queue_set &queues : cl.independent_queues(2)) {
        CAPTURE(queues.kind);
        const buffer_handle one = cl.filled(size, mpi.rank == 0 ? 1 : 9);
        const buffer_handle two = cl.filled(size, mpi.rank == 0 ? 2 : 9);
        if (mpi.rank == 0) {
            const event_handle first_sent = send(queues[0], one, 0, size, 1, 1, mpi.comm);
            const event_handle second_sent = send(queues[1], two, 0, size, 1, 1, second);
            expect_complete(first_sent);
            expect_complete(second_sent);
        } else if (mpi.rank == 1) {
            const event_handle second_received = receive(queues[0], two, 0, size, 0, 1, second);
            const event_handle first_received = receive(queues[1], one, 0, size, 0, 1, mpi.comm);
            expect_received(second_received, size, 0, 1);
            expect_received(first_received, size, 0, 1);
            cl.expect(one, 0, size, 1);
            cl.expect(two, 0, size, 2);
        }
    }
    MPI_Comm_free(&second);
}

MPI_CASE("ranks are those of the given communicator: halves, and the reverse order", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    constexpr std::size_t size = 100000;
    // Colour 0: all ranks in reverse order. Colour rank % 2: even and odd ranks, also reversed.
    for (const int color : {0, mpi.rank % 2}) {
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Comm_split(mpi.comm, color, -mpi.rank, &comm);
        int rank = 0;
        int count = 0;
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &count);
        const int next = (rank + 1) % count;
        const int previous = (rank + count - 1) % count;
        const buffer_handle outgoing = cl.filled(size, static_cast<std::uint64_t>(rank));
        const buffer_handle incoming = cl.buffer(size);
        event_handle event;
        CL_OK(clEnqueueSendrecvBuffer(queue, outgoing, CL_FALSE, 0, size, next, 1, incoming, 0,
                                      size, previous, 1, comm, 0, nullptr, event.out()));
        expect_received(event, size, previous, 1);
        cl.expect(incoming, 0, size, static_cast<std::uint64_t>(previous));
        CHECK(clEnqueueSendBuffer(queue, outgoing, CL_FALSE, 0, size, count, 1, comm, 0, nullptr,
                                  nullptr) == CL_INVALID_RANK);
        MPI_Comm_free(&comm);
    }
}

MPI_CASE("a split communicator receives from any source", 3) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(100000, static_cast<std::uint64_t>(mpi.rank));
    MPI_Comm comm = MPI_COMM_NULL;
    // all ranks except rank 0, in reverse order
    MPI_Comm_split(mpi.comm, mpi.rank == 0 ? MPI_UNDEFINED : 0, -mpi.rank, &comm);
    if (comm == MPI_COMM_NULL) {
        return;
    }
    int rank = 0;
    int count = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &count);
    if (rank == 0) {
        for (int i = 1; i < count; ++i) {
            const event_handle received =
                receive(queue, buffer, 0, 100000, MPI_ANY_SOURCE, MPI_ANY_TAG, comm);
            expect_complete(received);
            const int source = transfer_info<int>(received, CL_TRANSFER_SOURCE);
            CHECK(source == transfer_info<int>(received, CL_TRANSFER_TAG));
            cl.expect(buffer, 0, 100000, static_cast<std::uint64_t>(mpi.size - 1 - source));
        }
    } else {
        expect_complete(send(queue, buffer, 0, 100000, 0, rank, comm));
    }
    MPI_Comm_free(&comm);
}

MPI_CASE("ranks of an inter-communicator are those of the remote group", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    constexpr std::size_t size = 200000;
    // rank 0 alone in one group, all other ranks in the other
    const int side = mpi.rank == 0 ? 0 : 1;
    MPI_Comm local = MPI_COMM_NULL;
    MPI_Comm inter = MPI_COMM_NULL;
    MPI_Comm_split(mpi.comm, side, mpi.rank, &local);
    MPI_Intercomm_create(local, 0, mpi.comm, side == 0 ? 1 : 0, 11, &inter);
    if (side == 0) {
        for (int peer = 0; peer < mpi.size - 1; ++peer) {
            const buffer_handle buffer = cl.filled(size, static_cast<std::uint64_t>(peer));
            expect_complete(send(queue, buffer, 0, size, peer, 1, inter));
        }
        CHECK(clEnqueueSendBuffer(queue, cl.filled(1, 1), CL_FALSE, 0, 1, mpi.size - 1, 1, inter, 0,
                                  nullptr, nullptr) == CL_INVALID_RANK);
        for (int i = 0; i < mpi.size - 1; ++i) {
            const buffer_handle buffer = cl.buffer(size);
            const event_handle received = receive(queue, buffer, 0, size, MPI_ANY_SOURCE, 2, inter);
            expect_complete(received);
            cl.expect(
                buffer, 0, size,
                100 + static_cast<std::uint64_t>(transfer_info<int>(received, CL_TRANSFER_SOURCE)));
        }
    } else {
        int rank = 0;
        MPI_Comm_rank(local, &rank);
        const buffer_handle buffer = cl.buffer(size);
        expect_received(receive(queue, buffer, 0, size, 0, 1, inter), size, 0, 1);
        cl.expect(buffer, 0, size, static_cast<std::uint64_t>(rank));
        cl.fill(buffer, 0, size, 100 + static_cast<std::uint64_t>(rank));
        expect_complete(send(queue, buffer, 0, size, 0, 2, inter));
        CHECK(clEnqueueSendBuffer(queue, buffer, CL_FALSE, 0, 1, 1, 1, inter, 0, nullptr,
                                  nullptr) == CL_INVALID_RANK);
    }
    MPI_Comm_free(&inter);
    MPI_Comm_free(&local);
}

MPI_CASE("MPI_COMM_SELF carries messages of a process to itself", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle outgoing = cl.filled(100000, static_cast<std::uint64_t>(mpi.rank));
    const buffer_handle incoming = cl.buffer(100000);
    event_handle event;
    CL_OK(clEnqueueSendrecvBuffer(queue, outgoing, CL_FALSE, 0, 100000, 0, 1, incoming, 0, 100000,
                                  0, 1, MPI_COMM_SELF, 0, nullptr, event.out()));
    expect_received(event, 100000, 0, 1);
    cl.expect(incoming, 0, 100000, static_cast<std::uint64_t>(mpi.rank));
}

MPI_CASE("MPI_COMM_WORLD itself carries messages", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(100000, static_cast<std::uint64_t>(mpi.rank));
    if (mpi.rank == 0) {
        expect_complete(send(queue, buffer, 0, 100000, 1, 1, MPI_COMM_WORLD));
    } else if (mpi.rank == 1) {
        expect_received(receive(queue, buffer, 0, 100000, 0, 1, MPI_COMM_WORLD), 100000, 0, 1);
        cl.expect(buffer, 0, 100000, 0);
    }
}

MPI_CASE("messages between ranks other than 0 arrive as well", 4) {
    const opencl cl;
    constexpr std::size_t size = 150000;
    const auto ranks = static_cast<std::size_t>(mpi.size);
    for (const queue_set &queues : cl.independent_queues(2 * ranks)) {
        CAPTURE(queues.kind);
        std::vector<buffer_handle> buffers;
        std::vector<event_handle> sent;
        std::vector<event_handle> received;
        // all pairs of ranks, including a rank with itself
        for (int peer = 0; peer < mpi.size; ++peer) {
            buffers.push_back(cl.buffer(size));
            received.push_back(
                receive(queues[received.size()], buffers.back(), 0, size, peer, 1, mpi.comm));
        }
        const buffer_handle outgoing = cl.filled(size, static_cast<std::uint64_t>(mpi.rank));
        for (int peer = 0; peer < mpi.size; ++peer) {
            sent.push_back(send(queues[ranks + sent.size()], outgoing, 0, size, peer, 1, mpi.comm));
        }
        for (int peer = 0; peer < mpi.size; ++peer) {
            const auto at = static_cast<std::size_t>(peer);
            expect_complete(sent[at]);
            expect_received(received[at], size, peer, 1);
            cl.expect(buffers[at], 0, size, static_cast<std::uint64_t>(peer));
        }
    }
}

MPI_CASE("4 threads enqueue 50 messages each way at once, each thread with its own tag", 2) {
    const opencl cl;
    constexpr int threads = 4;
    constexpr int count = 50;
    constexpr std::size_t slot = 40000;
    if (mpi.rank >= 2) {
        return;
    }
    struct lane {
        queue_handle sending, receiving;
        buffer_handle outgoing, incoming;
        std::vector<event_handle> events;
        cl_int error = CL_SUCCESS;
    };
    std::vector<lane> lanes;
    for (int t = 0; t < threads; ++t) {
        lane l;
        l.sending = cl.in_order_queue();
        l.receiving = cl.in_order_queue();
        l.outgoing = cl.filled(slot * count, static_cast<std::uint64_t>(10 * mpi.rank + t));
        l.incoming = cl.buffer(slot * count);
        lanes.push_back(std::move(l));
    }
    const int peer = 1 - mpi.rank;
    {
        std::vector<std::jthread> workers;
        for (int t = 0; t < threads; ++t) {
            workers.emplace_back([&, t] {
                lane &l = lanes[static_cast<std::size_t>(t)];
                for (std::size_t i = 0; i < count && l.error == CL_SUCCESS; ++i) {
                    const std::size_t size = (i % 3 == 0) ? slot : 16 + i;
                    event_handle in;
                    event_handle out;
                    l.error = clEnqueueRecvBuffer(l.receiving, l.incoming, CL_FALSE, i * slot, slot,
                                                  peer, t, mpi.comm, 0, nullptr, in.out());
                    if (l.error == CL_SUCCESS) {
                        l.error =
                            clEnqueueSendBuffer(l.sending, l.outgoing, CL_FALSE, i * slot, size,
                                                peer, t, mpi.comm, 0, nullptr, out.out());
                    }
                    l.events.push_back(std::move(in));
                    l.events.push_back(std::move(out));
                }
            });
        }
    }
    for (std::size_t t = 0; t < threads; ++t) {
        CAPTURE(t);
        lane &l = lanes[t];
        REQUIRE(l.error == CL_SUCCESS);
        for (const event_handle &event : l.events) {
            expect_complete(event);
        }
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t size = (i % 3 == 0) ? slot : 16 + i;
            CHECK(transfer_info<std::size_t>(l.events[2 * i], CL_TRANSFER_BYTES) == size);
            cl.expect(l.incoming, i * slot, size, static_cast<std::uint64_t>(10 * peer) + t,
                      i * slot);
        }
    }
}

MPI_CASE("4 threads make blocking calls at once", 2) {
    const opencl cl;
    constexpr int threads = 4;
    constexpr std::size_t size = 100000;
    if (mpi.rank >= 2) {
        return;
    }
    std::vector<queue_handle> queues;
    std::vector<buffer_handle> buffers;
    std::vector<cl_int> errors(threads, CL_SUCCESS);
    for (int t = 0; t < threads; ++t) {
        queues.push_back(cl.in_order_queue());
        buffers.push_back(cl.filled(size, static_cast<std::uint64_t>(10 * mpi.rank + t)));
    }
    const int peer = 1 - mpi.rank;
    {
        std::vector<std::jthread> workers;
        for (int t = 0; t < threads; ++t) {
            workers.emplace_back([&, t] {
                const auto at = static_cast<std::size_t>(t);
                for (int i = 0; i < 20 && errors[at] == CL_SUCCESS; ++i) {  // back and forth
                    const bool sends = (i + mpi.rank) % 2 == 0;
                    errors[at] =
                        sends ? clEnqueueSendBuffer(queues[at], buffers[at], CL_TRUE, 0, size, peer,
                                                    t, mpi.comm, 0, nullptr, nullptr)
                              : clEnqueueRecvBuffer(queues[at], buffers[at], CL_TRUE, 0, size, peer,
                                                    t, mpi.comm, 0, nullptr, nullptr);
                }
            });
        }
    }
    for (std::size_t t = 0; t < threads; ++t) {
        CAPTURE(t);
        CHECK(errors[t] == CL_SUCCESS);
        cl.expect(buffers[t], 0, size, t);
    }
}

MPI_CASE("several contexts of one process send and receive, also among each other", 2) {
    const opencl one;
    const opencl two;
    constexpr std::size_t size = 3UL << 20;
    if (mpi.rank >= 2) {
        return;
    }
    const int peer = 1 - mpi.rank;
    const auto seed = static_cast<std::uint64_t>(mpi.rank);
    const queue_handle first = one.in_order_queue();
    const queue_handle second = two.in_order_queue();
    const buffer_handle outgoing = one.filled(size, seed);
    const buffer_handle incoming = two.buffer(size);
    const event_handle received = receive(second, incoming, 0, size, peer, 1, mpi.comm);
    const event_handle sent = send(first, outgoing, 0, size, peer, 1, mpi.comm);
    expect_complete(sent);
    expect_received(received, size, peer, 1);
    two.expect(incoming, 0, size, static_cast<std::uint64_t>(peer));
    const buffer_handle back = one.buffer(size);
    const event_handle returned = receive(first, back, 0, size, mpi.rank, 2, mpi.comm);
    const event_handle passed = send(second, incoming, 0, size, mpi.rank, 2, mpi.comm);
    expect_complete(passed);
    expect_received(returned, size, mpi.rank, 2);
    one.expect(back, 0, size, static_cast<std::uint64_t>(peer));
}
