/// Short forms of the commands under test, which require success and return the command's event,
/// and checks of their results.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <vector>

#include "opencl_fixture.hpp"

#define MPI_OK(expression) REQUIRE((expression) == MPI_SUCCESS)

namespace cldist_test {

using wait_list = std::initializer_list<cl_event>;

inline const cl_event *data_of(wait_list events) {
    return events.size() == 0 ? nullptr : events.begin();
}

inline event_handle send(cl_command_queue queue, cl_mem buffer, std::size_t offset,
                         std::size_t size, int dest, int tag, MPI_Comm comm,
                         wait_list events = {}) {
    event_handle event;
    CL_OK(clEnqueueSendBuffer(queue, buffer, CL_FALSE, offset, size, dest, tag, comm,
                              static_cast<cl_uint>(events.size()), data_of(events), event.out()));
    return event;
}

inline event_handle receive(cl_command_queue queue, cl_mem buffer, std::size_t offset,
                            std::size_t size, int source, int tag, MPI_Comm comm,
                            wait_list events = {}) {
    event_handle event;
    CL_OK(clEnqueueRecvBuffer(queue, buffer, CL_FALSE, offset, size, source, tag, comm,
                              static_cast<cl_uint>(events.size()), data_of(events), event.out()));
    return event;
}

/// A rectangular region of a buffer, as the arguments of clEnqueueReadBufferRect describe it.
struct box {
    std::array<std::size_t, 3> origin;
    std::array<std::size_t, 3> region;
    std::size_t row_pitch = 0;
    std::size_t slice_pitch = 0;

