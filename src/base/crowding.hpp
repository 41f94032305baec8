#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include <sys/types.h>

namespace cldist {

/// CPU time that was used on the cores on which this process may run, in nanoseconds since some moment.
struct CoreTime {
    std::uint64_t all_ns = 0;  ///< by all programs
    std::uint64_t job_ns = 0;  ///< by the processes of this job
};

/// Whether other programs want the cores of this process. A late return from sched_yield shows that if the job has no more
/// processes than cores. Otherwise another process of the job may have done useful work meanwhile, and what the job used of the
/// cores is compared with what all programs used. Thread-safe.
class Crowding {
public:
    /// A yield that returns sooner shows nothing.
    static constexpr std::uint64_t late_ns = 200'000;
    /// How long a finding remains valid.
    static constexpr std::uint64_t holds_ns = 200'000'000;
    /// The kernel counts the cores' time in steps of 10 ms, so a shorter period shows nothing.
    static constexpr std::uint64_t shortest_period_ns = 100'000'000;

    /// Times to compare the first late yield with.
    Crowding(std::uint64_t now, const CoreTime &time) : noted_ns_(now), last_(time) {}

    /// A yield of a process whose job fits on the cores returned late. Until `now` the process has used `process_ns`. After the
    /// second time `at` is true, unless threads of the process itself used the time between.
    void came_back_late(std::uint64_t now, std::uint64_t process_ns);

    /// Whether a late yield at `now` is a reason to call `note`.
    [[nodiscard]] bool wants_times(std::uint64_t now) const {
        return now - noted_ns_.load(std::memory_order_relaxed) >= shortest_period_ns;
    }
    /// A yield returned late in a job that does not fit on the cores. If other programs used half a core or more since the
    /// last call, `at` is true from `now` on.
    void note(std::uint64_t now, const CoreTime &time);
    [[nodiscard]] bool at(std::uint64_t now) const { return now < until_.load(std::memory_order_relaxed); }

private:
    std::atomic<std::uint64_t> until_{0};
    // When a yield came back late before, and what the process had used by then; 0: never.
    std::atomic<std::uint64_t> late_at_ns_{0};
    std::atomic<std::uint64_t> process_at_ns_{0};
    // The times noted last, and when.
    std::atomic<std::uint64_t> noted_ns_;
    std::mutex mutex_;
    CoreTime last_;
};

/// Sets the processes of this job on this host, which include this one. Until then the job is this process alone.
void set_processes_of_job(std::vector<pid_t> processes);

/// Whether the job has no more processes on this host than this process may use cores.
bool job_fits_on_cores();
/// CPU time of all threads of this process, in nanoseconds.
std::uint64_t process_time();
/// Reads the times from the kernel. Of processes that it cannot see, for example in another container, the time counts as
/// that of other programs.
CoreTime read_core_time();

}  // namespace cldist
