/* A program without MPI, in C99: a buffer goes through a stream and a file, and comes back. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>

#include <CL/cl_ext_file.h>
#ifdef MPI_VERSION
#error "CL/cl_ext_file.h includes mpi.h"
#endif

#define CHECK(condition)                                   \
    do {                                                   \
        if (!(condition)) {                                \
            printf("line %d: %s\n", __LINE__, #condition); \
            return 1;                                      \
        }                                                  \
    } while (0)

int main(void) {
    cl_platform_id platform;
    cl_device_id device;
    cl_int error = CL_SUCCESS;
    cl_event event = NULL;
    size_t bytes = 0;
    char sent[1000], received[1000];
    FILE *file = tmpfile();
    CHECK(file != NULL);
    CHECK(clGetPlatformIDs(1, &platform, NULL) == CL_SUCCESS);
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS);
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    CHECK(error == CL_SUCCESS);
    cl_command_queue queue = clCreateCommandQueueWithProperties(context, device, NULL, &error);
    CHECK(error == CL_SUCCESS);
    memset(sent, 'x', sizeof sent);
    cl_mem from = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof sent, sent, &error);
    CHECK(error == CL_SUCCESS);
    cl_mem to = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof received, NULL, &error);
    CHECK(error == CL_SUCCESS);

    CHECK(clEnqueueReadBufferToStdioFile(queue, from, CL_TRUE, 0, sizeof sent, file, 0, NULL,
                                         NULL) == CL_SUCCESS);
    CHECK(fflush(file) == 0);
    CHECK(clEnqueueWriteBufferFromFile(queue, to, CL_FALSE, 0, sizeof received, fileno(file), 0, 0,
                                       NULL, &event) == CL_SUCCESS);
    CHECK(clEnqueueReadBuffer(queue, to, CL_TRUE, 0, sizeof received, received, 1, &event, NULL) ==
          CL_SUCCESS);
    CHECK(memcmp(sent, received, sizeof sent) == 0);
    CHECK(clGetTransferInfo(event, CL_TRANSFER_BYTES, sizeof bytes, &bytes, NULL) == CL_SUCCESS);
    CHECK(bytes == sizeof received);
    CHECK(clReleaseEvent(event) == CL_SUCCESS);

    error = clEnqueueWriteBufferFromFile(queue, to, CL_TRUE, 0, sizeof received, fileno(file), 1, 0,
                                         NULL, NULL);
    CHECK(strcmp(clDistErrorName(error), "CL_END_OF_FILE") == 0);
    CHECK(strstr(clDistLastErrorMessage(), " ended after ") != NULL);
    fclose(file);
    return 0;
}
