#pragma once

#include <pthread.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>

namespace cldist {

/// Makes errors of what would end the program: writing to a pipe that nobody reads, or past the limit of a file's size.
/// For the length of a call, on the caller's thread; the library's own threads block all signals.
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
