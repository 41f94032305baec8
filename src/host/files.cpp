// Files: rank 0 writes. Other ranks write to private copies, with rank 0's results, and read these.
#include <fcntl.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "host/effects.hpp"
#include "host/gate.hpp"
#include "host/next.hpp"
#include "host/places.hpp"
#include "host/streams.hpp"

namespace cldist::host {
namespace {

// A child of vfork shares this process's memory, but not its descriptors.
bool is_own_process(const Session &session) { return syscall(SYS_getpid) == session.pid(); }

Session *with_path(Session *session, int folder, const char *path) {
    // Each process gets the same error for an empty path.
    if (session == nullptr || path == nullptr || *path == '\0' || !is_own_process(*session))
        return nullptr;
    return is_systems(absolute(folder, path)) ? nullptr : session;
}
// Like of_path(), also in callbacks.
Session *of_path_anywhere(const void *caller, int folder, const char *path) {
    return with_path(wrapped_anywhere(files, caller), folder, path);
}

}  // namespace

Session *of_path(const void *caller, int folder, const char *path) {
    return with_path(wrapped(files, caller), folder, path);
}

namespace {

bool is_random_source(const char *path) {
    return std::strcmp(path, "/dev/urandom") == 0 || std::strcmp(path, "/dev/random") == 0;
}

mode_t mode_in(int flags, va_list arguments) {
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE
               ? static_cast<mode_t>(va_arg(arguments, int))
               : 0;
}

bool needs_a_place(int flags) { return (flags & (O_PATH | O_DIRECTORY)) == 0; }

int open_at(const void *caller, int folder, const char *path, int flags, mode_t mode) {
    CLDIST_NEXT(openat);
    const auto natively = [&] {
        const int file = next(folder, path, flags, mode);
        if (Session::current() != nullptr && file >= 0 && kind_of(file) != Kind::none)
            set_kind(file, Kind::none);
        return file;
    };
    if (Session::current() == nullptr || path == nullptr) return natively();
    note_opening(folder, path, flags, caller);
    if (is_random_source(path) && wrapped(random_numbers, caller) != nullptr) {
        const int file = natively();
        set_kind(file, Kind::random);
        return file;
    }
    Session *const session =
        needs_a_place(flags) ? of_path_anywhere(caller, folder, path) : nullptr;
    if (session == nullptr) return natively();
    if (wrapped(files, caller) != nullptr) return open_file(*session, folder, path, flags, mode);
    return session->first() ? natively() : open_own(*session, absolute(folder, path), flags, mode);
}

Session *of_written(int descriptor) {
    if (kind_of(descriptor) != Kind::written) return nullptr;
    Session *const session = Session::current();
    const Thread &thread = this_thread;
    // Other threads' writes have no fixed order, so they return each process's own results.
    return session == nullptr || thread.id != main_thread || thread.opencl_calls != 0 ||
                   thread.inside || !is_own_process(*session)
               ? nullptr
               : session;
}

// The program may have closed the descriptor by close_range, dup3 or a system call.
bool is_random(int descriptor) {
    constexpr dev_t memory = 1, random = 8, urandom = 9;
    struct stat state {};
    return fstat(descriptor, &state) == 0 && S_ISCHR(state.st_mode) &&
           (state.st_rdev == makedev(memory, random) || state.st_rdev == makedev(memory, urandom));
}

Session *of_random(int descriptor) {
    if (kind_of(descriptor) != Kind::random || !is_random(descriptor)) return nullptr;
    const Thread &thread = this_thread;
    return thread.id == 0 || thread.opencl_calls != 0 || thread.inside ? nullptr
                                                                       : Session::current();
}

// Only rank 0 makes the change. All processes get its result.
template <typename Native>
int change(Session &session, const std::string &what, const std::string &path, Native native) {
    const Inside inside;
    const auto result = session.answer<WithErrno<int>>(Answer::change, key_of(path), what.c_str(),
                                                       [&] { return with_errno(native); });
    if (result.value < 0) errno = result.code;
    return result.value;
}

// The same, but rank 0 waits until the other ranks have made the call, because they may still have
// to read what it changes. `others` changes their private copies.
template <typename Native, typename Others>
int change_what_is_there(Session &session, const char *call, const std::string &path, Native native,
                         Others others) {
    const Inside inside;
    const std::string what = std::string(call) + " " + path;
    session.meet(key_of(path), what.c_str(), [] {});
    const int result = change(session, what, path, native);
    const SameErrno same;
    if (result == 0 && !session.first()) others();
    return result;
}

// For wrapped functions with one path. `native` calls the wrapped function.

template <typename Native>
int change_at(const void *caller, const char *call, int folder, const char *path, Native native) {
    if (!std::string_view(call).ends_with("access"))
        note_effect("has changed a file or folder", caller);
    Session *const session = of_path(caller, folder, path);
    if (session == nullptr) return native();
    const std::string name = absolute(folder, path);
    return change(*session, std::string(call) + " " + name, name, native);
}
template <typename Native, typename Others>
int remove_at(const void *caller, const char *call, int folder, const char *path, Native native,
              Others others) {
    note_effect("has changed a file or folder", caller);
    Session *const session = of_path(caller, folder, path);
    if (session == nullptr) return native();
    const std::string name = absolute(folder, path);
    return change_what_is_there(*session, call, name, native, [&] { others(name); });
}
template <typename State, typename Native>
int state_at(const void *caller, int folder, const char *path, State *to, Native native) {
    Session *const session = of_path(caller, folder, path);
    if (session == nullptr) return native(to);
    const Inside inside;
    const std::string name = absolute(folder, path);
    const std::string what = "stat " + name;
    struct Answered {
        WithErrno<int> result;
        State state;
    };
    const auto answer = session->answer<Answered>(Answer::state, key_of(name), what.c_str(), [&] {
        Answered mine{};
        mine.result = with_errno([&] { return native(&mine.state); });
        return mine;
    });
    if (answer.result.value == 0) *to = answer.state;
    if (answer.result.value < 0) errno = answer.result.code;
    return answer.result.value;
}

}  // namespace
}  // namespace cldist::host

