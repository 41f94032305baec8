#pragma once

#include <atomic>
#include <string>

namespace cldist {

/// What the modules that use MPI do for those that do not.
struct Job {
    std::string (*mpi_version)();  ///< name and version of the MPI library
    void (*abort)();               ///< MPI_Abort, if MPI is running
    void (*note_failures)();       ///< makes failures of messages visible to clGetTransferInfo
};

/// Null in a program without libcldist.
extern std::atomic<const Job *> job;

}  // namespace cldist
