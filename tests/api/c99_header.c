/* The public header is plain C99. */
#include <CL/cl_ext_dist.h>

int main(void) {
    const cl_int before = clDistInit(MPI_COMM_WORLD); /* MPI is not initialised: an error, not a crash */
    return before == CL_MPI_NOT_INITIALIZED ? 0 : 1;
}
