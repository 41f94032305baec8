#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <mpi.h>

#include "cluster/calls/call_log.hpp"

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
    void confirm();
    /// Call it once when `program_end` is recorded, before MPI_Finalize. Returns when all processes
    /// have ended after the same calls, however long that takes. Throws an Error.
    void finish();

private:
    enum Tag : int {
        report,
        hashes,
        answer,
        verdict,
        host_name,
        threads,
        question,
        consent,
        decision
    };

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
    struct Sending {
        int to;
        Tag tag;
        std::string bytes;
        MPI_Request request = MPI_REQUEST_NULL;
    };

    void run();
    bool round();
    bool receive();
    void take(int from, Tag tag, const std::string &bytes);
    [[nodiscard]] Neighbour *neighbour(int rank);
    [[nodiscard]] bool is_on_its_way(const Neighbour &neighbour) const;
    void report_silence(Neighbour &neighbour) const;
    [[nodiscard]] bool differ(Neighbour &neighbour);
    bool note_other_threads(Neighbour &neighbour);
    void report_threads(std::string why);
    [[nodiscard]] std::uint64_t equal_towards(int direction) const;
    void note_equal();
    [[nodiscard]] std::uint64_t to_confirm() const;
    bool tell(Neighbour &neighbour);
    void send(int to, Tag tag, std::string bytes);
    void part();
    void consider(std::string why, std::string difference);
    void decide(bool again);
    void take_consent(int from, const std::string &refusal);
    void end_job(std::string_view message);
    [[nodiscard]] bool all_ended();

    CallLog &log_;
    const Start start_;
    MPI_Comm comm_ = MPI_COMM_NULL;
    int rank_ = 0;
    int size_ = 1;
    std::vector<Neighbour> neighbours_;
    std::list<Sending> sendings_;
    std::atomic<bool> differs_{false};
    bool threads_reported_ = false;
    bool threads_warned_ = false;
    /// Rank 0 has asked for consent to a new start, and has not decided.
    std::atomic<bool> held_{false};
    std::atomic<bool> confirms_{false};         ///< confirm() may wait
    std::atomic<std::uint64_t> equal_{0};       ///< so many calls are equal in all processes
    std::atomic<bool> threads_settled_{false};  ///< threads do not start the job again
    std::mutex confirm_mutex_;
    std::condition_variable confirm_changed_;
    // Only in rank 0:
    int missing_ = 0;         ///< outstanding messages with the tag `consent`
    std::string why_;         ///< the reason for a new start
    std::string difference_;  ///< the message to print if the job cannot start again
    std::string refusal_;     ///< the reason why it cannot
    std::optional<Clock::time_point> stopping_since_;  ///< a new start is decided
    MPI_Request barrier_ = MPI_REQUEST_NULL;
    std::atomic<bool> ended_{false};
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

}  // namespace cldist::cluster
