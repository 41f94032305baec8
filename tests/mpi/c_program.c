/* MPI_CL_MEM in plain C: its size, and a message of that type. */
#include <stdio.h>
#include <string.h>

#include <CL/cl_ext_dist.h>

int main(int argc, char **argv) {
    int size = 0;
    int rank = 0;
    int count = 0;
    char data[8] = "";
    MPI_Status status;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Type_size(MPI_CL_MEM, &size);
    MPI_Isend("1234567", 8, MPI_CL_MEM, rank, 1, MPI_COMM_WORLD, &request);
    MPI_Recv(data, 8, MPI_CL_MEM, rank, 1, MPI_COMM_WORLD, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Get_count(&status, MPI_CL_MEM, &count);
    MPI_Finalize();
    if (size != 1 || count != 8 || strcmp(data, "1234567") != 0) {
        fprintf(stderr, "size %d, count %d, data %s\n", size, count, data);
        return 1;
    }
    return 0;
}
