/// Rectangular commands in one process: errors of regions, and messages of a process to itself.

#include <algorithm>
#include <limits>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

/// Checks that both commands refuse the region and do not change the event.
void refuse(const mpi_view &mpi, const box &where, std::size_t buffer_size) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(buffer_size, 1);
    for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
        cl_event event = nullptr;
        CHECK(clEnqueueSendBufferRect(queue, buffer, blocking, where.origin.data(),
                                      where.region.data(), where.row_pitch, where.slice_pitch, 0, 1,
                                      mpi.comm, 0, nullptr, &event) == CL_INVALID_VALUE);
        CHECK(clEnqueueRecvBufferRect(queue, buffer, blocking, where.origin.data(),
                                      where.region.data(), where.row_pitch, where.slice_pitch, 0, 1,
                                      mpi.comm, 0, nullptr, &event) == CL_INVALID_VALUE);
        CHECK(event == nullptr);
    }
    int found = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mpi.comm, &found, MPI_STATUS_IGNORE);
    CHECK(found == 0);
    cl.expect(buffer, 0, buffer_size, 1);
}

constexpr std::size_t highest = std::numeric_limits<std::size_t>::max();

}  // namespace

MPI_CASE("a region without bytes is CL_INVALID_VALUE", 1) {
    refuse(mpi, {{0, 0, 0}, {0, 1, 1}}, 4096);
    refuse(mpi, {{0, 0, 0}, {1, 0, 1}}, 4096);
    refuse(mpi, {{0, 0, 0}, {1, 1, 0}}, 4096);
}

MPI_CASE("a row pitch less than a row is CL_INVALID_VALUE", 1) {
    refuse(mpi, {{0, 0, 0}, {4, 2, 2}, 3}, 4096);
}

MPI_CASE("a slice pitch less than a slice is CL_INVALID_VALUE", 1) {
    refuse(mpi, {{0, 0, 0}, {4, 3, 2}, 8, 16}, 4096);
}

MPI_CASE("a slice pitch that is no multiple of the row pitch is CL_INVALID_VALUE", 1) {
    refuse(mpi, {{0, 0, 0}, {4, 3, 2}, 8, 25}, 4096);
}

MPI_CASE(
    "a region that passes the end of its buffer is CL_INVALID_VALUE, even if its size overflows",
    1) {
    const box last{{96, 3, 3}, {4, 7, 7}, 100, 1000};
    const std::size_t end = last.places().back() + 1;
    refuse(mpi, last, end - 1);
    refuse(mpi, {{highest, 0, 0}, {1, 1, 1}}, 4096);
    refuse(mpi, {{0, 0, 0}, {1, highest, highest}}, 4096);
    refuse(mpi, {{0, 0, 0}, {highest, highest, highest}}, 4096);
    refuse(mpi, {{0, 1, 1}, {1, 1, 1}, highest, highest}, 4096);
    refuse(mpi, {{0, 0, 0}, {1, std::size_t{1} << 33, std::size_t{1} << 31}}, 4096);
}

MPI_CASE("a region without origin or extents is CL_INVALID_VALUE", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.buffer(4096);
    const std::size_t one[] = {1, 1, 1};
    CHECK(clEnqueueSendBufferRect(queue, buffer, CL_FALSE, nullptr, one, 0, 0, 0, 1, mpi.comm, 0,
                                  nullptr, nullptr) == CL_INVALID_VALUE);
    CHECK(clEnqueueRecvBufferRect(queue, buffer, CL_FALSE, one, nullptr, 0, 0, 0, 1, mpi.comm, 0,
                                  nullptr, nullptr) == CL_INVALID_VALUE);
}

MPI_CASE("a region that ends with its buffer is sent", 1) {
    const opencl cl;
    const queue_handle out = cl.in_order_queue();
    const queue_handle in = cl.in_order_queue();
    const box last{{96, 3, 3}, {4, 7, 7}, 100, 1000};
    const std::size_t end = last.places().back() + 1;
    const buffer_handle from = cl.filled(end, 1);
    const buffer_handle to = cl.filled(end, 2);
    const event_handle received = receive_rect(in, to, last, 0, 1, mpi.comm);
    expect_complete(send_rect(out, from, last, 0, 1, mpi.comm));
    expect_received(received, last.size(), 0, 1);
    const bytes source = pattern(1, end);
    bytes expected = pattern(2, end);
    for (const std::size_t at : last.places()) {
        expected[at] = source[at];
    }
    CHECK((cl.read(to, 0, end) == expected));
}

MPI_CASE("a region sent to MPI_PROC_NULL is not accessed", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(4096, 1);
    const box where{{1, 2, 3}, {4, 5, 6}, 16, 160};
    expect_complete(send_rect(queue, buffer, where, MPI_PROC_NULL, 1, mpi.comm));
    expect_complete(receive_rect(queue, buffer, where, MPI_PROC_NULL, 1, mpi.comm));
    cl.expect(buffer, 0, 4096, 1);
}

MPI_CASE(
    "a send-receive of regions that share a byte is CL_INVALID_VALUE, and of regions that "
    "interleave is not",
    1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(4096, 1);
    const box column{{8, 0, 0}, {4, 64, 1}, 64};
    const box next{{12, 0, 0}, {4, 64, 1}, 64};
    for (const box &other : {box{{11, 0, 0}, {4, 64, 1}, 64}, box{{0, 63, 0}, {64, 1, 1}, 64},
                             box{{8, 0, 0}, {4, 32, 1}, 128}, column}) {
        for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
            cl_event event = nullptr;
            CHECK(clEnqueueSendrecvBufferRect(
                      queue, buffer, blocking, column.origin.data(), column.region.data(), 64, 0, 0,
                      1, buffer, other.origin.data(), other.region.data(), other.row_pitch, 0, 0, 1,
                      mpi.comm, 0, nullptr, &event) == CL_INVALID_VALUE);
            CHECK(event == nullptr);
        }
    }
    for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
        const event_handle moved =
            sendrecv_rect(queue, buffer, column, 0, buffer, next, 0, 1, mpi.comm, {}, blocking);
        expect_received(moved, column.size(), 0, 1);
    }
    bytes expected = pattern(1, 4096);
    for (std::size_t row = 0; row < 64; ++row) {
        std::copy_n(expected.begin() + static_cast<std::ptrdiff_t>(64 * row + 8), 4,
                    expected.begin() + static_cast<std::ptrdiff_t>(64 * row + 12));
    }
    CHECK((cl.read(buffer, 0, 4096) == expected));
}

MPI_CASE("a send-receive of regions with nobody changes nothing", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(4096, 1);
    const box column{{8, 0, 0}, {4, 64, 1}, 64};
    const box next{{12, 0, 0}, {4, 64, 1}, 64};
    expect_complete(sendrecv_rect(queue, buffer, column, MPI_PROC_NULL, buffer, next, MPI_PROC_NULL,
                                  1, mpi.comm));
    cl.expect(buffer, 0, 4096, 1);
}
