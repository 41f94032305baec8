/// Messages between rectangular regions of different shapes and contiguous ranges, on every path.

#include <algorithm>
#include <numeric>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

/// One end of a message: a region, or (`plain`) the contiguous range of a command without Rect.
struct side {
    box where;
    bool plain = false;
};

side contiguous(std::size_t offset, std::size_t size) {
    return {{{offset, 0, 0}, {size, 1, 1}}, true};
}

constexpr std::size_t margin = 32;
std::size_t buffer_size(const box &where) { return where.places().back() + 1 + margin; }

/// The bytes of a region in a buffer filled with pattern(seed, …).
bytes message_of(const box &where, std::uint64_t seed) {
    const bytes memory = pattern(seed, buffer_size(where));
    bytes message;
    for (const std::size_t at : where.places()) {
        message.push_back(memory[at]);
    }
    return message;
}

/// Checks that the buffer contains pattern(seed, …), and `message` at the beginning of the region.
void expect_region(const opencl &cl, cl_mem buffer, const box &where, std::uint64_t seed,
                   const bytes &message) {
    bytes expected = pattern(seed, buffer_size(where));
    const std::vector<std::size_t> places = where.places();
    for (std::size_t i = 0; i < message.size(); ++i) {
        expected[places[i]] = message[i];
    }
    const bytes found = cl.read(buffer, 0, expected.size());
    if (found != expected) {
        const auto differs = std::mismatch(found.begin(), found.end(), expected.begin());
        FAIL_CHECK("byte " << differs.first - found.begin() << " of " << found.size()
                           << " is wrong");
    }
}

event_handle send_side(cl_command_queue queue, cl_mem buffer, const side &from, const mpi_view &mpi,
                       cl_bool blocking) {
    if (!from.plain) {
        return send_rect(queue, buffer, from.where, 1, 1, mpi.comm, {}, blocking);
    }
    event_handle event;
    CL_OK(clEnqueueSendBuffer(queue, buffer, blocking, from.where.origin[0], from.where.region[0],
                              1, 1, mpi.comm, 0, nullptr, event.out()));
    return event;
}

event_handle receive_side(cl_command_queue queue, cl_mem buffer, const side &to,
                          const mpi_view &mpi, cl_bool blocking) {
    if (!to.plain) {
        return receive_rect(queue, buffer, to.where, 0, 1, mpi.comm, {}, blocking);
    }
    event_handle event;
    CL_OK(clEnqueueRecvBuffer(queue, buffer, blocking, to.where.origin[0], to.where.region[0], 0, 1,
                              mpi.comm, 0, nullptr, event.out()));
    return event;
}

/// Sends a message from rank 0's region to rank 1's, which is at least as large. Checks that the
/// bytes arrive and that no other byte changes.
void message_arrives(const mpi_view &mpi, const opencl &cl, cl_command_queue queue,
                     const side &from, const side &to, cl_bool blocking = CL_FALSE) {
    CAPTURE(from.where.size());
    CAPTURE(from.where.region[0]);
    CAPTURE(to.where.region[0]);
    CAPTURE(blocking);
    if (mpi.rank == 0) {
        const buffer_handle buffer = cl.filled(buffer_size(from.where), 1);
        expect_complete(send_side(queue, buffer, from, mpi, blocking));
        cl.expect(buffer, 0, buffer_size(from.where), 1);
    } else if (mpi.rank == 1) {
        const buffer_handle buffer = cl.filled(buffer_size(to.where), 2);
        expect_received(receive_side(queue, buffer, to, mpi, blocking), from.where.size(), 0, 1);
        expect_region(cl, buffer, to.where, 2, message_of(from.where, 1));
    }
}

