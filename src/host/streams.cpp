// Streams: the C library's own calls on descriptors can't be wrapped, so the streams of wrapped
// descriptors use fopencookie.
#include "host/streams.hpp"

#include <fcntl.h>
#include <stdio_ext.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <ext/stdio_sync_filebuf.h>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>

#include "host/effects.hpp"
#include "host/gate.hpp"
#include "host/next.hpp"
#include "host/places.hpp"

namespace cldist::host {
namespace {

std::mutex streams_mutex;
// Never destroyed, because streams are flushed after the last destructor.
using Descriptors = std::map<const std::FILE *, int>;
struct Child {
    std::FILE *own;  // the result of popen in rank 0, otherwise null
    std::uint32_t key;
};
using Children = std::map<const std::FILE *, std::unique_ptr<Child>>;
Descriptors &descriptors() {  // the descriptors of this library's streams
    static auto &all = *new Descriptors;
    return all;
}
Children &child_streams() {
    static auto &all = *new Children;
    return all;
}

struct Below {
    int descriptor;
    std::FILE *stream;
};

Below &below(void *cookie) { return *static_cast<Below *>(cookie); }

// The C library calls these functions for the program's calls on the stream.
ssize_t read_below(void *cookie, char *bytes, std::size_t size) {
    return read(below(cookie).descriptor, bytes, size);
}

ssize_t write_below(void *cookie, const char *bytes, std::size_t size) {
    std::size_t done = 0;
    while (done < size) {
        const ssize_t part = write(below(cookie).descriptor, bytes + done, size - done);
        if (part <= 0) break;
        done += static_cast<std::size_t>(part);
    }
    return static_cast<ssize_t>(done);
}

int seek_below(void *cookie, off64_t *at, int from) {
    const off64_t position = lseek64(below(cookie).descriptor, *at, from);
    if (position < 0) return -1;
    *at = position;
    return 0;
}

int close_below(void *cookie) {
    const std::unique_ptr<Below> owned(static_cast<Below *>(cookie));
    {
        const std::lock_guard lock(streams_mutex);
        descriptors().erase(owned->stream);
    }
    return close(owned->descriptor);
}

// As in the C library: streams that append and can't be read.
bool begins_at_end(const char *mode) { return *mode == 'a' && std::strchr(mode, '+') == nullptr; }

std::atomic<bool> error_is_reopened = false;

// The standard error of a rank other than 0.
ssize_t write_error(void *, const char *bytes, std::size_t size) {
    const int to = !error_is_reopened && goes_to_own_output(__builtin_return_address(0))
                       ? STDOUT_FILENO
                       : STDERR_FILENO;
    const ssize_t written = next_write(to, bytes, size);
    return written < 0 ? 0 : written;
}

// All processes read the output of rank 0's child process.
ssize_t read_child(void *cookie, char *bytes, std::size_t size) {
    Session *const session = Session::current();
    const auto &[stream, key] = *static_cast<const Child *>(cookie);
    if (session == nullptr) return stream != nullptr ? next_read(fileno(stream), bytes, size) : 0;
    const Inside inside;
    if (!session->first()) {
        const ssize_t got = session->take_any(Answer::read, key, "read (popen)", bytes, 0, size);
        return got < 0 ? 0 : got;
    }
    const ssize_t got = next_read(fileno(stream), bytes, size);
    session->post(Answer::read, key, bytes, static_cast<std::size_t>(got > 0 ? got : 0));
    return got;
}

}  // namespace

int flags_of(const char *mode) {
    int flags = 0;
    const bool both = std::strchr(mode, '+') != nullptr;
    switch (*mode) {
        case 'w': flags = O_CREAT | O_TRUNC | (both ? O_RDWR : O_WRONLY); break;
        case 'a': flags = O_CREAT | O_APPEND | (both ? O_RDWR : O_WRONLY); break;
        default: flags = both ? O_RDWR : O_RDONLY; break;
    }
    if (std::strchr(mode, 'x') != nullptr) flags |= O_EXCL;
    if (std::strchr(mode, 'e') != nullptr) flags |= O_CLOEXEC;
    return flags;
}

std::FILE *stream_on(int descriptor, const char *mode) {
    CLDIST_NEXT(fdopen);
    std::FILE *stream = nullptr;
    if (kind_of(descriptor) == Kind::none) {
        stream = next(descriptor, mode);
    } else {
        if (begins_at_end(mode)) lseek(descriptor, 0, SEEK_END);
        auto state = std::make_unique<Below>(Below{descriptor, nullptr});
        // It knows only the first letter and a '+' directly behind it.
        const std::string plain{mode[0], std::strchr(mode, '+') != nullptr ? '+' : '\0'};
        stream = fopencookie(state.get(), plain.c_str(),
                             {read_below, write_below, seek_below, close_below});
        if (stream != nullptr) {
            state->stream = stream;
            (void)state.release();
            const std::lock_guard lock(streams_mutex);
            descriptors()[stream] = descriptor;
        }
    }
    if (stream == nullptr) {
        const SameErrno same;
        close(descriptor);
    }
    return stream;
}

bool is_own(std::FILE *stream) {
    const std::lock_guard lock(streams_mutex);
    return descriptors().contains(stream);
}

std::FILE *reopen(std::FILE *stream, int descriptor, const char *mode) {
    const int flags = flags_of(mode) & O_ACCMODE;
    const bool reads = flags != O_WRONLY, writes = flags != O_RDONLY;
    if (reads != (__freadable(stream) != 0) || writes != (__fwritable(stream) != 0)) {
        std::fclose(stream);
        return stream_on(descriptor, mode);
    }
    std::fflush(stream);
    const int to = fileno(stream);
    dup2(descriptor, to);
    close(descriptor);
    if (to == STDERR_FILENO) error_is_reopened = true;
    std::rewind(stream);
    if (begins_at_end(mode)) std::fseek(stream, 0, SEEK_END);
    return stream;
}

// The new stream is also that of other libraries, so each write checks its caller.
void replace_standard_error() {
    const Session *const session = Session::current();
    if (session == nullptr || session->first() || !session->wraps(output)) return;
    static const std::ios_base::Init streams_are_there;
    std::FILE *const error = fopencookie(nullptr, "w", {nullptr, write_error, nullptr, nullptr});
    if (error == nullptr) return;
    setvbuf(error, nullptr, _IONBF, 0);
    {
        const std::lock_guard lock(streams_mutex);
        descriptors()[error] = STDERR_FILENO;
    }
    stderr = error;
    auto *const buffer = new __gnu_cxx::stdio_sync_filebuf<char>(error);
    std::cerr.rdbuf(buffer);
    std::clog.rdbuf(buffer);
    auto *const wide = new __gnu_cxx::stdio_sync_filebuf<wchar_t>(error);
    std::wcerr.rdbuf(wide);
    std::wclog.rdbuf(wide);
}

bool goes_to_own_output(const void *caller) {
    const Session *const session = wrapped_anywhere(output, caller);
    return session != nullptr && !session->first();
}

}  // namespace cldist::host

