/* Commands and MPI_CL_MEM in programs whose MPI_Init may not bind to cldist: libmpi is linked
 * first, a PMPI tool is loaded, or the main program is written in Fortran (fortran_start.F90 calls
 * the extern function here).
 *
 * test_started [LEVEL]: uses MPI_Init, or MPI_Init_thread if LEVEL is "funneled" or "multiple". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <CL/cl_ext_dist.h>

static int failures = 0;

static void expect(const char *what, long got, long wanted) {
    if (got == wanted) return;
    printf("%s: got %ld, expected %ld\n", what, got, wanted);
    ++failures;
}

/* Each process sends to the next one: command to command, MPI call to command, and command to MPI
 * call. */
static void exchange_ints(MPI_Comm comm, cl_context context, cl_command_queue queue, int count) {
    int rank, size;
    cl_int error;
    const size_t bytes = (size_t)count * sizeof(int);
    int *mine = malloc(bytes), *received = malloc(bytes);
    MPI_Request requests[2];

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    for (int i = 0; i < count; ++i) mine[i] = rank + i;
    cl_mem out =
        clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes, mine, &error);
    cl_mem in = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &error);

    expect("clEnqueueSendrecvBuffer",
           clEnqueueSendrecvBuffer(queue, out, CL_TRUE, 0, bytes, next, 1, in, 0, bytes, previous,
                                   1, comm, 0, NULL, NULL),
           CL_SUCCESS);
    memset(received, 0, bytes);
    clEnqueueReadBuffer(queue, in, CL_TRUE, 0, bytes, received, 0, NULL, NULL);
    for (int i = 0; i < count; ++i) expect("an int that a command sent", received[i], previous + i);

    expect("MPI_Isend", MPI_Isend(mine, (int)bytes, MPI_CL_MEM, next, 2, comm, &requests[0]),
           MPI_SUCCESS);
    expect("clEnqueueRecvBuffer",
           clEnqueueRecvBuffer(queue, in, CL_TRUE, 0, bytes, previous, 2, comm, 0, NULL, NULL),
           CL_SUCCESS);
    expect("MPI_Irecv",
           MPI_Irecv(received, (int)bytes, MPI_CL_MEM, previous, 3, comm, &requests[1]),
           MPI_SUCCESS);
    expect("clEnqueueSendBuffer",
           clEnqueueSendBuffer(queue, in, CL_TRUE, 0, bytes, next, 3, comm, 0, NULL, NULL),
           CL_SUCCESS);
    expect("MPI_Waitall", MPI_Waitall(2, requests, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    for (int i = 0; i < count; ++i)
        expect("an int that has passed two processes", received[i],
               (previous + size - 1) % size + i);

    clReleaseMemObject(in);
    clReleaseMemObject(out);
    free(received);
    free(mine);
}

static int exchange(MPI_Comm comm) {
    cl_int error;
    cl_device_id device;
    expect("clDistLocalDevice", clDistLocalDevice(comm, NULL, CL_DEVICE_TYPE_ALL, &device),
           CL_SUCCESS);
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    exchange_ints(comm, context, queue, 16);
    if (failures == 0) exchange_ints(comm, context, queue, 1 << 20);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return failures;
}

#ifdef CLDIST_FORTRAN_MAIN

int exchange_in_c_(const MPI_Fint *comm);
MPI_Fint cl_mem_(void);

int exchange_in_c_(const MPI_Fint *comm) { return exchange(MPI_Comm_f2c(*comm)); }
MPI_Fint cl_mem_(void) { return MPI_Type_c2f(MPI_CL_MEM); }

#else

int main(int argc, char **argv) {
    if (argc > 1) {
        int provided;
        MPI_Init_thread(
            &argc, &argv,
            strcmp(argv[1], "multiple") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED,
            &provided);
        expect("the level provided", provided, MPI_THREAD_MULTIPLE);
    } else {
        MPI_Init(&argc, &argv);
    }
    exchange(MPI_COMM_WORLD);
    MPI_Finalize();
    return failures != 0;
}

#endif
