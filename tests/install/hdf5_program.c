/* A user's program in C99 with HDF5. It calls every function once, without a device, and checks the
 * codes. */
#include <stdio.h>

#include <CL/cl_ext_dist_hdf5.h>

static int failures = 0;

static void expect(const char *what, long got, long wanted) {
    if (got != wanted) {
        printf("%s: got %ld, expected %ld\n", what, got, wanted);
        ++failures;
    }
}

int main(void) {
    hbool_t safe = 0;

    H5open();
    H5is_library_threadsafe(&safe);
    expect("clDistLockHDF5", clDistLockHDF5(), CL_SUCCESS);
    expect("clDistUnlockHDF5", clDistUnlockHDF5(), CL_SUCCESS);
    expect("clDistUnlockHDF5 again", clDistUnlockHDF5(), safe ? CL_SUCCESS : CL_INVALID_OPERATION);
    expect("clEnqueueReadBufferToHDF5Dataset",
           clEnqueueReadBufferToHDF5Dataset(NULL, NULL, CL_FALSE, 0, -1, H5T_NATIVE_INT, H5S_ALL,
                                            H5P_DEFAULT, 0, NULL, NULL),
           CL_INVALID_COMMAND_QUEUE);
    expect("clEnqueueWriteBufferFromHDF5Dataset",
           clEnqueueWriteBufferFromHDF5Dataset(NULL, NULL, CL_FALSE, 0, -1, H5T_NATIVE_INT, H5S_ALL,
                                               H5P_DEFAULT, 0, NULL, NULL),
           CL_INVALID_COMMAND_QUEUE);
    return failures != 0;
}
