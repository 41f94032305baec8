/* hello.c: rank 0 computes on its OpenCL device and sends the result to the device of rank 1, which
 * computes on. Compile and run:
 *   mpicc -DCL_TARGET_OPENCL_VERSION=300 hello.c -o hello $(pkg-config --cflags --libs cldist)
 *   mpirun -n 2 ./hello */
#include <stdio.h>

#include <CL/cl_ext_dist.h> /* includes <CL/cl.h> and <mpi.h> */

static const char *source =
    "kernel void square(global float *x) { x[get_global_id(0)] *= x[get_global_id(0)]; }";

int main(int argc, char **argv) {
    const size_t count = 1000000, bytes = count * sizeof(float);
    float value = 3;
    int rank;
    cl_device_id device;
    MPI_Init(&argc, &argv); /* also initialises cldist */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    /* A device for each process. */
    cl_int error = clDistLocalDevice(MPI_COMM_WORLD, NULL, CL_DEVICE_TYPE_ALL, &device);
    if (error != CL_SUCCESS) {
        fprintf(stderr, "rank %d gets no device: %s\n", rank, clDistErrorName(error));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    /* An in-order queue. */
    cl_command_queue queue = clCreateCommandQueueWithProperties(context, device, NULL, NULL);
    cl_mem x = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, NULL);
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, NULL);
    clBuildProgram(program, 1, &device, NULL, NULL, NULL);
    cl_kernel square = clCreateKernel(program, "square", NULL);
    clSetKernelArg(square, 0, sizeof x, &x);
    if (rank == 0) {
        clEnqueueFillBuffer(queue, x, &value, sizeof value, 0, bytes, 0, NULL, NULL);
        clEnqueueNDRangeKernel(queue, square, 1, NULL, &count, NULL, 0, NULL, NULL);
        clEnqueueSendBuffer(queue, x, CL_FALSE, 0, bytes, 1, 0, MPI_COMM_WORLD, 0, NULL, NULL);
        clFinish(queue);
    } else if (rank == 1) {
        clEnqueueRecvBuffer(queue, x, CL_FALSE, 0, bytes, 0, 0, MPI_COMM_WORLD, 0, NULL, NULL);
        clEnqueueNDRangeKernel(queue, square, 1, NULL, &count, NULL, 0, NULL, NULL);
        const size_t last = bytes - sizeof value;
        clEnqueueReadBuffer(queue, x, CL_TRUE, last, sizeof value, &value, 0, NULL, NULL);
        printf("rank 1 received %zu elements; the last one squared is %g\n", count, value);
    }
    MPI_Finalize();
}
