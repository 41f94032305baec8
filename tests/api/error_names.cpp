/// Names of error codes, and causes of failed calls.

#include <limits>
#include <string>
#include <thread>

#include "transfers.hpp"

using namespace cldist_test;

#define NAMED(code) \
    { code, #code }

MPI_CASE("clDistErrorName returns the name of each code of OpenCL and of the library", 1) {
    struct named {
        cl_int code;
        const char *name;
    };
    const named table[] = {
        NAMED(CL_SUCCESS),
        NAMED(CL_DEVICE_NOT_FOUND),
        NAMED(CL_OUT_OF_HOST_MEMORY),
        NAMED(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
        NAMED(CL_INVALID_VALUE),
        NAMED(CL_INVALID_COMMAND_QUEUE),
        NAMED(CL_MPI_NOT_INITIALIZED),
        NAMED(CL_MPI_THREAD_LEVEL_TOO_LOW),
        NAMED(CL_INVALID_COMMUNICATOR),
        NAMED(CL_INVALID_RANK),
        NAMED(CL_INVALID_TAG),
        NAMED(CL_MESSAGE_TRUNCATED),
        NAMED(CL_MESSAGE_NOT_RECOGNIZED),
        NAMED(CL_PEER_TRANSFER_FAILED),
        NAMED(CL_MPI_ERROR),
        NAMED(CL_TRANSFER_ABANDONED),
        NAMED(CL_TRANSFER_CANCELLED),
        NAMED(CL_FILE_ERROR),
        NAMED(CL_END_OF_FILE),
        NAMED(CL_INVALID_MPI_DATATYPE),
        NAMED(CL_INVALID_MPI_OP),
        NAMED(CL_COLLECTIVE_MISMATCH),
        {-1220, "CL_HDF5_ERROR"},
    };
    for (const named &row : table) {
        CHECK(std::string(clDistErrorName(row.code)) == row.name);
    }
}

MPI_CASE("clDistErrorName returns a text for numbers that are no codes", 1) {
    for (const cl_int code : {1, -77, -1216, 1000000, std::numeric_limits<cl_int>::min()}) {
        CAPTURE(code);
        CHECK(std::string(clDistErrorName(code)) == "unknown error code");
    }
}

MPI_CASE("clDistLastErrorMessage returns the cause of the thread's last failed call", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.buffer(100);
    CHECK(clEnqueueSendBuffer(queue, buffer, CL_FALSE, 90, 11, 0, 1, mpi.comm, 0, nullptr,
                              nullptr) == CL_INVALID_VALUE);
    CHECK(std::string(clDistLastErrorMessage()) ==
          "offset 90 and size 11 exceed the buffer of 100 bytes");
    CHECK(clEnqueueSendBuffer(queue, buffer, CL_FALSE, 0, 10, 77, 1, mpi.comm, 0, nullptr,
                              nullptr) == CL_INVALID_RANK);
    CHECK(std::string(clDistLastErrorMessage()).find("destination 77") == 0);
    std::string of_other = "nothing was asked";
    std::thread([&] { of_other = clDistLastErrorMessage(); }).join();
    CHECK(of_other.empty());
    CHECK(std::string(clDistLastErrorMessage()).find("destination 77") == 0);
}
