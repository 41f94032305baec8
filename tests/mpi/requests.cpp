/// MPI requests as events, and events as MPI requests.

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <numeric>
#include <thread>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

/// During its life, errors of MPI_COMM_WORLD and of a communicator are returned to the caller.
class returned_errors {
public:
    explicit returned_errors(MPI_Comm comm) {
        MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    }
    ~returned_errors() {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
        MPI_Errhandler_free(&before);
    }
    returned_errors(const returned_errors &) = delete;
    returned_errors &operator=(const returned_errors &) = delete;

private:
    MPI_Errhandler before = MPI_ERRHANDLER_NULL;
};

event_handle event_of(const opencl &cl, MPI_Request &request) {
    cl_int code = 1;
    event_handle event(clCreateEventFromMPIRequest(cl.context, &request, &code));
    REQUIRE(code == CL_SUCCESS);
    REQUIRE(event.get() != nullptr);
    return event;
}

MPI_Request request_of(cl_event event) {
    MPI_Request request = MPI_REQUEST_NULL;
    CL_OK(clCreateMPIRequestFromEvent(event, &request));
    REQUIRE(request != MPI_REQUEST_NULL);
    return request;
}

int count_in(const MPI_Status &status, MPI_Datatype type) {
    int count = -1;
    MPI_Get_count(&status, type, &count);
    return count;
}

bool cancelled(const MPI_Status &status) {
    int flag = -1;
    MPI_Test_cancelled(&status, &flag);
    REQUIRE(flag >= 0);
    return flag != 0;
}

bool tested(MPI_Request &request) {
    int done = 0;
    REQUIRE(MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    return done != 0;
}

int error_class(int code) {
    int result = -1;
    MPI_Error_class(code, &result);
    return result;
}

std::string error_text(int code) {
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(code, text.data(), &length);
    return {text.data(), static_cast<std::size_t>(length)};
}

void expect_wait(MPI_Request &request) {
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(request == MPI_REQUEST_NULL);
}

}  // namespace

MPI_CASE("the event of a receive's request ends with it, and both report source, tag and count",
         2) {
    const opencl cl;
    std::vector<int> data(100, -1);
    if (mpi.rank == 0) {
        await(mpi, 1);
        std::iota(data.begin(), data.end(), 7);
        MPI_Send(data.data(), 60, MPI_INT, 1, 5, mpi.comm);
    } else if (mpi.rank == 1) {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Irecv(data.data(), 100, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, mpi.comm, &request);
        const event_handle event = event_of(cl, request);
        CHECK(status_of(event) > CL_COMPLETE);
        CHECK(!tested(request));
        CHECK(transfer_status(event) > CL_COMPLETE);
        tell(mpi, 0);
        expect_received(event, 60 * sizeof(int), 0, 5);
        CHECK(transfer_info<int>(event, CL_TRANSFER_DESTINATION) == MPI_PROC_NULL);
        CHECK(transfer_info<int>(event, CL_TRANSFER_MPI_ERROR) == MPI_SUCCESS);
        for (int i = 0; i < 100; ++i) {
            CHECK(data[static_cast<std::size_t>(i)] == (i < 60 ? i + 7 : -1));
        }
        MPI_Status status;
        CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS);
        CHECK(request == MPI_REQUEST_NULL);
        CHECK(status.MPI_SOURCE == 0);
        CHECK(status.MPI_TAG == 5);
        CHECK(count_in(status, MPI_INT) == 60);
        CHECK(!cancelled(status));
    }
}

MPI_CASE("a device command that waits for a receive's request writes the received data", 2) {
    const opencl cl;
    for (const std::size_t size : {1000UL, 8UL << 20}) {
        CAPTURE(size);
        bytes data = pattern(mpi.rank == 0 ? 4 : 5, size);
        if (mpi.rank == 0) {
            await(mpi, 1);
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_Isend(data.data(), static_cast<int>(size), MPI_BYTE, 1, 1, mpi.comm, &request);
            expect_complete(event_of(cl, request));
            expect_wait(request);
        } else if (mpi.rank == 1) {
            const queue_handle queue = cl.in_order_queue();
            const buffer_handle buffer = cl.filled(size, 6);
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_Irecv(data.data(), static_cast<int>(size), MPI_BYTE, 0, 1, mpi.comm, &request);
            const event_handle event = event_of(cl, request);
            const cl_event waits = event;
            event_handle written;
            CL_OK(clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, size, data.data(), 1, &waits,
                                       written.out()));
            CL_OK(clFlush(queue));
            cl.expect(buffer, 0, size, 6);
            tell(mpi, 0);
            expect_ended(written, CL_COMPLETE);
            cl.expect(buffer, 0, size, 4);
            expect_wait(request);
        }
    }
}

