#include "events/stall_watcher.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "events/record.hpp"

namespace cldist {

StallWatcher::StallWatcher(double stall_seconds)
    : stall_seconds_(stall_seconds),
      tick_(stall_seconds > 0 ? std::clamp(stall_seconds / 4, 0.05, 5.0) : 5.0),
      thread_([this] { watch(); }) {}

void StallWatcher::stop() {
    if (!thread_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    stopped_.notify_one();
    thread_.join();
}

void StallWatcher::watch() {
    prctl(PR_SET_NAME, "cldist-watcher");
    std::unique_lock lock(mutex_);
    while (!stopped_.wait_for(lock, tick_, [&] { return stop_; })) {
        const std::vector<std::string> lines = pending_records().stalled(stall_seconds_, now_ns());
        if (lines.empty()) continue;
        std::string text =
            fmt::format("no progress for {} s (CLDIST_STALL_SECONDS); pending:", stall_seconds_);
        for (const std::string &line : lines) text += "\n  " + line;
        lock.unlock();  // a write to standard error may block
        log_error("{}", text);
        lock.lock();
    }
}

}  // namespace cldist
