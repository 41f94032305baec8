/* Launches kernels in a queue with profiling and in one without, with and without events. With
 * CLDIST_NAMES, the program gives one of them to clTraceEvent. */
#include <stdio.h>
#include <stdlib.h>

#include <CL/cl_ext_dist.h>

static void expect(const char *what, cl_int got, cl_int wanted) {
    if (got == wanted) return;
    printf("FAILED: %s: %s\n", what, clDistErrorName(got));
    exit(EXIT_FAILURE);
}

int main(int argc, char **argv) {
    const cl_queue_properties profiled[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0};
    const char *source =
        "kernel void seen(global int *x) { x[get_global_id(0)] += 1; }"
        "kernel void task(global int *x) { x[0] += 1; }";
    const size_t count = 16;
    int data[16] = {0};
    cl_device_id device;
    cl_event event, last;
    cl_int error;

    MPI_Init(&argc, &argv);
    expect("device", clDistLocalDevice(MPI_COMM_WORLD, NULL, CL_DEVICE_TYPE_ALL, &device),
           CL_SUCCESS);
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    cl_command_queue queue = clCreateCommandQueueWithProperties(context, device, profiled, &error);
    cl_command_queue other = clCreateCommandQueueWithProperties(context, device, NULL, &error);
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
    expect("build", clBuildProgram(program, 1, &device, "", NULL, NULL), CL_SUCCESS);
    cl_kernel seen = clCreateKernel(program, "seen", &error);
    cl_kernel task = clCreateKernel(program, "task", &error);
    cl_mem x = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof data, data, &error);

    expect("no argument", clEnqueueNDRangeKernel(queue, seen, 1, NULL, &count, NULL, 0, NULL, NULL),
           CL_INVALID_KERNEL_ARGS);
    clSetKernelArg(seen, 0, sizeof x, &x);
    clSetKernelArg(task, 0, sizeof x, &x);
    expect("launch", clEnqueueNDRangeKernel(queue, seen, 1, NULL, &count, NULL, 0, NULL, NULL),
           CL_SUCCESS);
    expect("launch with event",
           clEnqueueNDRangeKernel(queue, seen, 1, NULL, &count, NULL, 0, NULL, &event), CL_SUCCESS);
    expect("launch behind it", clEnqueueTask(queue, task, 1, &event, &last), CL_SUCCESS);
#ifdef CLDIST_NAMES
    expect("clTraceEvent", clTraceEvent(event, "named"), CL_SUCCESS);
#endif
    expect("wait", clWaitForEvents(1, &last), CL_SUCCESS);
    expect("launch without profiling",
           clEnqueueNDRangeKernel(other, seen, 1, NULL, &count, NULL, 0, NULL, NULL), CL_SUCCESS);
    expect("read", clEnqueueReadBuffer(other, x, CL_TRUE, 0, sizeof data, data, 0, NULL, NULL),
           CL_SUCCESS);
    if (data[0] != 4 || data[15] != 3) {
        printf("FAILED: the kernels computed %d and %d\n", data[0], data[15]);
        return EXIT_FAILURE;
    }
    clReleaseEvent(event);
    clReleaseEvent(last);
    clFinish(queue);
    MPI_Finalize();
    return EXIT_SUCCESS;
}
