/// MPI files of a test, and short forms of their commands.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "transfers.hpp"

namespace cldist_test {

/// A folder that all ranks of a case share. Rank 0 creates and deletes it.
class shared_folder {
public:
    explicit shared_folder(const mpi_view &mpi_in) : mpi(mpi_in), path(4096, '\0') {
        if (mpi.rank == 0) {
            path = (std::filesystem::temp_directory_path() / "cldist-files-XXXXXX").string();
            REQUIRE(::mkdtemp(path.data()) != nullptr);
            path.resize(4096);
        }
        MPI_Bcast(path.data(), static_cast<int>(path.size()), MPI_CHAR, 0, mpi.comm);
        path.resize(path.find('\0'));
    }
    ~shared_folder() {
        if (mpi.rank == 0) {
            std::filesystem::remove_all(path);
        }
    }
    shared_folder(const shared_folder &) = delete;
    shared_folder &operator=(const shared_folder &) = delete;

    [[nodiscard]] std::string file(const std::string &name) const { return path + "/" + name; }

private:
    const mpi_view &mpi;
    std::string path;
};

/// A file that the processes of a communicator have opened together.
class mpi_file {
public:
    mpi_file(MPI_Comm comm, const std::string &path, int mode = MPI_MODE_CREATE | MPI_MODE_RDWR) {
        REQUIRE(MPI_File_open(comm, path.c_str(), mode, MPI_INFO_NULL, &handle) == MPI_SUCCESS);
    }
    ~mpi_file() { MPI_File_close(&handle); }
    mpi_file(const mpi_file &) = delete;
    mpi_file &operator=(const mpi_file &) = delete;

    operator MPI_File() const { return handle; }  // NOLINT: handles are passed to C calls

    /// Makes all earlier writes of all ranks visible to all ranks. Collective.
    void share(const mpi_view &mpi) const {
        MPI_File_sync(handle);
        mpi.barrier();
        MPI_File_sync(handle);
    }

private:
    MPI_File handle = MPI_FILE_NULL;
};

enum class calls { independent, collective };

inline event_handle write_file(calls how, cl_command_queue queue, cl_mem buffer, std::size_t offset,
                               std::size_t size, MPI_File file, MPI_Offset at,
                               wait_list events = {}, cl_bool blocking = CL_FALSE) {
    event_handle event;
    const auto call =
        how == calls::collective ? clEnqueueReadBufferToMPIFileAll : clEnqueueReadBufferToMPIFile;
    CL_OK(call(queue, buffer, blocking, offset, size, file, at, static_cast<cl_uint>(events.size()),
               data_of(events), event.out()));
    return event;
}

inline event_handle read_file(calls how, cl_command_queue queue, cl_mem buffer, std::size_t offset,
                              std::size_t size, MPI_File file, MPI_Offset at, wait_list events = {},
                              cl_bool blocking = CL_FALSE) {
    event_handle event;
    const auto call = how == calls::collective ? clEnqueueWriteBufferFromMPIFileAll
                                               : clEnqueueWriteBufferFromMPIFile;
    CL_OK(call(queue, buffer, blocking, offset, size, file, at, static_cast<cl_uint>(events.size()),
               data_of(events), event.out()));
    return event;
}

/// Waits for a command that must transfer `size` bytes.
inline void expect_moved(cl_event event, std::size_t size) {
    expect_complete(event);
    CHECK(transfer_info<std::size_t>(event, CL_TRANSFER_BYTES) == size);
}

/// Waits for a command that must reach the end of the file after `size` bytes.
inline void expect_end_of_file(cl_event event, std::size_t size) {
    expect_failure(event, CL_END_OF_FILE);
    CHECK(transfer_info<std::size_t>(event, CL_TRANSFER_BYTES) == size);
}

}  // namespace cldist_test
