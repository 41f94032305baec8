#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "host/session.hpp"

namespace cldist::host {

/// On ranks other than 0: this process's replacements for files that the program has written.

/// A path as the program means it, from the root, without "." and "..". `folder`: as of openat.
[[nodiscard]] std::string absolute(int folder, const char *path);
/// Devices, and what the kernel tells: each process's own.
[[nodiscard]] bool is_systems(const std::string &path);

/// Where the file's own copy is, or nothing.
[[nodiscard]] std::string place_of(const std::string &path);
/// The same; without one a place for it is found, with what is in the file now if `keep`.
std::string make_place(const Session &session, const std::string &path, bool keep);
void forget(const std::string &path);
void move_place(const std::string &from, const std::string &to);
void forget_all();

/// Which descriptors are how.
enum class Kind : std::uint8_t { none, written, random };
[[nodiscard]] Kind kind_of(int descriptor);
void set_kind(int descriptor, Kind kind);

/// A file's opening, with rank 0's result. Gives a descriptor.
int open_file(Session &session, int folder, const char *path, int flags, mode_t mode);
/// The same on another rank than 0, without rank 0's result.
int open_own(const Session &session, const std::string &path, int flags, mode_t mode);
/// A write to a file that open_file opened for writing, with rank 0's result. `call` writes up to
/// so many bytes here.
template <typename Call>
ssize_t write_file(Session &session, std::size_t size, Call call) {
    struct Written {
        ssize_t size;
        int code;
    };
    const Inside inside;
    bool own = session.first();
    const auto written =
        session.answer<Written>(Answer::write, static_cast<std::uint32_t>(size), "write", [&] {
            own = true;
            const ssize_t result = call(size);
            return Written{result, errno};
        });
    if (!own && written.size > 0) (void)call(static_cast<std::size_t>(written.size));
    if (written.size < 0) errno = written.code;
    return written.size;
}

}  // namespace cldist::host
