#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include <sys/types.h>

namespace cldist {

/// CPU time on the cores on which this process may run, in nanoseconds since an arbitrary moment.
struct CoreTime {
    std::uint64_t all_ns = 0;  ///< of all programs
    std::uint64_t job_ns = 0;  ///< of the processes of this job
};

/// Detects whether other programs want the cores of this process. If the job has no more processes
/// than cores, late returns from sched_yield show this. Otherwise another process of the job may
/// have run meanwhile, so the class compares the CPU time of the job with the CPU time of all
/// programs. Thread-safe.
class Crowding {
public:
    /// A yield of at least this duration is late.
    static constexpr std::uint64_t late_ns = 200'000;
    /// A result stays valid for this long.
    static constexpr std::uint64_t holds_ns = 200'000'000;
    /// The kernel counts CPU time in steps of 10 ms. Shorter periods therefore give no result.
    static constexpr std::uint64_t shortest_period_ns = 100'000'000;

    /// `time` was read at `now`. The first call of note() is compared with it.
    Crowding(std::uint64_t now, const CoreTime &time) : noted_ns_(now), last_(time) {}

    /// Reports a late yield in a job that fits on the cores. `process_ns` is the CPU time of this
    /// process until `now`. at() then returns true if there was another report within `holds_ns`,
    /// unless this process used at least half a core in between.
    void came_back_late(std::uint64_t now, std::uint64_t process_ns);

    /// Returns true if a late yield at `now` should be reported with note().
    [[nodiscard]] bool wants_times(std::uint64_t now) const {
        return now - noted_ns_.load(std::memory_order_relaxed) >= shortest_period_ns;
    }
    /// Reports a late yield in a job that does not fit on the cores. at() then returns true if
    /// other programs used at least half a core since the last report.
    void note(std::uint64_t now, const CoreTime &time);
    /// Returns true for `holds_ns` after a report that showed that other programs want the cores.
    [[nodiscard]] bool at(std::uint64_t now) const {
        return now < until_.load(std::memory_order_relaxed);
    }

private:
    std::atomic<std::uint64_t> until_{0};
    // The last came_back_late(): its time, or 0, and the CPU time of the process.
    std::atomic<std::uint64_t> late_at_ns_{0};
    std::atomic<std::uint64_t> process_at_ns_{0};
    // The last note(): its time and its CPU times.
    std::atomic<std::uint64_t> noted_ns_;
    std::mutex mutex_;
    CoreTime last_;
};

/// Sets the processes of this job on this host, including this one. By default the job is this
/// process alone.
void set_processes_of_job(std::vector<pid_t> processes);

/// Returns true if this process may use at least as many cores as the job has processes on this
/// host.
bool job_fits_on_cores();
/// CPU time of all threads of this process, in nanoseconds.
std::uint64_t process_time();
/// Reads the times from the kernel. The time of job processes that are not visible, for example in
/// another container, counts as time of other programs.
CoreTime read_core_time();

}  // namespace cldist
