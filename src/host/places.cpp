#include "host/places.hpp"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "host/next.hpp"

namespace cldist::host {
namespace {

std::mutex places_mutex;
// Never destroyed: the program may use files in constructors and destructors.
using Places = std::map<std::string, std::string>;
Places &places() {
    static auto &all = *new Places;
    return all;
}
using Sent = std::map<std::string, std::pair<std::int64_t, std::int64_t>>;
Sent &sent() {  // rank 0's files that the other ranks have: time of the last change, size
    static auto &all = *new Sent;
    return all;
}
unsigned made = 0;

std::array<std::atomic<Kind>, 65536> kinds{};

std::string real_path(const std::string &path) {
    std::array<char, PATH_MAX> result{};
    return realpath(path.c_str(), result.data()) != nullptr ? result.data() : "";
}

// Resolves links in the path, or at least in its folder if the file does not exist.
std::string true_path(const std::string &path) {
    if (std::string whole = real_path(path); !whole.empty()) return whole;
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos || slash == 0) return path;
    const std::string folder = real_path(path.substr(0, slash));
    return folder.empty() ? path : (folder == "/" ? "" : folder) + path.substr(slash);
}

std::string without_dots(const std::string &path) {
    return (path + "/").find("/../") == std::string::npos ? path : true_path(path);
}

// Returns false, with a report, if not all is written.
bool write_copy(const Session &session, int file, const char *bytes, ssize_t size) {
    const ssize_t written = next_write(file, bytes, static_cast<std::size_t>(size));
    report_copy(session, written, size);
    return written == size;
}

void copy(const Session &session, const std::string &from, const std::string &to) {
    const int in = next_open(from.c_str(), O_RDONLY | O_CLOEXEC, 0);
    const int out = next_open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    std::vector<char> block(std::size_t{1} << 20U);
    for (ssize_t size = 0; in >= 0 && (size = next_read(in, block.data(), block.size())) > 0;)
        if (!write_copy(session, out, block.data(), size)) break;
    if (in >= 0) next_close(in);
    if (out >= 0) next_close(out);
}

// The record of a file's opening. If an existing file is opened for writing, another one precedes.
struct Opened {
    std::int32_t result;     // rank 0's descriptor, or -1
    std::int32_t code;       // errno
    std::uint32_t before;    // 1: rank 0 has not opened the file yet; other ranks copy it first
    std::uint32_t contents;  // 1: the file's contents follow; 2: they were sent earlier
};
constexpr std::size_t piece = std::size_t{256} << 10U;

void send_contents(Session &session, std::uint32_t key, int file) {
    std::vector<char> block(piece);
    for (off_t at = 0;;) {
        const ssize_t size = pread(file, block.data(), block.size(), at);
        session.post(Answer::contents, key, block.data(),
                     static_cast<std::size_t>(size > 0 ? size : 0));
        if (size <= 0) return;
        at += size;
    }
}

void receive_contents(Session &session, std::uint32_t key, const char *what,
                      const std::string &to) {
    const int out = next_open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    std::vector<char> block(piece);
    for (ssize_t size = 0;
         (size = session.take_any(Answer::contents, key, what, block.data(), 0, block.size())) > 0;)
        write_copy(session, out, block.data(), size);
    if (out >= 0) next_close(out);
}

bool is_regular(const std::string &path) {
    struct stat state {};
    return stat(path.c_str(), &state) == 0 && S_ISREG(state.st_mode);
}

// Returns Opened::contents for a file that is opened for reading.
std::uint32_t to_be_sent(const Session &session, const std::string &path, int file) {
    struct stat state {};
    if (!session.far() || !session.stages(without_dots(path)) || fstat(file, &state) != 0 ||
        !S_ISREG(state.st_mode))
        return 0;
    const std::pair<std::int64_t, std::int64_t> now{
        state.st_mtim.tv_sec * 1'000'000'000LL + state.st_mtim.tv_nsec, state.st_size};
    const std::lock_guard lock(places_mutex);
    auto &before = sent()[path];
    if (before == now) return 2;
    before = now;
    return 1;
}

int open_as_first(Session &session, const std::string &path, std::uint32_t key, const char *what,
                  bool writing, int flags, mode_t mode) {
    if (struct stat state{}; writing && stat(path.c_str(), &state) == 0) {
        const bool send = session.far() && S_ISREG(state.st_mode) && (flags & O_TRUNC) == 0;
        const int file = send ? next_open(path.c_str(), O_RDONLY | O_CLOEXEC, 0) : -1;
        const Opened before{0, 0, 1, file >= 0 ? 1U : 0U};
        session.post(Answer::open, key, &before, sizeof before);
        if (file >= 0) {
            send_contents(session, key, file);
            next_close(file);
        }
        session.meet(key, what, [] {});
    }
    const int file = next_open(path.c_str(), flags, mode);
    const Opened opened{file, errno, 0,
                        file >= 0 && !writing ? to_be_sent(session, path, file) : 0};
    session.post(Answer::open, key, &opened, sizeof opened);
    if (opened.contents == 1) send_contents(session, key, file);
    errno = opened.code;
    return file;
}

int open_as_other(Session &session, const std::string &path, std::uint32_t key, const char *what,
                  bool writing, int flags, mode_t mode) {
    Opened opened{};
    const auto take = [&] { return session.take(Answer::open, key, what, &opened, sizeof opened); };
    // A process whose calls differ from rank 0's opens the file itself. If only this thread
    // differs, it writes to this process's private copy.
    const auto open_alone = [&] {
        return Session::current() == nullptr ? next_open(path.c_str(), flags, mode)
                                             : open_own(session, path, flags, mode);
    };
    if (!take()) return open_alone();
    if (opened.before != 0) {
        const bool keep = (flags & O_TRUNC) == 0;
        if (opened.contents != 0)
            receive_contents(session, key, what, make_place(session, path, false));
        session.meet(key, what, [&] { make_place(session, path, keep); });
        if (!take()) return open_alone();
    }
    if (opened.contents == 1)
        receive_contents(session, key, what, make_place(session, path, false));
    if (opened.result < 0) {
        errno = opened.code;
        return -1;
    }
    if (writing) make_place(session, path, false);
    const int file = open_own(session, path, flags, mode);
    if (file < 0 && place_of(path).empty()) {
        const SameErrno same;
        say("rank %d cannot open %s, but rank 0 can; with `cldist run --stage %s` other hosts read "
            "rank 0's file",
            session.rank(), path.c_str(), path.c_str());
    }
    return file;
}

}  // namespace

int next_open(const char *path, int flags, mode_t mode) {
    CLDIST_NEXT(open);
    return next(path, flags, mode);
}
int next_close(int descriptor) {
    CLDIST_NEXT(close);
    return next(descriptor);
}
ssize_t next_read(int descriptor, void *bytes, std::size_t size) {
    CLDIST_NEXT(read);
    return next(descriptor, bytes, size);
}
ssize_t next_write(int descriptor, const void *bytes, std::size_t size) {
    CLDIST_NEXT(write);
    return next(descriptor, bytes, size);
}

std::string absolute(int folder, const char *path) {
    std::string whole = path;
    if (!whole.starts_with('/')) {
        std::array<char, PATH_MAX> base{};
        if (folder == AT_FDCWD) {
            if (getcwd(base.data(), base.size()) == nullptr) return whole;
        } else {
            const std::string link = "/proc/self/fd/" + std::to_string(folder);
            if (readlink(link.c_str(), base.data(), base.size() - 1) < 0) return whole;
        }
        whole = std::string(base.data()) + "/" + whole;
    }
    // "..", and '/' at the end, are left to the file system: a link may precede them.
    std::string result;
    for (std::size_t begin = 0; begin < whole.size();) {
        const std::size_t end = std::min(whole.find('/', begin), whole.size());
        const std::string part = whole.substr(begin, end - begin);
        begin = end + 1;
        if (!part.empty() && part != ".") result += "/" + part;
    }
    return whole.ends_with('/') || result.empty() ? result + "/" : result;
}

bool is_systems(const std::string &name) {
    const std::string path = without_dots(name);
    for (const char *const place : {"/proc/", "/sys/", "/dev/"})
        if (path.starts_with(place)) return !path.starts_with("/dev/shm/");
    return false;
}

void report_copy(const Session &session, ssize_t result, ssize_t expected) {
    static std::atomic<bool> said = false;
    if (result == expected || said.exchange(true)) return;
    const SameErrno same;
    say("rank %d cannot write its private copies of files in %s: %s; its program may read wrong "
        "data; free space there, or set TMPDIR to another folder",
        session.rank(), session.folder().c_str(), std::strerror(result < 0 ? errno : ENOSPC));
}

std::string place_of(const std::string &path) {
    const std::lock_guard lock(places_mutex);
    if (places().empty()) return {};
    const auto found = places().find(true_path(path));
    return found == places().end() ? "" : found->second;
}

std::string make_place(const Session &session, const std::string &path, bool keep) {
    const std::lock_guard lock(places_mutex);
    std::string &place = places()[true_path(path)];
    if (!place.empty()) return place;
    if (made++ == 0) (void)!mkdir(session.folder().c_str(), 0700);
    place = session.folder() + "/" + std::to_string(made) +
            path.substr(path.rfind('/') + 1).insert(0, "-").substr(0, 100);
    if (keep && is_regular(path)) copy(session, path, place);
    return place;
}

void forget(const std::string &path) {
    const std::lock_guard lock(places_mutex);
    const auto found = places().find(true_path(path));
    if (found == places().end()) return;
    (void)!unlinkat(AT_FDCWD, found->second.c_str(), 0);
    places().erase(found);
}

void move_place(const std::string &from, const std::string &to) {
    const std::lock_guard lock(places_mutex);
    const auto found = places().find(true_path(from));
    if (found == places().end()) {
        places().erase(true_path(to));
        return;
    }
    const std::string place = found->second;
    places().erase(found);
    places()[true_path(to)] = place;
}

void forget_all() {
    const std::lock_guard lock(places_mutex);
    places().clear();
}

Kind kind_of(int descriptor) {
    return descriptor >= 0 && static_cast<std::size_t>(descriptor) < kinds.size()
               ? kinds[static_cast<std::size_t>(descriptor)].load(std::memory_order_relaxed)
               : Kind::none;
}

void set_kind(int descriptor, Kind kind) {
    if (descriptor >= 0 && static_cast<std::size_t>(descriptor) < kinds.size())
        kinds[static_cast<std::size_t>(descriptor)] = kind;
}

bool is_for_writing(int flags) {
    return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
}

int open_own(const Session &session, const std::string &path, int flags, mode_t mode) {
    const bool writing = is_for_writing(flags);
    const std::string place =
        writing ? make_place(session, path, (flags & O_TRUNC) == 0) : place_of(path);
    const int file =
        writing ? next_open(place.c_str(), (flags & ~(O_EXCL | O_NOFOLLOW)) | O_CREAT, mode | 0600U)
                : next_open(place.empty() ? path.c_str() : place.c_str(), flags, mode);
    if (!place.empty()) report_copy(session, file, std::max(file, 0));
    set_kind(file, writing ? Kind::written : Kind::none);
    return file;
}

int open_file(Session &session, int folder, const char *path, int flags, mode_t mode) {
    const Inside inside;
    const std::string name = absolute(folder, path);
    const bool writing = is_for_writing(flags);
    const std::uint32_t key =
        key_of(name) ^
        static_cast<std::uint32_t>(flags & (O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_APPEND));
    const std::string what = "open " + name;
    const int file = session.first()
                         ? open_as_first(session, name, key, what.c_str(), writing, flags, mode)
                         : open_as_other(session, name, key, what.c_str(), writing, flags, mode);
    set_kind(file, writing ? Kind::written : Kind::none);
    return file;
}

}  // namespace cldist::host
