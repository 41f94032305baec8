/* Sums up the data of all devices of a context, like a program written for SnuCL. */
#include <stdio.h>
#include <stdlib.h>

#include <CL/cl_ext_collective.h>

#define DEVICES 16
#define COUNT 100

int main(void) {
    cl_platform_id platform;
    cl_device_id devices[DEVICES];
    cl_command_queue queues[DEVICES];
    cl_mem in[DEVICES], out[DEVICES];
    cl_uint n = 0;
    cl_int error = CL_SUCCESS;
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES, devices, &n) != CL_SUCCESS) {
        printf("no OpenCL device\n");
        return EXIT_FAILURE;
    }
    if (n > DEVICES) n = DEVICES;
    cl_context context = clCreateContext(NULL, n, devices, NULL, NULL, &error);
    for (cl_uint i = 0; i < n; ++i) {
        int data[COUNT];
        for (int k = 0; k < COUNT; ++k) data[k] = (int)i + k;
        queues[i] = clCreateCommandQueueWithProperties(context, devices[i], NULL, &error);
        in[i] = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof data, data,
                               &error);
        out[i] = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof data, NULL, &error);
    }
    error = clEnqueueAllReduceBuffer(queues, n, in, out, NULL, NULL, COUNT * sizeof(int),
                                     CL_SIGNED_INT32, 0, NULL, NULL);
    if (error != CL_SUCCESS) {
        printf("clEnqueueAllReduceBuffer: %d\n", error);
        return EXIT_FAILURE;
    }
    for (cl_uint i = 0; i < n; ++i) {
        int data[COUNT];
        clEnqueueReadBuffer(queues[i], out[i], CL_TRUE, 0, sizeof data, data, 0, NULL, NULL);
        for (int k = 0; k < COUNT; ++k) {
            if (data[k] == (int)n * k + (int)(n * (n - 1) / 2)) continue;
            printf("device %u, element %d: %d\n", i, k, data[k]);
            return EXIT_FAILURE;
        }
    }
    for (cl_uint i = 0; i < n; ++i) {
        clReleaseMemObject(in[i]);
        clReleaseMemObject(out[i]);
        clReleaseCommandQueue(queues[i]);
    }
    clReleaseContext(context);
    return EXIT_SUCCESS;
}
