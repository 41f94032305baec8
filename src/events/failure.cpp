#include "events/failure.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <system_error>
#include <thread>

#include "base/job.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "events/failure_probe.hpp"

namespace cldist {
namespace {

// Flushes the program's output in another thread, for at most one second, because a third thread
// may hold the lock of a stream, or nobody may read it. Returns false if the flush has not ended.
bool flush_streams() {
    const auto flushed = std::make_shared<std::promise<void>>();
    try {
        std::thread([flushed] {
            std::fflush(stdout);
            std::fflush(nullptr);
            flushed->set_value();
        }).detach();
    } catch (const std::system_error &) {
        return true;  // no thread available, nothing was flushed
    }
    return flushed->get_future().wait_for(std::chrono::seconds(1)) == std::future_status::ready;
}

}  // namespace

std::atomic<void (*)()> before_ending_job = nullptr;

void end_job(const std::string &account, const char *why) {
    log_error("a command failed: {}\nending the job, {}", account, why);
    const bool flushed = flush_streams();
    trace::flush();
    if (const auto call = before_ending_job.load(); call != nullptr) call();
    // A thread that waits in fflush() holds glibc's lock of all streams. MPI_Abort() would wait for
    // this lock to read its settings. mpirun also ends the job of a process that exits like this.
    if (const Job *const with_mpi = job; flushed && with_mpi != nullptr) with_mpi->abort();
    std::_Exit(1);
}

void failure_policy(cl_device_id device, const std::string &account) {
    const OnError wanted = config().on_error;
    if (wanted == OnError::event ||
        (wanted == OnError::automatic && survives_failed_events(device))) {
        log_info("a command failed: {}", account);
        return;
    }
    end_job(account, wanted == OnError::abort
                         ? "because CLDIST_ON_ERROR is abort"
                         : "because this OpenCL platform aborts when commands wait for a failed "
                           "event (CLDIST_ON_ERROR=event continues nevertheless)");
}

}  // namespace cldist