/// Each row lists regions of one size. Small regions are sent eagerly, large ones in blocks.
std::vector<std::vector<box>> shapes_of_equal_size() {
    return {
        // 12 bytes.
        {{{0, 0, 0}, {12, 1, 1}},
         {{3, 1, 2}, {1, 3, 4}, 5, 20},
         {{1, 1, 0}, {4, 3, 1}, 7},
         {{2, 0, 1}, {2, 2, 3}, 3, 9}},
        // 7200 bytes: two and three dimensions, elements of 1, 3, 4, 8 and 16 bytes.
        {{{5, 0, 0}, {7200, 1, 1}},
         {{0, 0, 0}, {1, 90, 80}, 2, 200},
         {{7, 1, 2}, {3, 60, 40}, 17, 17 * 61},
         {{4, 1, 1}, {4, 30, 60}, 44, 44 * 33},
         {{8, 2, 0}, {8, 900, 1}, 64},
         {{16, 0, 3}, {16, 1, 450}, 32, 96}},
        // 540,000 bytes: faces of arrays, rows of odd pitch, complete slices.
        {{{1, 0, 0}, {540000, 1, 1}},
         {{4, 0, 0}, {4, 300, 450}, 24, 24 * 300},
         {{0, 7, 0}, {1200, 1, 450}, 1200, 9600},
         {{0, 0, 2}, {1200, 450, 1}, 1200, 540000},
         {{3, 1, 1}, {45, 100, 120}, 61, 61 * 101},
         {{1, 0, 0}, {1, 750, 720}, 3, 3 * 750},
         {{8, 1, 1}, {8, 250, 270}, 40, 40 * 252}},
    };
}

}  // namespace

MPI_CASE(
    "a message from any region arrives in any region of its size, and no byte around it changes",
    2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    for (const std::vector<box> &shapes : shapes_of_equal_size()) {
        for (std::size_t i = 0; i < shapes.size(); ++i) {
            message_arrives(mpi, cl, queue, {shapes[i]}, {shapes[(i + 1) % shapes.size()]});
            message_arrives(mpi, cl, queue, {shapes[i]}, {shapes[i]});
        }
    }
}

MPI_CASE("a message from any region arrives in a contiguous range, and vice versa", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    for (const std::vector<box> &shapes : shapes_of_equal_size()) {
        for (const box &shape : shapes) {
            message_arrives(mpi, cl, queue, {shape}, contiguous(3, shape.size()));
            message_arrives(mpi, cl, queue, contiguous(3, shape.size()), {shape});
        }
    }
}

MPI_CASE("blocking commands send and receive messages of regions, with both kinds of queues", 2) {
    const opencl cl;
    const queue_handle in_order = cl.in_order_queue();
    const queue_handle out_of_order = cl.out_of_order_queue();
    for (const cl_command_queue queue : {in_order.get(), out_of_order.get()}) {
        for (const std::vector<box> &shapes : shapes_of_equal_size()) {
            message_arrives(mpi, cl, queue, {shapes[1]}, {shapes[2]}, CL_TRUE);
            message_arrives(mpi, cl, queue, contiguous(1, shapes[2].size()), {shapes[2]}, CL_TRUE);
            message_arrives(mpi, cl, queue, {shapes[3]}, contiguous(2, shapes[3].size()), CL_TRUE);
        }
    }
}

MPI_CASE("a blocking call without event sends a region after the commands before it", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    for (const box &where :
         {box{{3, 1, 0}, {4, 20, 3}, 10, 300}, box{{4, 0, 1}, {4, 300, 300}, 12, 3600}}) {
        const std::size_t size = buffer_size(where);
        if (mpi.rank == 0) {
            const buffer_handle buffer = cl.filled(size, 1);
            const kernel_handle add_one = cl.kernel("add_one");
            const cl_mem argument = buffer;
            CL_OK(clSetKernelArg(add_one, 0, sizeof argument, &argument));
            CL_OK(clEnqueueNDRangeKernel(queue, add_one, 1, nullptr, &size, nullptr, 0, nullptr,
                                         nullptr));
            CL_OK(clEnqueueSendBufferRect(queue, buffer, CL_TRUE, where.origin.data(),
                                          where.region.data(), where.row_pitch, where.slice_pitch,
                                          1, 1, mpi.comm, 0, nullptr, nullptr));
        } else if (mpi.rank == 1) {
            const buffer_handle buffer = cl.filled(size, 2);
            CL_OK(clEnqueueRecvBufferRect(queue, buffer, CL_TRUE, where.origin.data(),
                                          where.region.data(), where.row_pitch, where.slice_pitch,
                                          0, 1, mpi.comm, 0, nullptr, nullptr));
            bytes message = message_of(where, 1);
            for (unsigned char &byte : message) {
                ++byte;
            }
            expect_region(cl, buffer, where, 2, message);
        }
    }
}

