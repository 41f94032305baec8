#pragma once

#include <atomic>
#include <string>

namespace cldist {

/// Functions of the modules that use MPI, for the modules that are built without mpi.h.
struct Job {
    std::string (*mpi_version)();  ///< name and version of the MPI library
    void (*abort)();               ///< MPI_Abort, if MPI is running
    void (*note_failures)(bool);   ///< ProgressThread::note_failures() of messages
    /// MPI_Finalize will wait for file commands before it ends libraries that use MPI now.
    void (*wait_for_files_at_finalize)();
};

/// Set when libcldist is loaded. Null in a program without it.
extern std::atomic<const Job *> job;

}  // namespace cldist
