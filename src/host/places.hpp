#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "host/session.hpp"

namespace cldist::host {

// On ranks other than 0, each process has private copies of the files that the program writes. The
// path of a copy is called its place.

/// Returns the absolute path without ".". It follows no links, so that ".." stays.
/// `folder` is a descriptor as in openat.
[[nodiscard]] std::string absolute(int folder, const char *path);
/// Returns true for devices and files of the kernel, which each process opens itself.
[[nodiscard]] bool is_systems(const std::string &path);

/// Returns the session if the program itself calls a function of files with this path, otherwise
/// null. `caller` is the wrapped function's return address.
[[nodiscard]] Session *of_path(const void *caller, int folder, const char *path);

/// Returns the path of the file's private copy. Empty if there is none.
[[nodiscard]] std::string place_of(const std::string &path);
/// The same, but chooses a path if there is none. `keep`: and copies the present file there.
std::string make_place(const Session &session, const std::string &path, bool keep);
/// Reports, once, that a system call on a place has not had the expected result.
void report_copy(const Session &session, ssize_t result, ssize_t expected);
void forget(const std::string &path);
void move_place(const std::string &from, const std::string &to);
void forget_all();

/// The descriptors whose calls are wrapped: files opened for writing, and sources of random bytes.
enum class Kind : std::uint8_t { none, written, random };
[[nodiscard]] Kind kind_of(int descriptor);
void set_kind(int descriptor, Kind kind);

/// Whether open() with these flags may change the file.
[[nodiscard]] bool is_for_writing(int flags);
/// Opens a file with rank 0's result. Returns a descriptor, or -1 with errno.
int open_file(Session &session, int folder, const char *path, int flags, mode_t mode);
/// The same on a rank other than 0, without rank 0's result.
int open_own(const Session &session, const std::string &path, int flags, mode_t mode);
/// Writes to a file from open_file, with rank 0's result. `call(n)` writes up to n bytes here.
template <typename Call>
ssize_t write_file(Session &session, std::size_t size, Call call) {
    const Inside inside;
    bool own = session.first();
    const auto written = session.answer<WithErrno<ssize_t>>(
        Answer::write, static_cast<std::uint32_t>(size), "write", [&] {
            own = true;
            return with_errno([&] { return call(size); });
        });
    if (!own && written.value > 0)
        report_copy(session, call(static_cast<std::size_t>(written.value)), written.value);
    if (written.value < 0) errno = written.code;
    return written.value;
}

}  // namespace cldist::host