MPI_CASE("non-blocking collectives have events", 2) {
    const opencl cl;
    int value = mpi.rank == 0 ? 42 : 0;
    int sum = 0;
    const int one = 1;
    std::array<MPI_Request, 3> requests{};
    MPI_Ibcast(&value, 1, MPI_INT, 0, mpi.comm, &requests[0]);
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, mpi.comm, &requests[1]);
    const event_handle broadcast = event_of(cl, requests[0]);
    const event_handle reduced = event_of(cl, requests[1]);
    expect_complete(broadcast);
    CHECK(value == 42);
    expect_complete(reduced);
    CHECK(sum == mpi.size);
    MPI_Ibarrier(mpi.comm, &requests[2]);
    expect_complete(event_of(cl, requests[2]));
    CHECK(MPI_Waitall(3, requests.data(), MPI_STATUSES_IGNORE) == MPI_SUCCESS);
}

MPI_CASE("MPI file operations have events that report the bytes", 1) {
    const opencl cl;
    if (mpi.rank != 0) {
        return;
    }
    const std::string path = "cldist-requests-" + std::to_string(::getpid()) + ".bin";
    MPI_File file = MPI_FILE_NULL;
    REQUIRE(MPI_File_open(MPI_COMM_SELF, path.c_str(),
                          MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                          &file) == MPI_SUCCESS);
    constexpr std::size_t size = 4 << 20;
    bytes data = pattern(1, size);
    bytes back(size);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_File_iwrite_at(file, 0, data.data(), static_cast<int>(size), MPI_BYTE, &request);
    const event_handle written = event_of(cl, request);
    expect_complete(written);
    CHECK(transfer_info<std::size_t>(written, CL_TRANSFER_BYTES) == size);
    expect_wait(request);
    // Does not read past the end of the file, because Open MPI 4.1 never completes such a read.
    MPI_File_iread_at(file, 0, back.data(), static_cast<int>(back.size()), MPI_BYTE, &request);
    const event_handle read = event_of(cl, request);
    expect_complete(read);
    CHECK(transfer_info<std::size_t>(read, CL_TRANSFER_BYTES) == size);
    MPI_Status status;
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS);
    CHECK(count_in(status, MPI_BYTE) == static_cast<int>(size));
    CHECK(back == data);
    MPI_File_close(&file);
}

MPI_CASE("a persistent request has an event for each start, and its handle remains usable", 2) {
    const opencl cl;
    int value = -1;
    MPI_Request persistent = MPI_REQUEST_NULL;
    if (mpi.rank == 0) {
        MPI_Send_init(&value, 1, MPI_INT, 1, 1, mpi.comm, &persistent);
    } else if (mpi.rank == 1) {
        MPI_Recv_init(&value, 1, MPI_INT, 0, 1, mpi.comm, &persistent);
    } else {
        return;
    }
    for (int round = 0; round < 5; ++round) {
        CAPTURE(round);
        if (mpi.rank == 0) {
            value = round;
        }
        MPI_Start(&persistent);
        MPI_Request copy = persistent;
        const event_handle event = event_of(cl, copy);
        CHECK(copy != persistent);
        if (round % 2 == 0) {
            expect_complete(event);
            expect_wait(copy);
        } else {
            expect_wait(copy);
            expect_complete(event);
        }
        CHECK(value == round);
    }
    // An inactive persistent request has nothing to wait for.
    MPI_Request copy = persistent;
    expect_complete(event_of(cl, copy));
    MPI_Status status;
    CHECK(MPI_Wait(&copy, &status) == MPI_SUCCESS);
    CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE);
    CHECK(count_in(status, MPI_BYTE) == 0);
    CHECK(MPI_Request_free(&persistent) == MPI_SUCCESS);
}