using namespace cldist::host;

CLDIST_IN_FRONT int fileno(std::FILE *stream) noexcept {
    CLDIST_NEXT(fileno);
    if (Session::current() != nullptr) {
        const std::lock_guard lock(streams_mutex);
        if (const auto found = descriptors().find(stream); found != descriptors().end())
            return found->second;
    }
    return next(stream);
}
extern "C" __attribute__((visibility("default"), alias("fileno"))) int fileno_unlocked(
    std::FILE *stream) noexcept;

CLDIST_IN_FRONT int isatty(int descriptor) noexcept {
    const Session *const session = descriptor >= 0 && descriptor < 3
                                       ? wrapped_anywhere(output, __builtin_return_address(0))
                                       : nullptr;
    if (session == nullptr) return next_isatty(descriptor);
    if ((session->identity_of_first().terminals >> descriptor & 1) != 0) return 1;
    errno = ENOTTY;
    return 0;
}

CLDIST_IN_FRONT std::FILE *popen(const char *command, const char *mode) {
    CLDIST_NEXT(popen);
    note_effect("has started another process", __builtin_return_address(0));
    Session *const session =
        command != nullptr ? wrapped(files, __builtin_return_address(0)) : nullptr;
    if (session == nullptr) return next(command, mode);
    const Inside inside;
    const std::uint32_t key = key_of(command);
    session->meet(key, command, [] {});
    std::FILE *own = nullptr;
    const auto is_there = session->answer<WithErrno<bool>>(Answer::child, key, command, [&] {
        return with_errno(
            [&] { return (own = next(command_of_first(command).c_str(), mode)) != nullptr; });
    });
    if (!is_there.value) {
        errno = is_there.code;
        return nullptr;
    }
    auto child = std::make_unique<Child>(Child{own, key});
    std::FILE *stream = own;
    if (*mode == 'r')
        stream = fopencookie(child.get(), "r", {read_child, nullptr, nullptr, nullptr});
    else if (own == nullptr)
        stream = next_function<decltype(::fopen)>("fopen")("/dev/null", "w");
    const int descriptor = own != nullptr ? fileno(own) : -1;
    const std::lock_guard lock(streams_mutex);
    child_streams()[stream] = std::move(child);
    if (stream != own && own != nullptr) descriptors()[stream] = descriptor;
    return stream;
}

CLDIST_IN_FRONT int pclose(std::FILE *stream) {
    CLDIST_NEXT(pclose);
    std::unique_ptr<Child> child;
    {
        const std::lock_guard lock(streams_mutex);
        const auto found = child_streams().find(stream);
        if (found == child_streams().end()) return next(stream);
        child = std::move(found->second);
        child_streams().erase(found);
        descriptors().erase(stream);
    }
    std::FILE *const own = child->own;
    if (stream != own) std::fclose(stream);
    Session *const session = Session::current();
    const auto natively = [&] {
        return with_errno([&] { return own != nullptr ? next(own) : 0; });
    };
    const Inside inside;
    const WithErrno<int> result =
        session != nullptr
            ? session->answer<WithErrno<int>>(Answer::child, child->key, "pclose", natively)
            : natively();
    if (session != nullptr && !session->first() && !session->far()) forget_all();
    if (result.value < 0) errno = result.code;
    return result.value;
}