    [[nodiscard]] std::size_t size() const { return region[0] * region[1] * region[2]; }
    /// The offset in the buffer of each byte of the message.
    [[nodiscard]] std::vector<std::size_t> places() const;
};

inline event_handle send_rect(cl_command_queue queue, cl_mem buffer, const box &where, int dest,
                              int tag, MPI_Comm comm, wait_list events = {},
                              cl_bool blocking = CL_FALSE) {
    event_handle event;
    CL_OK(clEnqueueSendBufferRect(queue, buffer, blocking, where.origin.data(), where.region.data(),
                                  where.row_pitch, where.slice_pitch, dest, tag, comm,
                                  static_cast<cl_uint>(events.size()), data_of(events),
                                  event.out()));
    return event;
}

inline event_handle receive_rect(cl_command_queue queue, cl_mem buffer, const box &where,
                                 int source, int tag, MPI_Comm comm, wait_list events = {},
                                 cl_bool blocking = CL_FALSE) {
    event_handle event;
    CL_OK(clEnqueueRecvBufferRect(queue, buffer, blocking, where.origin.data(), where.region.data(),
                                  where.row_pitch, where.slice_pitch, source, tag, comm,
                                  static_cast<cl_uint>(events.size()), data_of(events),
                                  event.out()));
    return event;
}

inline event_handle sendrecv_rect(cl_command_queue queue, cl_mem from, const box &out, int dest,
                                  cl_mem to, const box &in, int source, int tag, MPI_Comm comm,
                                  wait_list events = {}, cl_bool blocking = CL_FALSE) {
    event_handle event;
    CL_OK(clEnqueueSendrecvBufferRect(
        queue, from, blocking, out.origin.data(), out.region.data(), out.row_pitch, out.slice_pitch,
        dest, tag, to, in.origin.data(), in.region.data(), in.row_pitch, in.slice_pitch, source,
        tag, comm, static_cast<cl_uint>(events.size()), data_of(events), event.out()));
    return event;
}

template <typename T>
T transfer_info(cl_event event, cl_transfer_info name) {
    T value{};
    std::size_t size = 0;
    CL_OK(clGetTransferInfo(event, name, sizeof(value), &value, &size));
    REQUIRE(size == sizeof(value));
    return value;
}

inline std::string transfer_text(cl_event event, cl_transfer_info name) {
    std::size_t size = 0;
    CL_OK(clGetTransferInfo(event, name, 0, nullptr, &size));
    std::string text(size, '\0');
    CL_OK(clGetTransferInfo(event, name, size, text.data(), nullptr));
    REQUIRE(!text.empty());
    REQUIRE(text.back() == '\0');
    text.pop_back();
    return text;
}

inline std::vector<cl_transfer_stage> transfer_stages(cl_event event) {
    // Has room for all possible stages, because their number grows while the transfer runs.
    std::vector<cl_transfer_stage> stages(CL_STAGE_FILE + 1);
    std::size_t size = 0;
    CL_OK(clGetTransferInfo(event, CL_TRANSFER_STAGES, stages.size() * sizeof(cl_transfer_stage),
                            stages.data(), &size));
    REQUIRE(size % sizeof(cl_transfer_stage) == 0);
    stages.resize(size / sizeof(cl_transfer_stage));
    return stages;
}

inline cl_int transfer_status(cl_event event) {
    return transfer_info<cl_int>(event, CL_TRANSFER_STATUS);
}

/// Waits until the transfer has started. Messages of all queues that start later come after it.
inline void await_start(cl_event event) {
    poll_until("a transfer to start", [&] { return transfer_status(event) <= CL_RUNNING; });
}

/// Waits until this process has made its part of a collective file access, even a failing one.
inline void await_part(cl_event event) {
    poll_until("a command to take part", [&] {
        const std::vector<cl_transfer_stage> stages = transfer_stages(event);
        return std::any_of(stages.begin(), stages.end(),
                           [](const auto &s) { return s.stage == CL_STAGE_FILE; });
    });
}

// Call these waits outside CHECK, which would catch their exceptions.

/// Waits for any command that must end with `status`.
inline void expect_ended(cl_event event, cl_int status,
                         std::chrono::milliseconds limit = default_wait) {
    const cl_int found = wait_for(event, limit);
    CHECK(found == status);
}

/// Waits for any command that must fail. The error code depends on the platform.
inline void expect_failed(cl_event event) {
    const cl_int found = wait_for(event);
    CHECK(found < 0);
}

/// Waits for a transfer that must succeed.
inline void expect_complete(cl_event event, std::chrono::milliseconds limit = default_wait) {
    expect_ended(event, CL_COMPLETE, limit);
    CHECK(transfer_status(event) == CL_COMPLETE);
    CHECK(transfer_text(event, CL_TRANSFER_ERROR_MESSAGE) == "");
}

/// Waits for a transfer that must fail with `code`.
inline void expect_failure(cl_event event, cl_int code) {
    expect_failed(event);
    CHECK(transfer_status(event) == code);
    CHECK(transfer_text(event, CL_TRANSFER_ERROR_MESSAGE) != "");
}

/// Checks a received message: its size and its sender.
inline void expect_received(cl_event event, std::size_t size, int source, int tag) {
    expect_complete(event);
    CHECK(transfer_info<std::size_t>(event, CL_TRANSFER_BYTES) == size);
    CHECK(transfer_info<int>(event, CL_TRANSFER_SOURCE) == source);
    CHECK(transfer_info<int>(event, CL_TRANSFER_TAG) == tag);
}

/// Sends a signal to `rank`, which receives it with await(). Uses MPI without the library.
inline void tell(const mpi_view &mpi, int rank) {
    const char word = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(&word, 1, MPI_CHAR, rank, 32000, mpi.comm, &request);
    poll_until("a signal to be received", [&] {
        int done = 0;
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        return done != 0;
    });
}

inline void await(const mpi_view &mpi, int rank) {
    char word = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(&word, 1, MPI_CHAR, rank, 32000, mpi.comm, &request);
    poll_until("a signal from rank " + std::to_string(rank), [&] {
        int done = 0;
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        return done != 0;
    });
}

}  // namespace cldist_test