using namespace cldist::host;

// ---- Opening

CLDIST_IN_FRONT int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_in(flags, arguments);
    va_end(arguments);
    return open_at(__builtin_return_address(0), AT_FDCWD, path, flags, mode);
}
CLDIST_ALIAS(int, open64, (const char *path, int flags, ...), open);

CLDIST_IN_FRONT int openat(int folder, const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_in(flags, arguments);
    va_end(arguments);
    return open_at(__builtin_return_address(0), folder, path, flags, mode);
}
CLDIST_ALIAS(int, openat64, (int folder, const char *path, int flags, ...), openat);

extern "C" int __open_2(const char *path, int flags);
CLDIST_IN_FRONT int __open_2(const char *path, int flags) {
    return open_at(__builtin_return_address(0), AT_FDCWD, path, flags, 0);
}
CLDIST_ALIAS(int, __open64_2, (const char *path, int flags), __open_2);

extern "C" int __openat_2(int folder, const char *path, int flags);
CLDIST_IN_FRONT int __openat_2(int folder, const char *path, int flags) {
    return open_at(__builtin_return_address(0), folder, path, flags, 0);
}
CLDIST_ALIAS(int, __openat64_2, (int folder, const char *path, int flags), __openat_2);

CLDIST_IN_FRONT int creat(const char *path, mode_t mode) {
    return open_at(__builtin_return_address(0), AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}
CLDIST_ALIAS(int, creat64, (const char *path, mode_t mode), creat);

CLDIST_IN_FRONT std::FILE *fopen(const char *path, const char *mode) {
    CLDIST_NEXT(fopen);
    if (Session::current() == nullptr || path == nullptr || mode == nullptr)
        return next(path, mode);
    const void *const caller = __builtin_return_address(0);
    const int flags = flags_of(mode);
    note_opening(AT_FDCWD, path, flags, caller);
    if (!is_random_source(path) && of_path_anywhere(caller, AT_FDCWD, path) == nullptr)
        return next(path, mode);
    const int file = open_at(caller, AT_FDCWD, path, flags, 0666);
    if (file < 0) return nullptr;
    return stream_on(file, mode);
}
CLDIST_ALIAS(std::FILE *, fopen64, (const char *path, const char *mode), fopen);

CLDIST_IN_FRONT std::FILE *fdopen(int descriptor, const char *mode) noexcept {
    CLDIST_NEXT(fdopen);
    return Session::current() == nullptr || kind_of(descriptor) == Kind::none
               ? next(descriptor, mode)
               : stream_on(descriptor, mode);
}

CLDIST_IN_FRONT std::FILE *freopen(const char *path, const char *mode, std::FILE *stream) {
    CLDIST_NEXT(freopen);
    const void *const caller = __builtin_return_address(0);
    note_opening(AT_FDCWD, path, flags_of(mode), caller);
    const bool own = is_own(stream);
    if (!own && (path == nullptr || of_path_anywhere(caller, AT_FDCWD, path) == nullptr))
        return next(path, mode, stream);
    // Without a path only the mode changes.
    const int file = path != nullptr ? open_at(caller, AT_FDCWD, path, flags_of(mode), 0666)
                                     : dup(fileno(stream));
    if (file < 0) {
        const SameErrno same;
        std::fclose(stream);
        return nullptr;
    }
    if (own) return reopen(stream, file, mode);
    std::FILE *const opened = next(("/proc/self/fd/" + std::to_string(file)).c_str(), mode, stream);
    close(file);
    return opened;
}
CLDIST_ALIAS(std::FILE *, freopen64, (const char *path, const char *mode, std::FILE *stream),
             freopen);

// ---- Reading and writing

CLDIST_IN_FRONT ssize_t read(int descriptor, void *bytes, std::size_t size) {
    if (descriptor == STDIN_FILENO)
        note_effect("has read standard input", __builtin_return_address(0));
    const Session *const session = of_random(descriptor);
    if (session == nullptr) return next_read(descriptor, bytes, size);
    draw(*session, bytes, size);
    return static_cast<ssize_t>(size);
}

extern "C" ssize_t __read_chk(int descriptor, void *bytes, std::size_t size, std::size_t room);
CLDIST_IN_FRONT ssize_t __read_chk(int descriptor, void *bytes, std::size_t size,
                                   std::size_t room) {
    CLDIST_NEXT(__read_chk);
    if (descriptor == STDIN_FILENO)
        note_effect("has read standard input", __builtin_return_address(0));
    const Session *const session = size <= room ? of_random(descriptor) : nullptr;
    if (session == nullptr) return next(descriptor, bytes, size, room);
    draw(*session, bytes, size);
    return static_cast<ssize_t>(size);
}

CLDIST_IN_FRONT ssize_t write(int descriptor, const void *bytes, std::size_t size) {
    if (Session *const session = of_written(descriptor); session != nullptr)
        return write_file(*session, size,
                          [&](std::size_t part) { return next_write(descriptor, bytes, part); });
    return next_write(descriptor == STDERR_FILENO && goes_to_own_output(__builtin_return_address(0))
                          ? STDOUT_FILENO
                          : descriptor,
                      bytes, size);
}

CLDIST_IN_FRONT ssize_t pwrite(int descriptor, const void *bytes, std::size_t size, off_t at) {
    CLDIST_NEXT(pwrite);
    Session *const session = of_written(descriptor);
    if (session == nullptr) return next(descriptor, bytes, size, at);
    return write_file(*session, size,
                      [&](std::size_t part) { return next(descriptor, bytes, part, at); });
}
CLDIST_ALIAS(ssize_t, pwrite64, (int descriptor, const void *bytes, std::size_t size, off_t at),
             pwrite);

CLDIST_IN_FRONT ssize_t writev(int descriptor, const iovec *parts, int count) {
    CLDIST_NEXT(writev);
    Session *const session = of_written(descriptor);
    if (session == nullptr)
        return next(descriptor == STDERR_FILENO && goes_to_own_output(__builtin_return_address(0))
                        ? STDOUT_FILENO
                        : descriptor,
                    parts, count);
    std::size_t size = 0;
    for (int i = 0; i < count; ++i) size += parts[i].iov_len;
    return write_file(*session, size, [&](std::size_t part) {
        if (part == size) return next(descriptor, parts, count);
        std::vector<iovec> some(parts, parts + count);
        for (iovec &one : some) {
            one.iov_len = std::min(one.iov_len, part);
            part -= one.iov_len;
        }
        return next(descriptor, some.data(), count);
    });
}

CLDIST_IN_FRONT int close(int descriptor) {
    if (kind_of(descriptor) != Kind::none) {
        const Session *const session = Session::current();
        if (session == nullptr || is_own_process(*session)) set_kind(descriptor, Kind::none);
    }
    return next_close(descriptor);
}

CLDIST_IN_FRONT int dup2(int from, int to) noexcept {
    CLDIST_NEXT(dup2);
    const int result = next(from, to);
    const Session *const session = Session::current();
    if (session != nullptr && result >= 0 && from != to && kind_of(from) != kind_of(to) &&
        is_own_process(*session))
        set_kind(to, kind_of(from));
    return result;
}

// ---- Locks: only rank 0 takes them. The other ranks' copies are private.

CLDIST_IN_FRONT int flock(int descriptor, int operation) noexcept {
    CLDIST_NEXT(flock);
    Session *const session = wrapped(files, __builtin_return_address(0));
    if (session == nullptr) return next(descriptor, operation);
    return change(*session, "flock", std::to_string(operation),
                  [&] { return next(descriptor, operation); });
}

CLDIST_IN_FRONT int lockf(int descriptor, int operation, off_t size) {
    CLDIST_NEXT(lockf);
    Session *const session = wrapped(files, __builtin_return_address(0));
    if (session == nullptr) return next(descriptor, operation, size);
    return change(*session, "lockf", std::to_string(operation),
                  [&] { return next(descriptor, operation, size); });
}
CLDIST_ALIAS(int, lockf64, (int descriptor, int operation, off_t size), lockf);

CLDIST_IN_FRONT int fcntl(int descriptor, int command, ...) {
    static auto *const next = next_function<int(int, int, ...)>("fcntl64");
    va_list arguments;
    va_start(arguments, command);
    void *const argument = va_arg(arguments, void *);
    va_end(arguments);
    const bool locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK ||
                       command == F_OFD_SETLKW;
    Session *const session = locks ? wrapped(files, __builtin_return_address(0)) : nullptr;
    if (session != nullptr)
        return change(*session, "fcntl", std::to_string(command),
                      [&] { return next(descriptor, command, argument); });
    const int result = next(descriptor, command, argument);
    if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && result >= 0 &&
        kind_of(descriptor) != kind_of(result))
        set_kind(result, kind_of(descriptor));
    return result;
}
CLDIST_ALIAS(int, fcntl64, (int descriptor, int command, ...), fcntl);

