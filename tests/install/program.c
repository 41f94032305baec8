/* A user's program in C99. It calls every function once, without a device, and checks the codes. */
#include <stdio.h>
#include <string.h>

#include <CL/cl_ext_dist.h>

static int failures = 0;

static void expect(const char *what, long got, long wanted) {
    if (got != wanted) {
        printf("%s: got %ld, expected %ld\n", what, got, wanted);
        ++failures;
    }
}

int main(int argc, char **argv) {
    char path[16];
    int level = 0;

    expect("clDistInit before MPI_Init", clDistInit(MPI_COMM_WORLD), CL_MPI_NOT_INITIALIZED);
    MPI_Init(&argc, &argv);
    MPI_Query_thread(&level);
    expect("thread level after MPI_Init", level, MPI_THREAD_MULTIPLE);
    expect("clDistInit", clDistInit(MPI_COMM_WORLD), CL_SUCCESS);
    expect("clDistLocalDevice", clDistLocalDevice(MPI_COMM_NULL, NULL, CL_DEVICE_TYPE_ALL, NULL),
           CL_INVALID_COMMUNICATOR);
    expect("clEnqueueSendBuffer",
           clEnqueueSendBuffer(NULL, NULL, CL_FALSE, 0, 4, 0, 0, MPI_COMM_WORLD, 0, NULL, NULL),
           CL_INVALID_COMMAND_QUEUE);
    expect("clEnqueueRecvBuffer",
           clEnqueueRecvBuffer(NULL, NULL, CL_FALSE, 0, 4, 0, 0, MPI_COMM_WORLD, 0, NULL, NULL),
           CL_INVALID_COMMAND_QUEUE);
    expect("clEnqueueSendrecvBuffer",
           clEnqueueSendrecvBuffer(NULL, NULL, CL_FALSE, 0, 4, 0, 0, NULL, 0, 4, 0, 0,
                                   MPI_COMM_WORLD, 0, NULL, NULL),
           CL_INVALID_COMMAND_QUEUE);
    expect("clEnqueueSendrecvBufferRect",
           clEnqueueSendrecvBufferRect(NULL, NULL, CL_FALSE, NULL, NULL, 0, 0, 0, 0, NULL, NULL,
                                       NULL, 0, 0, 0, 0, MPI_COMM_WORLD, 0, NULL, NULL),
           CL_INVALID_COMMAND_QUEUE);
    expect("clDistLastErrorMessage",
           strcmp(clDistLastErrorMessage(), "the command queue is not valid"), 0);
    expect("clDistErrorName", strcmp(clDistErrorName(CL_INVALID_RANK), "CL_INVALID_RANK"), 0);
    expect("clGetTransferInfo", clGetTransferInfo(NULL, CL_TRANSFER_PATH, sizeof path, path, NULL),
           CL_INVALID_EVENT);
    expect("clTraceEvent", clTraceEvent(NULL, "kernel"), CL_INVALID_EVENT);
    MPI_Finalize();
    return failures != 0;
}
