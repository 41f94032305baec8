#pragma once

#include <pthread.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>

namespace cldist {

/// Two errors would end the program by a signal: a write to a pipe without reader, and a write
/// beyond the file size limit. While this object exists, such calls of this thread return an error
/// instead. The library's threads block all signals.
class FileSignalsHeld {
public:
    FileSignalsHeld() {
        sigset_t pending;
        sigpending(&pending);
        sigemptyset(&ours_);
        for (const int signal : std::array{SIGPIPE, SIGXFSZ})
            if (sigismember(&pending, signal) == 0) sigaddset(&ours_, signal);
        pthread_sigmask(SIG_BLOCK, &ours_, &before_);
    }
    FileSignalsHeld(const FileSignalsHeld &) = delete;
    FileSignalsHeld &operator=(const FileSignalsHeld &) = delete;
    ~FileSignalsHeld() {
        const int error = errno;
        constexpr timespec at_once{0, 0};
        while (sigtimedwait(&ours_, nullptr, &at_once) > 0 || errno == EINTR) continue;
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
        errno = error;
    }

private:
    sigset_t ours_{};
    sigset_t before_{};
};

}  // namespace cldist
