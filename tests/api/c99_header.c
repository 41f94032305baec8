/* The public headers are plain C99, can be included together, and define no names of OpenCL. */
#include <CL/cl_ext_attach.h>
#include <CL/cl_ext_collective.h>
#include <CL/cl_ext_dist.h>
#include <CL/cl_ext_split.h>

#ifdef CL_DOUBLE
#error "CL_DOUBLE is not a name of this library"
#endif
/* Khronos assigns values below 0x5000, and reserves 0x10000 to 0x10FFF. */
#if CL_DOUBLE_DIST <= 0x10FFF || CL_SIGNED_INT64_DIST <= 0x10FFF ||        \
    CL_UNSIGNED_INT64_DIST <= 0x10FFF || CL_DEVICE_RANK_DIST <= 0x10FFF || \
    CL_DEVICE_HOST_DIST <= 0x10FFF
#error "the value may be one of Khronos'"
#endif

#if CL_DIST_ERROR_STRING != CL_TRANSFER_ERROR_MESSAGE
#error "CL_DIST_ERROR_STRING is another name of CL_TRANSFER_ERROR_MESSAGE"
#endif

int main(void) {
    const cl_int before =
        clDistInit(MPI_COMM_WORLD); /* MPI is not initialised: an error, not a crash */
    return before == CL_MPI_NOT_INITIALIZED ? 0 : 1;
}