// ---- File status

// A function that stores the state of the entry `path` of `folder` in `*state`. `arguments` are
// those of the wrapped function, with `mine` in place of `state`.
#define CLDIST_STATE(name, parameters, folder, arguments)                      \
    CLDIST_IN_FRONT int name parameters noexcept {                             \
        CLDIST_NEXT(name);                                                     \
        return state_at(__builtin_return_address(0), folder, path, state,      \
                        [&](decltype(state) mine) { return next arguments; }); \
    }
CLDIST_STATE(fstatat, (int folder, const char *path, struct stat *state, int flags), folder,
             (folder, path, mine, flags))
CLDIST_ALIAS(int, fstatat64,
             (int folder, const char *path, struct stat64 *state, int flags) noexcept, fstatat);
CLDIST_STATE(stat, (const char *path, struct stat *state), AT_FDCWD, (path, mine))
CLDIST_ALIAS(int, stat64, (const char *path, struct stat64 *state) noexcept, stat);
CLDIST_STATE(lstat, (const char *path, struct stat *state), AT_FDCWD, (path, mine))
CLDIST_ALIAS(int, lstat64, (const char *path, struct stat64 *state) noexcept, lstat);
CLDIST_STATE(statx, (int folder, const char *path, int flags, unsigned mask, struct statx *state),
             folder, (folder, path, flags, mask, mine))

