#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <CL/cl_ext_dist.h>

#include "events/progress_thread.hpp"
#include "mpi_interop/communicator.hpp"
#include "mpi_interop/message_driver.hpp"
#include "mpi_interop/trace_clock.hpp"

namespace cldist {

/// A transfer that did not end, in the form that the ranks exchange. Ranks refer to MPI_COMM_WORLD.
struct Unmatched {
    int direction;  ///< as in enum Direction
    int rank;
    int peer;  ///< or MPI_ANY_SOURCE, or MPI_UNDEFINED
    int tag;   ///< or MPI_ANY_TAG
    unsigned long long bytes;
    /// The name of a collective, or ": " and why a command has not started. Cut if too long.
    std::array<char, 160> text{};
};

/// The library's state between the initialisation and the end of MPI: progress thread,
/// communicators, channels.
class Runtime {
public:
    Runtime();
    Runtime(const Runtime &) = delete;
    Runtime &operator=(const Runtime &) = delete;
    ~Runtime();

    [[nodiscard]] Communicators &communicators() { return communicators_; }
    [[nodiscard]] Channels &channels() { return channels_; }
    [[nodiscard]] ProgressThread &progress_thread() { return *progress_thread_; }
    /// For operations that the progress thread drives.
    [[nodiscard]] MessageDriver &progress_driver() { return *driver_; }
    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int max_tag() const { return max_tag_; }

    /// Throws an Error with CL_MPI_NOT_INITIALIZED if MPI is not initialised or was finalised.
    static void check_mpi_runs();
    /// Throws an Error with cause and remedy if MPI's thread level is below MPI_THREAD_MULTIPLE.
    /// MPI must be initialised.
    static void check_thread_level();
    /// Stores that this library has requested MPI_THREAD_MULTIPLE from MPI.
    static void note_requested_level();
    [[nodiscard]] static bool requested_level();
    /// Called after the initialisation of MPI, collectively over MPI_COMM_WORLD. Does nothing if a
    /// Runtime exists. Throws an Error.
    static void begin();
    /// Called in MPI_Finalize, collectively over MPI_COMM_WORLD. Waits for pending commands, lists
    /// the commands that will not end, and ends them.
    static void finish();
    /// The current Runtime, or null.
    static std::shared_ptr<Runtime> find();
    /// The current Runtime. Throws an Error with CL_MPI_NOT_INITIALIZED or
    /// CL_MPI_THREAD_LEVEL_TOO_LOW. If this library did not see the initialisation of MPI, the
    /// first call creates a Runtime, collectively over MPI_COMM_WORLD.
    static std::shared_ptr<Runtime> current();
    /// The same for an MPI call, but never creates a Runtime.
    static std::shared_ptr<Runtime> current_in_mpi_call();
    /// Stops the progress thread at exit. This must happen before the OpenCL platform is unloaded.
    /// Exit handlers run in reverse order, so call it again when a platform is first used.
    static void stop_at_exit();

private:
    [[nodiscard]] std::vector<Unmatched> unmatched() const;
    /// Waits for the end of the MPI operation that `begin` starts.
    template <typename Begin>
    void complete(Begin &&begin);
    std::vector<int> gather_counts(int mine);
    void name_unmatched(const std::vector<Unmatched> &mine, std::vector<int> counts);

    Communicators communicators_;
    TraceClock trace_clock_;
    int rank_ = 0;
    int max_tag_ = 32767;
    Channels channels_;
    Inquiries inquiries_;
    MessageDriver *driver_;
    std::unique_ptr<ProgressThread> progress_thread_;
};

/// One line per transfer, with the transfers that its peer has instead. At most 40 transfers.
std::vector<std::string> match_unmatched(const std::vector<Unmatched> &all);

}  // namespace cldist