MPI_CASE("a shorter message fills the first bytes of its region and leaves the rest unchanged", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const box small{{3, 1, 2}, {5, 4, 3}, 9, 54};
    for (const std::size_t size : {1UL, 4UL, 5UL, 7UL, 20UL, 23UL, 59UL}) {
        message_arrives(mpi, cl, queue, contiguous(1, size), {small});
    }
    const box large{{4, 0, 1}, {4, 300, 450}, 24, 24 * 300};
    for (const std::size_t size : {1UL, 6UL, 1201UL, 100 * KiB, 400 * KiB + 3, large.size() - 1}) {
        message_arrives(mpi, cl, queue, contiguous(1, size), {large});
    }
    message_arrives(mpi, cl, queue, {{{8, 2, 0}, {8, 900, 1}, 64}}, {large});
}

MPI_CASE("an empty message leaves its region unchanged", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const box where{{3, 1, 2}, {5, 4, 3}, 9, 54};
    const buffer_handle buffer = cl.filled(buffer_size(where), 2);
    if (mpi.rank == 0) {
        expect_complete(send(queue, buffer, 0, 0, 1, 1, mpi.comm));
    } else if (mpi.rank == 1) {
        expect_received(receive_rect(queue, buffer, where, 0, 1, mpi.comm), 0, 0, 1);
        expect_region(cl, buffer, where, 2, {});
    }
}

MPI_CASE(
    "a message longer than its region fails with CL_MESSAGE_TRUNCATED and writes nothing, and the "
    "next one arrives",
    2) {
    const opencl cl;
    const queue_handle queue = cl.out_of_order_queue();
    for (const box &where :
         {box{{3, 1, 2}, {5, 4, 3}, 9, 54}, box{{4, 0, 1}, {4, 300, 450}, 24, 24 * 300}}) {
        CAPTURE(where.size());
        if (mpi.rank == 0) {
            const buffer_handle buffer = cl.filled(where.size() + 1, 1);
            expect_complete(send(queue, buffer, 0, where.size() + 1, 1, 1, mpi.comm));
            expect_complete(send(queue, buffer, 0, where.size(), 1, 1, mpi.comm));
        } else if (mpi.rank == 1) {
            const buffer_handle buffer = cl.filled(buffer_size(where), 2);
            const event_handle truncated = receive_rect(queue, buffer, where, 0, 1, mpi.comm);
            expect_failure(truncated, CL_MESSAGE_TRUNCATED);
            expect_region(cl, buffer, where, 2, {});
            expect_received(receive_rect(queue, buffer, where, 0, 1, mpi.comm), where.size(), 0, 1);
            expect_region(cl, buffer, where, 2, pattern(1, where.size()));
        }
    }
}