MPI_CASE("MPI_REQUEST_NULL has an event that is already complete", 1) {
    const opencl cl;
    MPI_Request request = MPI_REQUEST_NULL;
    const event_handle event = event_of(cl, request);
    expect_complete(event);
    CHECK(transfer_info<std::size_t>(event, CL_TRANSFER_BYTES) == 0);
    expect_wait(request);
}

MPI_CASE("a request that fails gives its event a negative status and MPI_Wait its error", 2) {
    const opencl cl;
    const returned_errors guard(mpi.comm);
    bytes data = pattern(1, 100);
    if (mpi.rank == 0) {
        MPI_Send(data.data(), 100, MPI_BYTE, 1, 1, mpi.comm);
        MPI_Send(data.data(), 100, MPI_BYTE, 1, 2, mpi.comm);
        MPI_Send(data.data(), 10, MPI_BYTE, 1, 3, mpi.comm);
    } else if (mpi.rank == 1) {
        std::array<MPI_Request, 3> requests{};
        std::array<bytes, 3> into{bytes(10), bytes(100), bytes(100)};
        for (std::size_t i = 0; i < 3; ++i) {
            MPI_Irecv(into.at(i).data(), static_cast<int>(into.at(i).size()), MPI_BYTE, 0,
                      static_cast<int>(i) + 1, mpi.comm, &requests.at(i));
        }
        const event_handle truncated = event_of(cl, requests[0]);
        const event_handle good = event_of(cl, requests[1]);
        expect_failure(truncated, CL_MPI_ERROR);
        CHECK(error_class(transfer_info<int>(truncated, CL_TRANSFER_MPI_ERROR)) ==
              MPI_ERR_TRUNCATE);
        CHECK(transfer_text(truncated, CL_TRANSFER_ERROR_MESSAGE).find("truncated") !=
              std::string::npos);
        expect_received(good, 100, 0, 2);
        // Waits for this request alone. For several requests, MPICH changes the class of the error
        // and leaves the others pending.
        CHECK(error_class(MPI_Wait(&requests[0], MPI_STATUS_IGNORE)) == MPI_ERR_TRUNCATE);
        // The third request has no event.
        std::array<MPI_Status, 2> statuses{};
        CHECK(MPI_Waitall(2, &requests[1], statuses.data()) == MPI_SUCCESS);
        CHECK(count_in(statuses[0], MPI_BYTE) == 100);
        CHECK(count_in(statuses[1], MPI_BYTE) == 10);
        for (const MPI_Request request : requests) {
            CHECK(request == MPI_REQUEST_NULL);
        }
    }
}

MPI_CASE("MPI_Cancel cancels the operation, and the event reports that", 1) {
    const opencl cl;
    char byte = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(&byte, 1, MPI_CHAR, mpi.rank, 9, mpi.comm, &request);
    const event_handle event = event_of(cl, request);
    CHECK(!tested(request));
    CHECK(MPI_Cancel(&request) == MPI_SUCCESS);
    MPI_Status status;
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS);
    CHECK(cancelled(status));
    expect_failure(event, CL_TRANSFER_CANCELLED);
}

MPI_CASE("MPI_Request_free does not affect the event", 2) {
    const opencl cl;
    int value = 0;
    if (mpi.rank == 0) {
        await(mpi, 1);
        value = 77;
        MPI_Send(&value, 1, MPI_INT, 1, 1, mpi.comm);
    } else if (mpi.rank == 1) {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Irecv(&value, 1, MPI_INT, 0, 1, mpi.comm, &request);
        const event_handle event = event_of(cl, request);
        CHECK(MPI_Request_free(&request) == MPI_SUCCESS);
        CHECK(request == MPI_REQUEST_NULL);
        CHECK(status_of(event) > CL_COMPLETE);
        tell(mpi, 0);
        expect_received(event, sizeof(int), 0, 1);
        CHECK(value == 77);
    }
}

MPI_CASE("the request of an event ends when the event does", 1) {
    const opencl cl;
    const event_handle event = cl.user_event();
    MPI_Request request = request_of(event);
    for (int i = 0; i < 100; ++i) {
        CHECK(!tested(request));
    }
    CL_OK(clSetUserEventStatus(event, CL_COMPLETE));
    MPI_Status status;
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS);
    CHECK(request == MPI_REQUEST_NULL);
    CHECK(count_in(status, MPI_BYTE) == 0);
    CHECK(!cancelled(status));
    // The same with an event that has already ended.
    request = request_of(event);
    expect_wait(request);
}

