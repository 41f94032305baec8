/* A program that opens the library with dlopen, enqueues a command and closes the library. The
 * library's threads are still running, so its code must stay loaded. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <CL/cl.h>

typedef cl_int write_file(cl_command_queue, cl_mem, cl_bool, size_t, size_t, int, off_t, cl_uint,
                          const cl_event *, cl_event *);

static int fail(const char *what) {
    printf("failed: %s\n", what);
    return 1;
}

int main(int argc, char **argv) {
    cl_platform_id platform;
    cl_device_id device;
    cl_int error;
    char name[] = "/tmp/cldist-closed-XXXXXX";
    write_file *command;
    cl_event event;

    for (int i = 1; i < argc; ++i) {
        void *const library = dlopen(argv[i], RTLD_NOW);
        if (library == NULL) return fail(dlerror());
        if (i == 1) {
            void *const found = dlsym(library, "clEnqueueReadBufferToFile");
            if (found == NULL) return fail(dlerror());
            memcpy(&command, &found, sizeof command);
            if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
                clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS)
                return fail("no OpenCL device");
            cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
            cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
            cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, NULL, &error);
            const int file = mkstemp(name);
            unlink(name);
            if (command(queue, buffer, CL_FALSE, 0, 4096, file, 0, 0, NULL, &event) != CL_SUCCESS ||
                clWaitForEvents(1, &event) != CL_SUCCESS)
                return fail("the command");
            clReleaseEvent(event);
            clReleaseMemObject(buffer);
            clReleaseCommandQueue(queue);
            clReleaseContext(context);
        }
        dlclose(library);
        if (dlopen(argv[i], RTLD_NOW | RTLD_NOLOAD) == NULL) return fail(argv[i]);
    }
    return 0;
}