MPI_CASE(
    "two processes exchange the faces of a box of floats in all three directions, each with its "
    "halo",
    2) {
    const opencl cl;
    constexpr std::size_t n = 48;  // including a halo of 1 on each side
    constexpr std::size_t row = 4 * n;
    constexpr std::size_t slice = row * n;
    const queue_handle out = cl.out_of_order_queue();
    const queue_handle in = cl.out_of_order_queue();
    const auto face = [&](int direction, std::size_t layer) {
        box where{{0, 0, 0}, {row, n, n}, row, slice};
        const std::size_t unit = direction == 0 ? 4 : 1;
        where.origin[static_cast<std::size_t>(direction)] = layer * unit;
        where.region[static_cast<std::size_t>(direction)] = unit;
        return where;
    };
    if (mpi.rank < 2) {
        const int peer = 1 - mpi.rank;
        const auto mine = static_cast<std::uint64_t>(mpi.rank);
        const buffer_handle buffer = cl.filled(n * slice, mine);
        bytes expected = pattern(mine, n * slice);
        const bytes theirs = pattern(static_cast<std::uint64_t>(peer), n * slice);
        for (int direction = 0; direction < 3; ++direction) {
            CAPTURE(direction);
            // Both neighbours are the same process. Its low face goes to the high halo, its high
            // face to the low halo.
            const event_handle low =
                receive_rect(in, buffer, face(direction, 0), peer, 10, mpi.comm);
            const event_handle high =
                receive_rect(in, buffer, face(direction, n - 1), peer, 11, mpi.comm);
            const event_handle sent_low =
                send_rect(out, buffer, face(direction, 1), peer, 11, mpi.comm);
            const event_handle sent_high =
                send_rect(out, buffer, face(direction, n - 2), peer, 10, mpi.comm);
            expect_received(low, 4 * n * n, peer, 10);
            expect_received(high, 4 * n * n, peer, 11);
            expect_complete(sent_low);
            expect_complete(sent_high);
        }
        // Computes the expected result: all directions, one after another, for both processes.
        bytes other = theirs;
        for (int direction = 0; direction < 3; ++direction) {
            const bytes my_old = expected;
            const bytes other_old = other;
            const auto copy = [&](std::size_t from_layer, std::size_t to_layer) {
                const std::vector<std::size_t> from = face(direction, from_layer).places();
                const std::vector<std::size_t> to = face(direction, to_layer).places();
                for (std::size_t i = 0; i < from.size(); ++i) {
                    expected[to[i]] = other_old[from[i]];
                    other[to[i]] = my_old[from[i]];
                }
            };
            copy(1, n - 1);
            copy(n - 2, 0);
        }
        CHECK((cl.read(buffer, 0, n * slice) == expected));
    }
}

MPI_CASE("a process can send its own faces to its halo", 1) {
    const opencl cl;
    const queue_handle out = cl.out_of_order_queue();
    const queue_handle in = cl.out_of_order_queue();
    constexpr std::size_t n = 60;
    const box face{{8, 0, 0}, {4, n, n}, 4 * n, 4 * n * n};
    const box halo{{4 * n - 4, 0, 0}, {4, n, n}, 4 * n, 4 * n * n};
    const buffer_handle buffer = cl.filled(4 * n * n * n, 1);
    const event_handle received = receive_rect(in, buffer, halo, mpi.rank, 1, mpi.comm);
    expect_complete(send_rect(out, buffer, face, mpi.rank, 1, mpi.comm));
    expect_received(received, face.size(), mpi.rank, 1);
    bytes expected = pattern(1, 4 * n * n * n);
    const std::vector<std::size_t> from = face.places();
    const std::vector<std::size_t> to = halo.places();
    for (std::size_t i = 0; i < from.size(); ++i) {
        expected[to[i]] = expected[from[i]];
    }
    CHECK((cl.read(buffer, 0, expected.size()) == expected));
}

