/// Programs that end while a dataset command is in flight. The argument selects how. A child
/// process runs the program, and the parent process checks the dataset.

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <CL/cl_ext_dist_hdf5.h>

#include "bare_device.hpp"

using namespace cldist_test;

namespace {

constexpr hsize_t size = 1 << 20;

/// Enqueues a write that waits for its gate, which another thread opens later.
void leave_a_write(const char *path) {
    const bare_device d(size);
    const std::vector<unsigned char> data(size, 7);
    clEnqueueWriteBuffer(d.queue, d.buffer, CL_TRUE, 0, size, data.data(), 0, nullptr, nullptr);
    // Files are in use before HDF5.
    expect("the code of a write to a stream",
           clEnqueueReadBufferToStdioFile(d.queue, d.buffer, CL_TRUE, 0, size, std::tmpfile(), 0,
                                          nullptr, nullptr),
           CL_SUCCESS);
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(1, &size, nullptr);
    const hid_t dataset =
        H5Dcreate2(file, "x", H5T_NATIVE_UCHAR, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    cl_event gate = clCreateUserEvent(d.context, nullptr);
    expect(
        "the code of the write",
        clEnqueueReadBufferToHDF5Dataset(d.queue, d.buffer, CL_FALSE, 0, dataset, H5T_NATIVE_UCHAR,
                                         H5S_ALL, H5P_DEFAULT, 1, &gate, nullptr),
        CL_SUCCESS);
    clDistLockHDF5();
    H5Dclose(dataset);
    H5Sclose(space);
    H5Fclose(file);
    clDistUnlockHDF5();
    std::thread([gate] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        clSetUserEventStatus(gate, CL_COMPLETE);
    }).detach();
}

long right_bytes(const char *path) {
    std::vector<unsigned char> found(size);
    const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t dataset = H5Dopen2(file, "x", H5P_DEFAULT);
    H5Dread(dataset, H5T_NATIVE_UCHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT, found.data());
    return std::ranges::count(found, 7);
}

}  // namespace

int main(int argc, char **argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    if (what != "exit" && what != "finalize") {
        std::fprintf(stderr, "unknown case: %s\n", what.c_str());
        return 2;
    }
    char path[] = "/tmp/cldist-hdf5-XXXXXX";
    ::close(::mkstemp(path));
    const pid_t child = ::fork();
    if (child == 0) {
        if (what == "finalize") {
            MPI_Init(&argc, &argv);
        }
        leave_a_write(path);
        if (what == "finalize") {
            MPI_Finalize();
        }
        return failures == 0 ? 0 : 1;
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    expect("the status of the program", status, 0);
    expect("the number of right bytes in the dataset", right_bytes(path), size);
    ::unlink(path);
    return failures == 0 ? 0 : 1;
}
