// Detects the program's effects outside its process, which prevent a new start (decision 43).
#include "host/effects.hpp"

#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <pty.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <syslog.h>
#include <unistd.h>
#include <utime.h>
#include <wordexp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "host/gate.hpp"
#include "host/next.hpp"
#include "host/places.hpp"

namespace cldist::host {
namespace {

std::atomic<const char *> first_effect = nullptr;
// Futex: 1 while the processes decide whether the job starts again.
std::atomic<std::uint32_t> held = 0;

void set_effect(const char *what) {
    const char *none = nullptr;
    first_effect.compare_exchange_strong(none, what);
}

std::string contents(const char *path) {
    const int file = next_open(path, O_RDONLY | O_CLOEXEC, 0);
    std::string text(4096, '\0');
    const ssize_t size = file >= 0 ? next_read(file, text.data(), text.size()) : 0;
    if (file >= 0) next_close(file);
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return text;
}

// The kernel counts the writes of a process and of its ended children, including those before exec.
bool has_written_nothing() {
    return contents("/proc/self/io").find("\nsyscw: 0\n") != std::string::npos;
}

bool had_children() {
    rusage usage{};
    return getrusage(RUSAGE_CHILDREN, &usage) != 0 || usage.ru_minflt != 0;
}

// Output passes through `cldist run` and mpirun. Only a script redirects it to a regular file.
bool is_regular(int descriptor) {
    struct stat state {};
    return fstat(descriptor, &state) == 0 && S_ISREG(state.st_mode);
}

bool has_other_descriptors() {
    const char *const launcher = std::getenv("PMI_FD");  // MPICH's connection to its launcher
    for (int descriptor = 3; descriptor < 1024; ++descriptor)
        if (fcntl(descriptor, F_GETFD) >= 0 &&
            (launcher == nullptr || std::atoi(launcher) != descriptor))
            return true;
    return false;
}

// Go programs call the kernel without the C library. Their executables contain a compiler's note.
bool is_go() {
    bool found = false;
    dl_iterate_phdr(
        [](dl_phdr_info *info, std::size_t, void *to) {
            for (int i = 0; i < info->dlpi_phnum; ++i) {
                const ElfW(Phdr) &part = info->dlpi_phdr[i];
                if (part.p_type != PT_NOTE) continue;
                const auto *const begin =
                    reinterpret_cast<const char *>(info->dlpi_addr + part.p_vaddr);
                if (memmem(begin, part.p_memsz, "Go\0", 4) != nullptr)
                    *static_cast<bool *>(to) = true;
            }
            return 0;
        },
        &found);
    return found;
}

// With an io_uring, a program makes system calls without the C library's functions.
bool has_ring() {
    std::array<char, 64> link{};
    for (int descriptor = 3; descriptor < 1024; ++descriptor) {
        const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
        const ssize_t size = readlink(path.c_str(), link.data(), link.size());
        if (size > 0 && std::string_view(link.data(), static_cast<std::size_t>(size)) ==
                            "anon_inode:[io_uring]")
            return true;
    }
    return false;
}

bool has_input() {
    int waiting = 0;
    return stdin->_IO_read_end != stdin->_IO_read_base || std::feof(stdin) != 0 ||
           (ioctl(STDIN_FILENO, FIONREAD, &waiting) == 0 && waiting > 0);
}

// Returns true if `cldist run --rank` has started the program. Otherwise the parent program would
// also start again.
bool is_program_of_rank() {
    const char *const file = std::getenv("CLDIST_HOST_RANK_FILE");
    int parent = 0;
    return file != nullptr && std::sscanf(file, "/proc/%d/", &parent) == 1 &&
           parent == syscall(SYS_getppid);
}

const char *why_not_again() {
    if (Session::current() == nullptr)
        return "does not get the answers of rank 0 (CLDIST_HOST_WRAP)";
    if (const char *const reason = std::getenv("CLDIST_NO_NEW_START")) return reason;
    if (const char *const effect = first_effect.load()) return effect;
    if (!is_program_of_rank()) return "was started by another program";
    if (is_go()) return "was written in Go, so its system calls cannot be observed";
    if (has_ring()) return "uses io_uring, so its system calls cannot be observed";
    if (has_input()) return "has got standard input";
    return nullptr;
}

// System calls without effect outside the process.
bool is_harmless(long number) {
    switch (number) {
        case SYS_gettid:
        case SYS_getpid:
        case SYS_getppid:
        case SYS_futex:
        case SYS_getrandom:
        case SYS_getcpu:
        case SYS_sched_yield:
        case SYS_sched_getaffinity:
        case SYS_sched_setaffinity:
        case SYS_membarrier:
        case SYS_memfd_create:
        case SYS_mbind:
        case SYS_get_mempolicy:
        case SYS_set_mempolicy:
        case SYS_clock_gettime:
        case SYS_newfstatat:
        case SYS_statx: return true;
        default: return false;
    }
}

Addresses executable;  // of the program

// Returns true if the caller acts for the program, and no effect has been noted or calls are held.
// In a thread of the program, all calls outside OpenCL count: the program may use the same unknown
// libraries as MPI and drivers. Within OpenCL, calls from the executable count, which its signal
// handlers make.
bool is_news(const void *caller) {
    if (first_effect.load(std::memory_order_relaxed) != nullptr && held == 0) return false;
    const Thread &thread = this_thread;
    if (thread.opencl_calls != 0 && !thread.in_callbacks)
        return executable.contain(reinterpret_cast<std::uintptr_t>(caller));
    return thread.id != 0 || from_program(caller);
}

// Returns true for /dev/null, zero, full, random and urandom: writing to them has no effect, and
// reading takes nothing from other readers.
bool is_bottomless(const struct stat &state) {
    static constexpr std::array<unsigned, 5> minors = {3, 5, 7, 8, 9};
    return S_ISCHR(state.st_mode) && major(state.st_rdev) == 1 &&
           std::ranges::find(minors, minor(state.st_rdev)) != minors.end();
}

}  // namespace

void begin_effects() {
    dl_iterate_phdr(
        [](dl_phdr_info *info, std::size_t, void *) {
            executable = addresses_of(*info);
            return 1;  // the first module is the executable
        },
        nullptr);
    if (!has_written_nothing() || had_children()) set_effect("was started by another program");
    if (has_other_descriptors()) set_effect("has inherited open files");
    if (is_regular(STDOUT_FILENO) || is_regular(STDERR_FILENO))
        set_effect("writes its output to a file");
}

void note_effect(const char *what, const void *caller) {
    if (!is_news(caller)) return;
    const SameErrno same;
    set_effect(what);
    while (held != 0) sleep_on(held, 1, 1000);
}

void note_opening(int folder, const char *path, int flags, const void *caller) {
    if (path == nullptr || !is_news(caller)) return;
    const SameErrno same;
    struct stat state {};
    const bool is_there = syscall(SYS_newfstatat, folder, path, &state, 0) == 0;
    if (is_there && is_bottomless(state)) return;
    if (is_for_writing(flags)) note_effect("has opened a file for writing", caller);
    // A pipe, a terminal or a device gives each byte only once.
    if (is_there && !S_ISREG(state.st_mode) && !S_ISDIR(state.st_mode))
        note_effect("has opened a pipe or a device", caller);
}

}  // namespace cldist::host