MPI_CASE("messages from and to regions of sub-buffers arrive", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const std::size_t unit = std::lcm(sub_buffer_alignment(cl.device), std::size_t{4096});
    for (const box &where :
         {box{{3, 1, 2}, {5, 4, 3}, 9, 54}, box{{4, 0, 1}, {4, 300, 450}, 24, 24 * 300}}) {
        const std::size_t size = buffer_size(where);
        if (mpi.rank == 0) {
            const buffer_handle parent = cl.buffer(unit + size);
            cl.fill(parent, unit, size, 1);
            const buffer_handle part = cl.sub_buffer(parent, unit, size);
            expect_complete(send_rect(queue, part, where, 1, 1, mpi.comm));
        } else if (mpi.rank == 1) {
            const buffer_handle parent = cl.filled(3 * unit + size, 3);
            cl.fill(parent, 2 * unit, size, 2);
            const buffer_handle part = cl.sub_buffer(parent, 2 * unit, size);
            expect_received(receive_rect(queue, part, where, 0, 1, mpi.comm), where.size(), 0, 1);
            expect_region(cl, part, where, 2, message_of(where, 1));
            cl.expect(parent, 0, 2 * unit, 3);
            cl.expect(parent, 2 * unit + size, unit, 3, 2 * unit + size);
        }
    }
}

MPI_CASE("messages of regions in buffers that kernels may not read or write arrive", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    for (const box &where :
         {box{{3, 1, 2}, {5, 4, 3}, 9, 54}, box{{4, 0, 1}, {300, 300, 5}, 311, 311 * 304}}) {
        const std::size_t size = buffer_size(where);
        const std::size_t unit = sub_buffer_alignment(cl.device);
        const buffer_handle parent =
            cl.buffer(unit + size, mpi.rank == 0 ? CL_MEM_WRITE_ONLY : CL_MEM_READ_ONLY);
        const buffer_handle part = cl.sub_buffer(parent, unit, size);
        for (const cl_mem buffer : {parent.get(), part.get()}) {
            cl.fill(buffer, 0, size, mpi.rank == 0 ? 1 : 2);
            if (mpi.rank == 0) {
                expect_complete(send_rect(queue, buffer, where, 1, 1, mpi.comm));
            } else if (mpi.rank == 1) {
                expect_received(receive_rect(queue, buffer, where, 0, 1, mpi.comm), where.size(), 0,
                                1);
                expect_region(cl, buffer, where, 2, message_of(where, 1));
            }
        }
    }
}

MPI_CASE("bytes between the rows of a receiving region may be written at the same time", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const queue_handle other = cl.in_order_queue();
    constexpr std::size_t rows = 100000;
    const box even{{0, 0, 0}, {4, rows, 1}, 8};
    const box odd{{4, 0, 0}, {4, rows, 1}, 8};
    for (std::uint64_t round = 0; round < 5; ++round) {
        const bytes first = pattern(10 + round, 4 * rows);
        const bytes second = pattern(20 + round, 4 * rows);
        if (mpi.rank == 0) {
            const buffer_handle buffer = cl.buffer(4 * rows);
            cl.write(buffer, 0, first);
            expect_complete(send(queue, buffer, 0, 4 * rows, 1, 1, mpi.comm));
            cl.write(buffer, 0, second);
            expect_complete(send(queue, buffer, 0, 4 * rows, 1, 2, mpi.comm));
        } else if (mpi.rank == 1) {
            const buffer_handle buffer = cl.filled(8 * rows, 3);
            const event_handle one = receive_rect(queue, buffer, even, 0, 1, mpi.comm);
            const event_handle two = receive_rect(other, buffer, odd, 0, 2, mpi.comm);
            expect_received(one, 4 * rows, 0, 1);
            expect_received(two, 4 * rows, 0, 2);
            bytes expected(8 * rows);
            for (std::size_t i = 0; i < 8 * rows; ++i) {
                expected[i] = (i % 8 < 4 ? first : second)[i / 8 * 4 + i % 4];
            }
            CHECK((cl.read(buffer, 0, 8 * rows) == expected));
        }
    }
}

