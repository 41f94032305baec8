// Wraps _exit and exec, with which a program ends without exit(): the cluster platform ends first,
// as it does at exit.
#include <alloca.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstring>
#include <string>
#include <string_view>

#include "host/effects.hpp"
#include "host/gate.hpp"
#include "host/next.hpp"

namespace cldist::host {
namespace {

std::atomic<void (*)()> end_of_platform = nullptr;
std::atomic<pid_t> process_of_platform = 0;

// Forked children have the variables above, too, but must not end the platform.
void end_platform() {
    const SameErrno same;
    if (auto *const end = end_of_platform.load();
        end != nullptr && process_of_platform == syscall(SYS_getpid))
        end();
}

bool is_executable(const char *path) { return access(path, X_OK) == 0; }

// Returns true if execvp would find the program.
bool is_in_path(const char *name) {
    if (std::strchr(name, '/') != nullptr) return is_executable(name);
    const char *const path = std::getenv("PATH");
    std::string_view rest = path != nullptr ? path : "/bin:/usr/bin";
    for (bool more = true; more;) {
        const std::size_t end = rest.find(':');
        more = end != std::string_view::npos;
        const std::string_view folder = rest.substr(0, end);
        if (is_executable((std::string(folder.empty() ? "." : folder) + "/" + name).c_str()))
            return true;
        if (more) rest.remove_prefix(end + 1);
    }
    return false;
}

// Inlined into each wrapper, so the return address is in the wrapper's caller. A child of vfork
// notes the effect for its parent, because they share memory.
[[gnu::always_inline]] inline void note_exec() {
    note_effect("has started another process", __builtin_return_address(0));
}

// If the call fails because there is no such program, the platform must not end.
[[gnu::always_inline]] inline int become(const char *path, char *const *arguments,
                                         char *const *environment) {
    note_exec();
    CLDIST_NEXT(execve);
    if (is_executable(path)) end_platform();
    return next(path, arguments, environment);
}
[[gnu::always_inline]] inline int become_found(const char *name, char *const *arguments,
                                               char *const *environment) {
    note_exec();
    CLDIST_NEXT(execvpe);
    if (is_in_path(name)) end_platform();
    return next(name, arguments, environment);
}

[[noreturn, gnu::always_inline]] inline void end_process(int status) {
    CLDIST_NEXT(_exit);
    // Another status ends the job at once, unless the processes are deciding on a new start.
    if (status == 0)
        end_platform();
    else
        note_effect("has failed", __builtin_return_address(0));
    next(status);
    __builtin_unreachable();
}

}  // namespace
}  // namespace cldist::host

using namespace cldist::host;

/// Called by this process's cluster platform. `end` is called before _exit and exec.
CLDIST_IN_FRONT void cldistBeforeEnd(void (*end)()) {
    process_of_platform = static_cast<pid_t>(syscall(SYS_getpid));
    end_of_platform = end;
}

CLDIST_IN_FRONT void _exit(int status) { end_process(status); }
CLDIST_IN_FRONT void _Exit(int status) noexcept { end_process(status); }

CLDIST_IN_FRONT int execve(const char *path, char *const *arguments,
                           char *const *environment) noexcept {
    return become(path, arguments, environment);
}
CLDIST_IN_FRONT int execv(const char *path, char *const *arguments) noexcept {
    return become(path, arguments, environ);
}
CLDIST_IN_FRONT int execvp(const char *name, char *const *arguments) noexcept {
    return become_found(name, arguments, environ);
}
CLDIST_IN_FRONT int execvpe(const char *name, char *const *arguments,
                            char *const *environment) noexcept {
    return become_found(name, arguments, environment);
}
CLDIST_IN_FRONT int fexecve(int file, char *const *arguments, char *const *environment) noexcept {
    CLDIST_NEXT(fexecve);
    note_exec();
    end_platform();
    return next(file, arguments, environment);
}

// Collects the arguments from `first` to the null pointer in `arguments`, and returns the result of
// the expression `become`. There, `rest` is after the null pointer.
#define CLDIST_WITH_ARGUMENTS(first, rest, become)                                      \
    std::va_list rest;                                                                  \
    va_start(rest, first);                                                              \
    std::size_t count = 1;                                                              \
    while (va_arg(rest, char *) != nullptr) ++count;                                    \
    va_end(rest);                                                                       \
    auto *const arguments = static_cast<char **>(alloca((count + 1) * sizeof(char *))); \
    va_start(rest, first);                                                              \
    arguments[0] = const_cast<char *>(first);                                           \
    for (std::size_t i = 1; i <= count; ++i) arguments[i] = va_arg(rest, char *);       \
    const int result = become;                                                          \
    va_end(rest);                                                                       \
    return result

CLDIST_IN_FRONT int execl(const char *path, const char *first, ...) noexcept {
    CLDIST_WITH_ARGUMENTS(first, rest, become(path, arguments, environ));
}
CLDIST_IN_FRONT int execlp(const char *name, const char *first, ...) noexcept {
    CLDIST_WITH_ARGUMENTS(first, rest, become_found(name, arguments, environ));
}
CLDIST_IN_FRONT int execle(const char *path, const char *first, ...) noexcept {
    CLDIST_WITH_ARGUMENTS(first, rest, become(path, arguments, va_arg(rest, char *const *)));
}