using namespace cldist::host;

// ---- For the cluster platform

/// Lets the program's calls that would have an effect wait until cldist_host_release_effects().
/// Returns null if the program can start again, otherwise the reason why it cannot, which continues
/// "the program ...".
CLDIST_IN_FRONT const char *cldist_host_hold_effects() {
    held = 1;
    return why_not_again();
}

CLDIST_IN_FRONT void cldist_host_release_effects() {
    held = 0;
    syscall(SYS_futex, reinterpret_cast<std::uint32_t *>(&held), FUTEX_WAKE, INT_MAX, nullptr,
            nullptr, 0);
}

// ---- Functions that have an effect

#define CLDIST_EFFECT(what, result, name, parameters, arguments) \
    CLDIST_IN_FRONT result name parameters {                     \
        CLDIST_NEXT(name);                                       \
        note_effect(what, __builtin_return_address(0));          \
        return next arguments;                                   \
    }

namespace {
constexpr const char *socket_used = "has used a socket";
constexpr const char *process_started = "has started another process";
constexpr const char *memory_shared = "has opened memory that it may share with other processes";
constexpr const char *folder_changed = "has changed a file or folder";
}  // namespace

CLDIST_EFFECT(socket_used, int, socket, (int domain, int type, int protocol) noexcept,
              (domain, type, protocol))
CLDIST_EFFECT(socket_used, int, socketpair,
              (int domain, int type, int protocol, int *pair) noexcept,
              (domain, type, protocol, pair))
CLDIST_EFFECT("has written to the system's log", void, vsyslog,
              (int priority, const char *format, va_list arguments), (priority, format, arguments))