MPI_CASE("the request of an event may be freed before the event ends", 1) {
    const opencl cl;
    const event_handle event = cl.user_event();
    MPI_Request request = request_of(event);
    CHECK(MPI_Cancel(&request) == MPI_SUCCESS);  // has no effect
    CHECK(!tested(request));
    CHECK(MPI_Request_free(&request) == MPI_SUCCESS);
    CL_OK(clSetUserEventStatus(event, CL_COMPLETE));
}

MPI_CASE("the request of a failed event fails, and its error text contains the event's status", 1) {
    const opencl cl;
    const returned_errors guard(mpi.comm);
    const queue_handle queue = cl.in_order_queue();
    const event_handle gate = cl.user_event();
    const cl_event waits = gate;
    event_handle marker;
    CL_OK(clEnqueueMarkerWithWaitList(queue, 1, &waits, marker.out()));
    MPI_Request of_gate = request_of(gate);
    MPI_Request of_marker = request_of(marker);
    MPI_Request again = request_of(gate);
    CL_OK(clSetUserEventStatus(gate, -77));
    const int code = MPI_Wait(&of_gate, MPI_STATUS_IGNORE);
    CHECK(code != MPI_SUCCESS);
    CHECK(error_text(code).find("-77") != std::string::npos);
    CHECK(of_gate == MPI_REQUEST_NULL);
    const int after = MPI_Wait(&of_marker, MPI_STATUS_IGNORE);
    CHECK(error_class(after) == error_class(code));
    CHECK(error_class(MPI_Wait(&again, MPI_STATUS_IGNORE)) == error_class(code));
    expect_failed(marker);
}

MPI_CASE("an event of the request of an event behaves like that event", 1) {
    const opencl cl;
    const returned_errors guard(mpi.comm);
    for (const cl_int outcome : {CL_COMPLETE, -5}) {
        CAPTURE(outcome);
        const event_handle gate = cl.user_event();
        MPI_Request request = request_of(gate);
        const event_handle event = event_of(cl, request);
        CHECK(status_of(event) > CL_COMPLETE);
        CL_OK(clSetUserEventStatus(gate, outcome));
        const int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (outcome == CL_COMPLETE) {
            CHECK(code == MPI_SUCCESS);
            expect_complete(event);
        } else {
            CHECK(error_text(code).find("-5") != std::string::npos);
            expect_failure(event, CL_MPI_ERROR);
        }
    }
}

MPI_CASE("one MPI_Waitall waits for a kernel, a transfer and messages", 2) {
    const opencl cl;
    constexpr std::size_t size = 100000;
    const queue_handle queue = cl.in_order_queue();
    const queue_handle kernels = cl.in_order_queue();
    const buffer_handle moved = cl.filled(size, mpi.rank == 0 ? 3 : 4);
    if (mpi.rank > 1) {
        return;
    }
    const int other = 1 - mpi.rank;
    bytes counted(size, static_cast<unsigned char>(mpi.rank));
    const buffer_handle computed = cl.buffer(size);
    cl.write(computed, 0, counted);
    const kernel_handle kernel = cl.kernel("add_one");
    const cl_mem argument = computed;
    CL_OK(clSetKernelArg(kernel, 0, sizeof argument, &argument));
    event_handle kernel_event;
    CL_OK(clEnqueueNDRangeKernel(kernels, kernel, 1, nullptr, &size, nullptr, 0, nullptr,
                                 kernel_event.out()));
    const event_handle transfer = mpi.rank == 0 ? send(queue, moved, 0, size, 1, 1, mpi.comm)
                                                : receive(queue, moved, 0, size, 0, 1, mpi.comm);
    int mine = mpi.rank + 10;
    int theirs = -1;
    int again = -1;
    std::array<MPI_Request, 6> requests{request_of(kernel_event), request_of(transfer)};
    MPI_Irecv(&theirs, 1, MPI_INT, other, 2, mpi.comm, &requests[2]);
    MPI_Irecv(&again, 1, MPI_INT, other, 3, mpi.comm, &requests[3]);
    MPI_Isend(&mine, 1, MPI_INT, other, 2, mpi.comm, &requests[4]);
    MPI_Isend(&mine, 1, MPI_INT, other, 3, mpi.comm, &requests[5]);
    const event_handle received = event_of(cl, requests[3]);
    std::array<MPI_Status, 6> statuses{};
    CHECK(MPI_Waitall(6, requests.data(), statuses.data()) == MPI_SUCCESS);
    CHECK(status_of(kernel_event) == CL_COMPLETE);
    CHECK(status_of(transfer) == CL_COMPLETE);
    CHECK(theirs == other + 10);
    CHECK(again == other + 10);
    CHECK(statuses[2].MPI_SOURCE == other);
    CHECK(statuses[3].MPI_TAG == 3);
    expect_received(received, sizeof(int), other, 3);
    cl.expect(moved, 0, size, 3);
    const bytes result = cl.read(computed, 0, size);
    CHECK(result == bytes(size, static_cast<unsigned char>(mpi.rank + 1)));
}

