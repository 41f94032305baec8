// Temporary files: all processes use the names that rank 0 has made.
#include <fcntl.h>
#include <limits.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "host/effects.hpp"
#include "host/gate.hpp"
#include "host/next.hpp"
#include "host/places.hpp"

namespace cldist::host {
namespace {

struct Name {
    int value;
    int code;
    std::array<char, PATH_MAX> path;
};

// `make` creates a name from the template `path`. Returns rank 0's result.
template <typename Make>
int make_name(Session &session, const char *what, char *path, Make make) {
    const auto name = session.answer<Name>(Answer::name, key_of(path), what, [&] {
        Name mine{};
        mine.value = make();
        mine.code = errno;
        std::strncpy(mine.path.data(), path, mine.path.size() - 1);
        return mine;
    });
    if (name.value < 0)
        errno = name.code;
    else if (!session.first() && std::strlen(name.path.data()) == std::strlen(path))
        std::strcpy(path, name.path.data());
    return name.value;
}

int make_file(const void *caller, char *path, int suffix, int flags) {
    CLDIST_NEXT(mkostemps);
    note_effect("has made a temporary file", caller);
    Session *const session = path != nullptr ? of_path(caller, AT_FDCWD, path) : nullptr;
    if (session == nullptr) return next(path, suffix, flags);
    const Inside inside;
    int file = make_name(*session, "mkstemp", path, [&] { return next(path, suffix, flags); });
    if (file >= 0 && !session->first() && Session::current() == session) {
        file = next_open(make_place(*session, absolute(AT_FDCWD, path), false).c_str(),
                         O_RDWR | O_CREAT | O_TRUNC | (flags & ~O_ACCMODE), 0600);
        report_copy(*session, file, std::max(file, 0));
    }
    set_kind(file, Kind::written);
    return file;
}

}  // namespace
}  // namespace cldist::host

using namespace cldist::host;

CLDIST_IN_FRONT int mkstemp(char *path) {
    return make_file(__builtin_return_address(0), path, 0, 0);
}
CLDIST_ALIAS(int, mkstemp64, (char *path), mkstemp);
CLDIST_IN_FRONT int mkostemp(char *path, int flags) {
    return make_file(__builtin_return_address(0), path, 0, flags);
}
CLDIST_ALIAS(int, mkostemp64, (char *path, int flags), mkostemp);
CLDIST_IN_FRONT int mkstemps(char *path, int suffix) {
    return make_file(__builtin_return_address(0), path, suffix, 0);
}
CLDIST_ALIAS(int, mkstemps64, (char *path, int suffix), mkstemps);
CLDIST_IN_FRONT int mkostemps(char *path, int suffix, int flags) {
    return make_file(__builtin_return_address(0), path, suffix, flags);
}
CLDIST_ALIAS(int, mkostemps64, (char *path, int suffix, int flags), mkostemps);

CLDIST_IN_FRONT char *mkdtemp(char *path) noexcept {
    CLDIST_NEXT(mkdtemp);
    note_effect("has made a temporary folder", __builtin_return_address(0));
    Session *const session = of_path(__builtin_return_address(0), AT_FDCWD, path);
    if (session == nullptr) return next(path);
    const Inside inside;
    return make_name(*session, "mkdtemp", path, [&] { return next(path) != nullptr ? 0 : -1; }) == 0
               ? path
               : nullptr;
}

// The following functions only make names.

CLDIST_IN_FRONT char *mktemp(char *path) noexcept {
    CLDIST_NEXT(mktemp);
    Session *const session = of_path(__builtin_return_address(0), AT_FDCWD, path);
    if (session == nullptr) return next(path);
    const Inside inside;
    if (make_name(*session, "mktemp", path, [&] { return *next(path) != '\0' ? 0 : -1; }) != 0)
        *path = '\0';
    return path;
}

namespace {
char *make_temporary_name(const void *caller, char *path) {
    CLDIST_NEXT(tmpnam);
    Session *const session = wrapped(files, caller);
    if (session == nullptr) return next(path);
    const Inside inside;
    std::strcpy(path, P_tmpdir "/fileXXXXXX");  // as long as the C library's names
    return make_name(*session, "tmpnam", path, [&] { return next(path) != nullptr ? 0 : -1; }) == 0
               ? path
               : nullptr;
}
}  // namespace

CLDIST_IN_FRONT char *tmpnam(char *path) noexcept {
    static std::array<char, L_tmpnam> own{};
    return make_temporary_name(__builtin_return_address(0), path != nullptr ? path : own.data());
}

CLDIST_IN_FRONT char *tmpnam_r(char *path) noexcept {
    return path != nullptr ? make_temporary_name(__builtin_return_address(0), path) : nullptr;
}

CLDIST_IN_FRONT char *tempnam(const char *folder, const char *prefix) noexcept {
    CLDIST_NEXT(tempnam);
    Session *const session = wrapped(files, __builtin_return_address(0));
    if (session == nullptr) return next(folder, prefix);
    const Inside inside;
    const auto name = session->answer<Name>(
        Answer::name, key_of(prefix != nullptr ? prefix : ""), "tempnam", [&] {
            Name mine{};
            char *const path = next(folder, prefix);
            mine.value = path != nullptr ? 0 : -1;
            mine.code = errno;
            if (path != nullptr) std::strncpy(mine.path.data(), path, mine.path.size() - 1);
            std::free(path);
            return mine;
        });
    if (name.value < 0) errno = name.code;
    return name.value < 0 ? nullptr : strdup(name.path.data());
}
