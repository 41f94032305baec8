#pragma once

#include <memory>
#include <string>
#include <vector>

#include "events/engine.hpp"
#include "mpi_interop/communicator.hpp"
#include "mpi_interop/message_driver.hpp"
#include "mpi_interop/trace_clock.hpp"

namespace cldist {

/// A transfer that did not end, as the ranks tell each other. Ranks of MPI_COMM_WORLD.
struct Unmatched {
    int direction;  ///< of enum Direction
    int rank;
    int peer;  ///< or MPI_ANY_SOURCE, or MPI_UNDEFINED
    int tag;   ///< or MPI_ANY_TAG
    unsigned long long bytes;
};

/// What the library has between the initialisation of MPI and its end: the engine, its communicators, its channels.
class Runtime {
public:
    Runtime();
    Runtime(const Runtime &) = delete;
    Runtime &operator=(const Runtime &) = delete;
    ~Runtime();

    [[nodiscard]] Communicators &communicators() { return communicators_; }
    [[nodiscard]] Channels &channels() { return channels_; }
    [[nodiscard]] Engine &engine() { return *engine_; }
    /// To be used by operations that the engine drives.
    [[nodiscard]] MessageDriver &engine_driver() { return *driver_; }
    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int max_tag() const { return max_tag_; }

    /// Throws an Error with CL_MPI_NOT_INITIALIZED if MPI is not initialised, or already finalised.
    static void check_mpi_runs();
    /// Throws an Error with the cause and the remedy if MPI, which is initialised, runs below MPI_THREAD_MULTIPLE.
    static void check_thread_level();
    /// This library has initialised MPI, and requested MPI_THREAD_MULTIPLE.
    static void note_requested_level();
    [[nodiscard]] static bool requested_level();
    /// Called once MPI is initialised, collectively over MPI_COMM_WORLD; does nothing if there is one. Throws an Error.
    static void begin();
    /// Called in MPI_Finalize, collectively over MPI_COMM_WORLD: waits for the commands in flight, names those that will
    /// not end and ends them.
    static void finish();
    /// The current one, or null.
    static std::shared_ptr<Runtime> find();
    /// The current one. Throws an Error with CL_MPI_NOT_INITIALIZED or CL_MPI_THREAD_LEVEL_TOO_LOW. If this library did not
    /// see how MPI was initialised, the first call makes one, collectively over MPI_COMM_WORLD.
    static std::shared_ptr<Runtime> current();
    /// The same for an MPI call, which makes none.
    static std::shared_ptr<Runtime> current_in_mpi_call();
    /// At exit the engine must stop before the OpenCL platform goes. To be called again when a platform was met.
    static void stop_at_exit();

private:
    [[nodiscard]] std::vector<Unmatched> unmatched() const;
    /// Waits for the end of the operation that `begin` starts with MPI.
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
    std::unique_ptr<Engine> engine_;
};

/// One line for each, with what the other side has instead.
std::vector<std::string> match_unmatched(const std::vector<Unmatched> &all);

}  // namespace cldist