MPI_CASE(
    "if the wait list of a region's send failed, its receiver fails and its region is unchanged",
    2) {
    const opencl cl;
    const queue_handle queue = cl.out_of_order_queue();
    const box where{{4, 0, 1}, {4, 300, 450}, 24, 24 * 300};
    const buffer_handle buffer =
        cl.filled(buffer_size(where), static_cast<std::uint64_t>(mpi.rank));
    if (mpi.rank == 0) {
        const event_handle gate = cl.user_event();
        const event_handle sent = send_rect(queue, buffer, where, 1, 1, mpi.comm, {gate.get()});
        CL_OK(clSetUserEventStatus(gate, -77));
        expect_failure(sent, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    } else if (mpi.rank == 1) {
        expect_failure(receive_rect(queue, buffer, where, 0, 1, mpi.comm), CL_PEER_TRANSFER_FAILED);
        expect_region(cl, buffer, where, 1, {});
    }
}

MPI_CASE(
    "two processes exchange the outer columns of an array with one send-receive of regions for "
    "each side",
    2) {
    const opencl cl;
    constexpr std::size_t columns = 300;
    constexpr std::size_t rows = 400;
    constexpr std::size_t pitch = 4 * columns;
    const auto column = [](std::size_t x) { return box{{4 * x, 1, 0}, {4, rows - 2, 1}, pitch}; };
    const queue_handle in_order = cl.in_order_queue();
    const queue_handle out_of_order = cl.out_of_order_queue();
    for (const cl_command_queue queue : {in_order.get(), out_of_order.get()}) {
        for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
            if (mpi.rank > 1) {
                continue;
            }
            CAPTURE(blocking);
            const int peer = 1 - mpi.rank;
            const buffer_handle array =
                cl.filled(pitch * rows, static_cast<std::uint64_t>(mpi.rank));
            const event_handle low =
                sendrecv_rect(queue, array, column(1), peer, array, column(columns - 1), peer, 1,
                              mpi.comm, {}, blocking);
            const event_handle high = sendrecv_rect(queue, array, column(columns - 2), peer, array,
                                                    column(0), peer, 2, mpi.comm, {}, blocking);
            expect_received(low, 4 * (rows - 2), peer, 1);
            expect_received(high, 4 * (rows - 2), peer, 2);
            bytes expected = pattern(static_cast<std::uint64_t>(mpi.rank), pitch * rows);
            const bytes theirs = pattern(static_cast<std::uint64_t>(peer), pitch * rows);
            for (const auto &[from, to] :
                 {std::pair{1UL, columns - 1}, std::pair{columns - 2, 0UL}}) {
                const std::vector<std::size_t> source = column(from).places();
                const std::vector<std::size_t> target = column(to).places();
                for (std::size_t i = 0; i < source.size(); ++i) {
                    expected[target[i]] = theirs[source[i]];
                }
            }
            CHECK((cl.read(array, 0, expected.size()) == expected));
        }
    }
}

MPI_CASE("a send-receive of regions sends one shape and receives another, after its wait list", 2) {
    const opencl cl;
    const queue_handle queue = cl.out_of_order_queue();
    const box tall{{3, 1, 2}, {1, 3, 4}, 5, 20};
    const box flat{{1, 1, 0}, {4, 3, 1}, 7};
    if (mpi.rank < 2) {
        const bool first = mpi.rank == 0;
        const auto mine = static_cast<std::uint64_t>(mpi.rank);
        const box &out = first ? tall : flat;
        const buffer_handle from = cl.filled(buffer_size(out), mine);
        const buffer_handle to = cl.filled(buffer_size(out), 2);
        const event_handle gate = cl.user_event();
        const event_handle exchanged = sendrecv_rect(queue, from, out, 1 - mpi.rank, to, out,
                                                     1 - mpi.rank, 1, mpi.comm, {gate.get()});
        CHECK(transfer_status(exchanged) > CL_RUNNING);
        CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
        expect_received(exchanged, 12, 1 - mpi.rank, 1);
        expect_region(cl, to, out, 2, message_of(first ? flat : tall, 1 - mine));
    }
}
