// A program that uses MPI and OpenCL, and whose ranks behave differently.
#include <CL/cl.h>
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <ctime>

int main(int argc, char **argv) {
    int level = 0;
    int rank = 0;
    if (argc > 1 && std::strcmp(argv[1], "single") == 0) {
        MPI_Init(&argc, &argv);
        cl_platform_id platform = nullptr;
        clGetPlatformIDs(1, &platform, nullptr);
        cl_uint count = 0;
        std::printf("clGetDeviceIDs returned %d\n",
                    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count));
        MPI_Finalize();
        return 0;
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    // Rank 0 waits in MPI for rank 1, so rank 1's clock query must not wait for rank 0.
    std::time_t now = 0;
    if (rank == 0)
        MPI_Recv(&now, sizeof now, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (rank == 1) {
        now = std::time(nullptr);
        MPI_Send(&now, sizeof now, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
    if (argc > 2 && std::strcmp(argv[1], "child") == 0) {
        const pid_t child = fork();
        if (child == 0) {
            execv(argv[2], argv + 2);
            _exit(127);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (status != 0) return 9;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (argc > 1 && std::strcmp(argv[1], "differ") == 0) {
        cl_platform_id platform = nullptr;
        cl_device_id device = nullptr;
        clGetPlatformIDs(1, &platform, nullptr);
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr);
        cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, nullptr);
        cl_mem buffer =
            clCreateBuffer(context, CL_MEM_READ_WRITE, rank == 0 ? 64 : 128, nullptr, nullptr);
        clReleaseMemObject(buffer);
        clReleaseContext(context);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0) std::printf("received %d\n", now > 0 ? 1 : 0);
    MPI_Finalize();
}
