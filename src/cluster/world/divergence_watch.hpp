#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <mpi.h>

#include "cluster/calls/call_log.hpp"
#include "cluster/world/call_confirmation.hpp"
#include "cluster/world/new_start_vote.hpp"
#include "cluster/world/watch_messages.hpp"

namespace cldist::cluster {

/// Ends the job when its processes' calls differ. One process prints the first call that differs,
/// as both processes made it, and calls MPI_Abort with exit status 1, whatever the program's
/// threads are doing. A slower process does not differ as long as the calls that it has made are
/// the same.
///
/// A thread in each process sleeps most of the time. Twenty times a second, and at checkpoints, it
/// sends the number of calls and their hash to the neighbours, the processes with the adjacent
/// ranks. The neighbour that is further ahead compares. It cannot compare if it is millions of
/// calls ahead and has forgotten the other's last checkpoint.
///
/// With CLDIST_HOST_MODE=auto, rank 0 asks all processes whether they can start again if calls
/// differ, if calls of several threads overlap, or if other threads make the same calls in another
/// process. Meanwhile the programs do nothing that would prevent this. If all can, all end without
/// a message, and `cldist run` starts the job again with a central host. Otherwise only differing
/// calls end the job.
///
/// If calls come from several threads, objects may have got each other's numbers before the
/// difference is found. The program gets results only when its calls are known to be equal in all
/// processes. To this end, the reports say how far the calls are known to be equal.
///
/// If a neighbour receives no report for CLDIST_STALL_SECONDS, its rank and host are logged: its
/// process is stopped, or the network is interrupted. Therefore reports are also sent without news.
class DivergenceWatch {
public:
    /// Collective over `comm`, which is duplicated. Requires MPI_THREAD_MULTIPLE. Throws an Error.
    DivergenceWatch(MPI_Comm comm, CallLog &log, Start start = Start::with_answers);
    DivergenceWatch(const DivergenceWatch &) = delete;
    DivergenceWatch &operator=(const DivergenceWatch &) = delete;
    /// Without finish(), stops only this process's comparison. Not collective.
    ~DivergenceWatch();

    /// See Job::confirm_calls(). Any thread of the program, without the lock.
    void confirm() { confirmation_.wait(differs_); }
    /// Call it once when `program_end` is recorded, before MPI_Finalize. Returns when all processes
    /// have ended after the same calls, however long that takes. Throws an Error.
    void finish();

private:
    using Tag = WatchMessages::Tag;
    /// The contents of a message with the tag `report`.
    struct Report {
        CallHash last{0, 0};
        /// The hash at the last checkpoint, in case the receiver has forgotten `last`.
        std::uint64_t checkpoint_hash = 0;
        std::uint64_t ended = 0;  ///< 1 if the sender's program has ended
        /// The hash of the threads that made the calls.
        std::uint64_t threads = 0;
        /// So many calls of the receiver are equal to the sender's.
        std::uint64_t equal = 0;
        /// So many calls of the sender are equal to those of all processes on its other side.
        std::uint64_t equal_beyond = 0;

        bool operator==(const Report &) const = default;
    };
    using Clock = std::chrono::steady_clock;
    struct Neighbour {
        int rank;
        Report told;              ///< the last one to the neighbour
        Report theirs;            ///< the last one from the neighbour
        bool compared = true;     ///< `theirs` has been compared as far as possible
        std::uint64_t equal = 0;  ///< so many calls of theirs are equal to this process's
        std::string host;
        Clock::time_point told_at;
        bool is_silent = false;  ///< its silence has been logged
    };

    void run();
    bool round();
    bool receive();
    void take(int from, Tag tag, const std::string &bytes);
    [[nodiscard]] Neighbour *neighbour(int rank);
    /// Returns true if the neighbour has not received the last report yet.
    [[nodiscard]] bool is_on_its_way(const Neighbour &neighbour) const {
        return messages_.is_sending(neighbour.rank, Tag::report);
    }
    void report_silence(Neighbour &neighbour) const;
    [[nodiscard]] bool differ(Neighbour &neighbour);
    bool note_other_threads(Neighbour &neighbour);
    void report_threads(std::string why);
    [[nodiscard]] std::uint64_t equal_towards(int direction) const;
    bool tell(Neighbour &neighbour);
    void part();
    [[nodiscard]] bool all_ended();

    CallLog &log_;
    const Start start_;
    WatchMessages messages_;
    std::vector<Neighbour> neighbours_;
    CallConfirmation confirmation_;
    NewStartVote vote_;
    std::atomic<bool> differs_{false};
    bool threads_reported_ = false;
    bool threads_warned_ = false;
    std::atomic<bool> ended_{false};
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

}  // namespace cldist::cluster