MPI_CASE("a thousand requests have events at once, in any order of completion", 2) {
    constexpr int number = 1000;
    const opencl cl;
    std::vector<int> values(number, -1);
    std::vector<MPI_Request> requests(number, MPI_REQUEST_NULL);
    if (mpi.rank == 0) {
        await(mpi, 1);
        for (int i = number - 1; i >= 0; --i) {
            values[static_cast<std::size_t>(i)] = i * 3;
            MPI_Isend(&values[static_cast<std::size_t>(i)], 1, MPI_INT, 1, i, mpi.comm,
                      &requests[static_cast<std::size_t>(i)]);
        }
    } else if (mpi.rank == 1) {
        for (int i = 0; i < number; ++i) {
            MPI_Irecv(&values[static_cast<std::size_t>(i)], 1, MPI_INT, 0, i, mpi.comm,
                      &requests[static_cast<std::size_t>(i)]);
        }
    } else {
        return;
    }
    std::vector<event_handle> events;
    for (MPI_Request &request : requests) {
        events.push_back(event_of(cl, request));
    }
    if (mpi.rank == 1) {
        tell(mpi, 0);
    }
    std::vector<MPI_Status> statuses(number);
    CHECK(MPI_Waitall(number, requests.data(), statuses.data()) == MPI_SUCCESS);
    for (int i = 0; i < number; ++i) {
        const auto at = static_cast<std::size_t>(i);
        expect_ended(events[at], CL_COMPLETE);
        if (mpi.rank == 1) {
            CHECK(values[at] == i * 3);
            CHECK(statuses[at].MPI_TAG == i);
            CHECK(transfer_info<int>(events[at], CL_TRANSFER_TAG) == i);
        }
    }
}

MPI_CASE("several threads create events of requests and requests of events, and wait for both", 2) {
    constexpr int threads = 4;
    constexpr int rounds = 50;
    if (mpi.rank > 1) {
        return;
    }
    const opencl cl;
    std::atomic<int> wrong{0};
    const auto body = [&](int thread) {
        for (int round = 0; round < rounds; ++round) {
            int mine = (thread * rounds) + round;
            int theirs = -1;
            std::array<MPI_Request, 3> requests{};
            MPI_Irecv(&theirs, 1, MPI_INT, 1 - mpi.rank, thread, mpi.comm, &requests[0]);
            MPI_Isend(&mine, 1, MPI_INT, 1 - mpi.rank, thread, mpi.comm, &requests[1]);
            cl_int code = CL_SUCCESS;
            cl_event event = clCreateEventFromMPIRequest(cl.context, &requests[0], &code);
            wrong += code == CL_SUCCESS ? 0 : 1;
            wrong += clCreateMPIRequestFromEvent(event, &requests[2]) == CL_SUCCESS ? 0 : 1;
            wrong += MPI_Waitall(3, requests.data(), MPI_STATUSES_IGNORE) == MPI_SUCCESS ? 0 : 1;
            wrong += theirs == mine ? 0 : 1;
            clReleaseEvent(event);
        }
    };
    std::vector<std::thread> all;
    for (int thread = 0; thread < threads; ++thread) {
        all.emplace_back(body, thread);
    }
    for (std::thread &thread : all) {
        thread.join();
    }
    CHECK(wrong == 0);
}