// Programs that were linked with a C library before version 2.33 call these.
extern "C" {
int __xstat(int version, const char *path, struct stat *state) noexcept;
int __lxstat(int version, const char *path, struct stat *state) noexcept;
int __fxstatat(int version, int folder, const char *path, struct stat *state, int flags) noexcept;
}
CLDIST_STATE(__xstat, (int version, const char *path, struct stat *state), AT_FDCWD,
             (version, path, mine))
CLDIST_ALIAS(int, __xstat64, (int version, const char *path, struct stat64 *state) noexcept,
             __xstat);
CLDIST_STATE(__lxstat, (int version, const char *path, struct stat *state), AT_FDCWD,
             (version, path, mine))
CLDIST_ALIAS(int, __lxstat64, (int version, const char *path, struct stat64 *state) noexcept,
             __lxstat);
CLDIST_STATE(__fxstatat, (int version, int folder, const char *path, struct stat *state, int flags),
             folder, (version, folder, path, mine, flags))
CLDIST_ALIAS(int, __fxstatat64,
             (int version, int folder, const char *path, struct stat64 *state, int flags) noexcept,
             __fxstatat);
#undef CLDIST_STATE

// ---- Changes of folders

// A function that removes the entry `path` of `folder`. `others` does so with private copies.
#define CLDIST_REMOVE(name, parameters, folder, arguments, others)                            \
    CLDIST_IN_FRONT int name parameters noexcept {                                            \
        CLDIST_NEXT(name);                                                                    \
        return remove_at(                                                                     \
            __builtin_return_address(0), #name, folder, path, [&] { return next arguments; }, \
            others);                                                                          \
    }
