#include "base/crowding.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/clock.hpp"

namespace cldist {
namespace {

std::mutex processes_mutex;
std::vector<pid_t> &processes_of_job() {
    static auto *const processes =
        new std::vector<pid_t>{getpid()};  // never destroyed, because threads may still wait
                                           // while the process ends
    return *processes;
}

std::uint64_t used_by(pid_t process) {
    clockid_t clock{};
    return clock_getcpuclockid(process, &clock) == 0 ? now_ns(clock) : 0;
}

std::atomic<bool> fits_on_cores{true};

// /proc/stat begins with a line of totals. Then each core has a line with its number and its ticks
// in user mode, at low priority, and in kernel mode.
std::uint64_t used_on_cores() {
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 0;
    std::FILE *const file = std::fopen("/proc/stat", "re");
    if (file == nullptr) return 0;
    unsigned long long ticks = 0;
    char line[512];
    while (std::fgets(line, sizeof line, file) != nullptr) {
        unsigned core = 0;
        unsigned long long user = 0;
        unsigned long long low = 0;
        unsigned long long kernel = 0;
        if (std::sscanf(line, "cpu%u %llu %llu %llu", &core, &user, &low, &kernel) == 4) {
            if (core < CPU_SETSIZE && CPU_ISSET(core, &cores)) ticks += user + low + kernel;
        } else if (line[0] != 'c') {
            break;
        }
    }
    std::fclose(file);
    return ticks * (1'000'000'000 / static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK)));
}

}  // namespace

void Crowding::came_back_late(std::uint64_t now, std::uint64_t process_ns) {
    const std::uint64_t before = late_at_ns_.exchange(now, std::memory_order_relaxed);
    const std::uint64_t process_before =
        process_at_ns_.exchange(process_ns, std::memory_order_relaxed);
    if (before == 0 || now - before > holds_ns) return;
    // If the process used half a core or more, its own threads caused the delay.
    if (process_ns - process_before < (now - before) / 2)
        until_.store(now + holds_ns, std::memory_order_relaxed);
}

void Crowding::note(std::uint64_t now, const CoreTime &time) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t period = now - noted_ns_.load(std::memory_order_relaxed);
    if (period < shortest_period_ns) return;
    const CoreTime last = std::exchange(last_, time);
    noted_ns_.store(now, std::memory_order_relaxed);
    if (time.job_ns < last.job_ns) return;  // a process of the job has ended
    const std::uint64_t others =
        time.all_ns - last.all_ns - std::min(time.all_ns - last.all_ns, time.job_ns - last.job_ns);
    if (others >= period / 2) until_.store(now + holds_ns, std::memory_order_relaxed);
}

void set_processes_of_job(std::vector<pid_t> processes) {
    const std::lock_guard lock(processes_mutex);
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0)
        fits_on_cores = processes.size() <= static_cast<std::size_t>(CPU_COUNT(&cores));
    processes_of_job() = std::move(processes);
}

bool job_fits_on_cores() { return fits_on_cores; }

std::uint64_t process_time() { return used_by(getpid()); }

CoreTime read_core_time() {
    CoreTime time;
    {
        const std::lock_guard lock(processes_mutex);
        for (const pid_t process : processes_of_job()) time.job_ns += used_by(process);
    }
    time.all_ns = used_on_cores();
    return time;
}

}  // namespace cldist