CLDIST_IN_FRONT void syslog(int priority, const char *format, ...) {
    note_effect("has written to the system's log", __builtin_return_address(0));
    va_list arguments;
    va_start(arguments, format);
    next_function<decltype(::vsyslog)>("vsyslog")(priority, format, arguments);
    va_end(arguments);
}
// With _FORTIFY_SOURCE.
extern "C" void __vsyslog_chk(int priority, int flag, const char *format, va_list arguments);
extern "C" void __syslog_chk(int priority, int flag, const char *format, ...);
CLDIST_EFFECT("has written to the system's log", void, __vsyslog_chk,
              (int priority, int flag, const char *format, va_list arguments),
              (priority, flag, format, arguments))
CLDIST_IN_FRONT void __syslog_chk(int priority, int flag, const char *format, ...) {
    note_effect("has written to the system's log", __builtin_return_address(0));
    va_list arguments;
    va_start(arguments, format);
    next_function<decltype(__vsyslog_chk)>("__vsyslog_chk")(priority, flag, format, arguments);
    va_end(arguments);
}
CLDIST_EFFECT(process_started, pid_t, fork, () noexcept, ())
CLDIST_EFFECT(process_started, int, posix_spawn,
              (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions,
               const posix_spawnattr_t *attributes, char *const *arguments,
               char *const *environment) noexcept,
              (pid, path, actions, attributes, arguments, environment))
CLDIST_EFFECT(process_started, int, posix_spawnp,
              (pid_t * pid, const char *file, const posix_spawn_file_actions_t *actions,
               const posix_spawnattr_t *attributes, char *const *arguments,
               char *const *environment) noexcept,
              (pid, file, actions, attributes, arguments, environment))
CLDIST_EFFECT("has sent a signal", int, sigqueue,
              (pid_t pid, int number, const sigval value) noexcept, (pid, number, value))
CLDIST_EFFECT("has sent a signal", int, killpg, (pid_t group, int number) noexcept, (group, number))
CLDIST_EFFECT(memory_shared, int, shm_open, (const char *name, int flags, mode_t mode),
              (name, flags, mode))
CLDIST_EFFECT(memory_shared, int, shmget, (key_t key, std::size_t size, int flags) noexcept,
              (key, size, flags))
CLDIST_EFFECT(folder_changed, int, mknod, (const char *path, mode_t mode, dev_t device) noexcept,
              (path, mode, device))
CLDIST_EFFECT(folder_changed, int, renameat2,
              (int from_folder, const char *from, int to_folder, const char *to,
               unsigned flags) noexcept,
              (from_folder, from, to_folder, to, flags))
CLDIST_EFFECT(folder_changed, int, chown, (const char *path, uid_t user, gid_t group) noexcept,
              (path, user, group))
CLDIST_EFFECT(folder_changed, int, fchmodat,
              (int folder, const char *path, mode_t mode, int flags) noexcept,
              (folder, path, mode, flags))
CLDIST_EFFECT(folder_changed, int, lchown, (const char *path, uid_t user, gid_t group) noexcept,
              (path, user, group))
CLDIST_EFFECT(folder_changed, int, fchown, (int file, uid_t user, gid_t group) noexcept,
              (file, user, group))
CLDIST_EFFECT(folder_changed, int, fchmod, (int file, mode_t mode) noexcept, (file, mode))
CLDIST_EFFECT(folder_changed, int, utime, (const char *path, const utimbuf *times) noexcept,
              (path, times))
CLDIST_EFFECT(folder_changed, int, utimes, (const char *path, const timeval *times) noexcept,
              (path, times))
CLDIST_EFFECT(folder_changed, int, futimens, (int file, const timespec *times) noexcept,
              (file, times))
CLDIST_EFFECT(folder_changed, int, setxattr,
              (const char *path, const char *name, const void *value, std::size_t size,
               int flags) noexcept,
              (path, name, value, size, flags))
CLDIST_EFFECT(folder_changed, int, fsetxattr,
              (int file, const char *name, const void *value, std::size_t size, int flags) noexcept,
              (file, name, value, size, flags))
CLDIST_EFFECT(memory_shared, int, semget, (key_t key, int count, int flags) noexcept,
              (key, count, flags))
CLDIST_EFFECT(memory_shared, int, msgget, (key_t key, int flags) noexcept, (key, flags))
CLDIST_EFFECT(memory_shared, int, shm_unlink, (const char *name), (name))
CLDIST_EFFECT(memory_shared, int, sem_unlink, (const char *name) noexcept, (name))
CLDIST_EFFECT(process_started, int, daemon, (int stay, int keep) noexcept, (stay, keep))
CLDIST_EFFECT(process_started, int, forkpty,
              (int *terminal, char *name, const termios *state, const winsize *size) noexcept,
              (terminal, name, state, size))