CLDIST_REMOVE(unlinkat, (int folder, const char *path, int flags), folder, (folder, path, flags),
              forget)
CLDIST_REMOVE(unlink, (const char *path), AT_FDCWD, (path), forget)
CLDIST_REMOVE(remove, (const char *path), AT_FDCWD, (path), forget)
CLDIST_REMOVE(rmdir, (const char *path), AT_FDCWD, (path), [](const std::string &) {})
#undef CLDIST_REMOVE

CLDIST_IN_FRONT int renameat(int from_folder, const char *from, int to_folder,
                             const char *to) noexcept {
    CLDIST_NEXT(renameat);
    return remove_at(
        __builtin_return_address(0), "renameat", from_folder, to != nullptr ? from : nullptr,
        [&] { return next(from_folder, from, to_folder, to); },
        [&](const std::string &name) { move_place(name, absolute(to_folder, to)); });
}

CLDIST_IN_FRONT int rename(const char *from, const char *to) noexcept {
    CLDIST_NEXT(rename);
    return remove_at(
        __builtin_return_address(0), "rename", AT_FDCWD, to != nullptr ? from : nullptr,
        [&] { return next(from, to); },
        [&](const std::string &name) { move_place(name, absolute(AT_FDCWD, to)); });
}

CLDIST_IN_FRONT int truncate(const char *path, off_t size) noexcept {
    CLDIST_NEXT(truncate);
    note_effect("has changed a file or folder", __builtin_return_address(0));
    Session *const session = of_path(__builtin_return_address(0), AT_FDCWD, path);
    if (session == nullptr) return next(path, size);
    const std::string name = absolute(AT_FDCWD, path);
    const Inside inside;
    const std::string what = "truncate " + name;
    session->meet(key_of(name), what.c_str(), [&] { make_place(*session, name, true); });
    const int result = change(*session, what, name, [&] { return next(path, size); });
    if (result == 0 && !session->first())
        if (const std::string place = place_of(name); !place.empty())
            (void)!next(place.c_str(), size);
    return result;
}
CLDIST_ALIAS(int, truncate64, (const char *path, off_t size) noexcept, truncate);

// A function that checks or changes the entry `path` of `folder`.
#define CLDIST_CHANGE(name, parameters, folder, arguments)                 \
    CLDIST_IN_FRONT int name parameters noexcept {                         \
        CLDIST_NEXT(name);                                                 \
        return change_at(__builtin_return_address(0), #name, folder, path, \
                         [&] { return next arguments; });                  \
    }
CLDIST_CHANGE(access, (const char *path, int mode), AT_FDCWD, (path, mode))
CLDIST_CHANGE(faccessat, (int folder, const char *path, int mode, int flags), folder,
              (folder, path, mode, flags))
CLDIST_CHANGE(mkdir, (const char *path, mode_t mode), AT_FDCWD, (path, mode))
CLDIST_CHANGE(mkdirat, (int folder, const char *path, mode_t mode), folder, (folder, path, mode))
CLDIST_CHANGE(mkfifo, (const char *path, mode_t mode), AT_FDCWD, (path, mode))
CLDIST_CHANGE(mkfifoat, (int folder, const char *path, mode_t mode), folder, (folder, path, mode))
CLDIST_CHANGE(symlink, (const char *to, const char *path), AT_FDCWD, (to, path))
CLDIST_CHANGE(symlinkat, (const char *to, int folder, const char *path), folder, (to, folder, path))
CLDIST_CHANGE(link, (const char *from, const char *path), AT_FDCWD, (from, path))
CLDIST_CHANGE(linkat, (int from_folder, const char *from, int folder, const char *path, int flags),
              folder, (from_folder, from, folder, path, flags))
CLDIST_CHANGE(chmod, (const char *path, mode_t mode), AT_FDCWD, (path, mode))
#undef CLDIST_CHANGE

// ---- Child processes: only rank 0 starts them

CLDIST_IN_FRONT int system(const char *command) {
    CLDIST_NEXT(system);
    note_effect("has started another process", __builtin_return_address(0));
    Session *const session =
        command != nullptr ? wrapped(files, __builtin_return_address(0)) : nullptr;
    if (session == nullptr) return next(command);
    const Inside inside;
    session->meet(key_of(command), command, [] {});
    const int status =
        change(*session, command, command, [&] { return next(command_of_first(command).c_str()); });
    if (!session->first() && !session->far()) forget_all();
    return status;
}