CLDIST_EFFECT(folder_changed, int, utimensat,
              (int folder, const char *path, const timespec *times, int flags) noexcept,
              (folder, path, times, flags))

CLDIST_EFFECT(folder_changed, int, mknodat,
              (int folder, const char *path, mode_t mode, dev_t device) noexcept,
              (folder, path, mode, device))
CLDIST_EFFECT(folder_changed, int, fchownat,
              (int folder, const char *path, uid_t user, gid_t group, int flags) noexcept,
              (folder, path, user, group, flags))
CLDIST_EFFECT(folder_changed, int, lutimes, (const char *path, const timeval *times) noexcept,
              (path, times))
CLDIST_EFFECT(folder_changed, int, futimes, (int file, const timeval *times) noexcept,
              (file, times))
CLDIST_EFFECT(folder_changed, int, futimesat,
              (int folder, const char *path, const timeval *times) noexcept, (folder, path, times))
CLDIST_EFFECT(folder_changed, int, lsetxattr,
              (const char *path, const char *name, const void *value, std::size_t size,
               int flags) noexcept,
              (path, name, value, size, flags))
CLDIST_EFFECT(folder_changed, int, removexattr, (const char *path, const char *name) noexcept,
              (path, name))
CLDIST_EFFECT(folder_changed, int, lremovexattr, (const char *path, const char *name) noexcept,
              (path, name))
CLDIST_EFFECT(folder_changed, int, fremovexattr, (int file, const char *name) noexcept,
              (file, name))
CLDIST_EFFECT("has sent a signal", int, tgkill, (pid_t group, pid_t thread, int number),
              (group, thread, number))
CLDIST_EFFECT("has changed another process", ssize_t, process_vm_writev,
              (pid_t pid, const iovec *from, unsigned long count, const iovec *to,
               unsigned long to_count, unsigned long flags) noexcept,
              (pid, from, count, to, to_count, flags))
CLDIST_EFFECT(process_started, pid_t, _Fork, () noexcept, ())
CLDIST_EFFECT(process_started, int, wordexp, (const char *words, wordexp_t *result, int flags),
              (words, result, flags))

CLDIST_IN_FRONT int clone(int (*function)(void *), void *stack, int flags, void *argument,
                          ...) noexcept {
    CLDIST_NEXT(clone);
    note_effect(process_started, __builtin_return_address(0));
    va_list list;
    va_start(list, argument);
    std::array<void *, 3> rest{};
    for (void *&value : rest) value = va_arg(list, void *);
    va_end(list);
    return next(function, stack, flags, argument, rest[0], rest[1], rest[2]);
}

CLDIST_IN_FRONT long ptrace(__ptrace_request request, ...) noexcept {
    CLDIST_NEXT(ptrace);
    note_effect("has changed another process", __builtin_return_address(0));
    va_list list;
    va_start(list, request);
    std::array<void *, 3> values{};
    for (void *&value : values) value = va_arg(list, void *);
    va_end(list);
    return next(request, values[0], values[1], values[2]);
}

CLDIST_IN_FRONT sem_t *sem_open(const char *name, int flags, ...) {
    CLDIST_NEXT(sem_open);
    note_effect(memory_shared, __builtin_return_address(0));
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
    const unsigned value = (flags & O_CREAT) != 0 ? va_arg(arguments, unsigned) : 0;
    va_end(arguments);
    return next(name, flags, mode, value);
}

CLDIST_IN_FRONT mqd_t mq_open(const char *name, int flags, ...) {
    CLDIST_NEXT(mq_open);
    note_effect(memory_shared, __builtin_return_address(0));
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
    mq_attr *const attributes = (flags & O_CREAT) != 0 ? va_arg(arguments, mq_attr *) : nullptr;
    va_end(arguments);
    return next(name, flags, mode, attributes);
}

CLDIST_IN_FRONT long syscall(long number, ...) noexcept {
    CLDIST_NEXT(syscall);
    if (!is_harmless(number)) note_effect("has made a system call", __builtin_return_address(0));
    va_list list;
    va_start(list, number);
    std::array<long, 6> values{};
    for (long &value : values) value = va_arg(list, long);
    va_end(list);
    // std::future waits until an absolute time.
    timespec moved{};
    if (number == SYS_futex && (values[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET)
        values[3] = reinterpret_cast<long>(
            here(__builtin_return_address(0),
                 (values[1] & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC,
                 reinterpret_cast<const timespec *>(values[3]), moved));
    return next(number, values[0], values[1], values[2], values[3], values[4], values[5]);
}
