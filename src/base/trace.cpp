#include "base/trace.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "base/config.hpp"
#include "base/forks.hpp"
#include "base/log.hpp"

namespace cldist::trace {
namespace {

std::string host_name() {
    std::array<char, 256> name{};
    return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// The identifier of the running kernel. Processes with the same identifier share CLOCK_MONOTONIC,
// even if their host names differ.
std::string boot_id() {
    std::string id;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
    return id;
}

// Integer formatting is faster than floating point.
std::string microseconds(std::uint64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

// The length of the first character of `text`. 0 if the bytes are not UTF-8.
std::size_t utf8_length(std::string_view text) {
    const auto byte = [&](std::size_t i) -> unsigned {
        return static_cast<unsigned char>(text[i]);
    };
    const unsigned first = byte(0);
    if (first < 0x80) return 1;
    const std::size_t length = first < 0xc2   ? 0
                               : first < 0xe0 ? 2
                               : first < 0xf0 ? 3
                               : first < 0xf5 ? 4
                                              : 0;
    if (length == 0 || text.size() < length) return 0;
    for (std::size_t i = 1; i < length; ++i)
        if ((byte(i) & 0xc0) != 0x80) return 0;
    const unsigned second = byte(1);
    const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
    const bool no_character =
        (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);
    return overlong || no_character ? 0 : length;
}

// Formats an event as JSON text. "@" is a placeholder for the rank.
std::string event(std::string_view phase, std::string_view name, std::uint64_t id,
                  std::uint64_t at_ns, std::string_view details) {
    return fmt::format(
        "{{\"ph\":\"{}\",\"name\":\"{}\",\"cat\":\"cldist\",\"id\":{},\"ts\":{},\"args\":{{{}}},"
        "\"tid\":0,\"pid\":@"
        "}},\n",
        phase, json_escaped(name), id, microseconds(at_ns), details);
}

std::string thread_name(int lane, std::string_view name) {
    return fmt::format(
        "{{\"ph\":\"M\",\"name\":\"thread_name\",\"tid\":{},\"pid\":@,\"args\":{{\"name\":\"{}\"}}}"
        "},\n",
        lane, name);
}

std::atomic<bool> given_up{false};

// The trace file is a JSON object. Each write appends events to its array and writes the rest of
// the object again.
class File {
public:
    /// Opens the file, or renames it for a new rank. Returns an empty text or an error message,
    /// after which the trace ends.
    [[nodiscard]] std::string open(int rank, int ranks) {
        const std::string before = path();
        const bool before_events = written_ == 0;
        rank_ = rank;
        ranks_ = ranks;
        if (descriptor_ < 0) {
            if (mkdir(folder_.c_str(), 0777) != 0 && errno != EEXIST)
                return give_up("create the folder", folder_, errno);
            descriptor_ = ::open(path().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
            if (descriptor_ < 0) return give_up("write", path(), errno);
            // A program that this process started has the same environment and may use the same
            // file.
            struct stat file {};
            if (fstat(descriptor_, &file) == 0 && S_ISREG(file.st_mode) &&
                flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
                return give_up("write", path() + ", which another process is writing", errno);
            truncate_at(0);
        } else if (before != path() && std::rename(before.c_str(), path().c_str()) != 0) {
            return give_up("write", path(), errno);
        }
        return append(before_events ? thread_name(0, "messages and files") : "");
    }

    [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }

    void add(const ClockSample &sample) {
        fmt::format_to(
            std::back_inserter(clock_), R"({}{{"at_ns":{},"offset_ns":{},"uncertainty_ns":{}}})",
            clock_.empty() ? "" : ",", sample.at_ns, sample.offset_ns, sample.uncertainty_ns);
    }

    /// Appends `events`, in which "@" is a placeholder for the rank. Returns the same as open().
    [[nodiscard]] std::string append(std::string_view events) {
        std::string text = written_ == 0 ? "{\"traceEvents\":[\n" : "";
        for (;;) {
            const std::size_t place = events.find('@');
            text += events.substr(0, place);
            if (place == std::string_view::npos) break;
            fmt::format_to(std::back_inserter(text), "{}", rank_);
            events.remove_prefix(place + 1);
        }
        const std::size_t grown = written_ + text.size();
        text += rest();
        if (const int error = write_at_end(text); error != 0) {
            // Keep the earlier events readable if the disk has room for the rest of the object.
            truncate_at(written_);
            if (written_ == 0 || write_at_end(rest()) != 0) unlink(path().c_str());
            return give_up("write", path(), error);
        }
        truncate_at(written_ + text.size());
        written_ = grown;
        return {};
    }

private:
    [[nodiscard]] std::string path() const {
        return fmt::format("{}/cldist-trace-{}.json", folder_, rank_);
    }

    [[nodiscard]] std::string rest() const {
        return fmt::format(
            "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{0},\"args\":{{\"name\":\"rank "
            "{0}\"}}}}\n],\n"
            "\"displayTimeUnit\":\"ms\",\n"
            "\"otherData\":{{\"rank\":{0},\"ranks\":{1},\"host\":\"{2}\",\"boot\":\"{3}\","
            "\"clock\":[{4}]}}}}\n",
            rank_, ranks_, host_, boot_, clock_);
    }

    // Returns errno or 0.
    [[nodiscard]] int write_at_end(std::string_view text) const {
        for (std::size_t at = written_; !text.empty();) {
            const ssize_t count =
                pwrite(descriptor_, text.data(), text.size(), static_cast<off_t>(at));
            if (count < 0 && errno != EINTR) return errno;
            if (count <= 0) continue;
            at += static_cast<std::size_t>(count);
            text.remove_prefix(static_cast<std::size_t>(count));
        }
        return 0;
    }

    // Fails harmlessly if the file is a device.
    void truncate_at(std::size_t size) const {
        [[maybe_unused]] const int failed = ftruncate(descriptor_, static_cast<off_t>(size));
    }

    std::string give_up(const char *what, const std::string &path, int error) const {
        given_up = true;
        return fmt::format("CLDIST_TRACE: cannot {} {}: {}; rank {} writes no trace from now on",
                           what, path, std::strerror(error), rank_);
    }

    const std::string folder_ = config().trace;  // a copy, because config() is destroyed at exit
    const std::string host_ = json_escaped(host_name());
    const std::string boot_ = json_escaped(boot_id());
    int rank_ = launched_rank();
    int ranks_ = 1;
    int descriptor_ = -1;
    std::size_t written_ = 0;  ///< size up to the end of the events
    std::string clock_;
};

class Recorder {
public:
    Recorder() {
        watch_for_forks();
        std::atexit(&flush);
        std::thread([this] {
            sigset_t all;
            sigfillset(&all);
            pthread_sigmask(SIG_SETMASK, &all, nullptr);
            prctl(PR_SET_NAME, "cldist-trace");
            for (;;) {
                std::this_thread::sleep_for(std::chrono::milliseconds(100));
                write(false);
            }
        }).detach();
    }

    void add(std::string_view events) {
        const std::lock_guard lock(mutex_);
        events_.append(events);
    }

    void kernel(std::string_view name, const void *queue, std::uint64_t start_ns,
                std::uint64_t end_ns) {
        const std::lock_guard lock(mutex_);
        const auto [lane, added] = lanes_.try_emplace(queue, static_cast<int>(lanes_.size()) + 1);
        if (added)
            events_ += thread_name(lane->second, fmt::format("kernels of queue {}", lane->second));
        fmt::format_to(std::back_inserter(events_),
                       "{{\"ph\":\"X\",\"name\":\"{}\",\"cat\":\"kernel\",\"ts\":{},\"dur\":{},"
                       "\"tid\":{},\"pid\":@}},\n",
                       json_escaped(name), microseconds(start_ns), microseconds(end_ns - start_ns),
                       lane->second);
    }

    [[nodiscard]] std::string open(int rank, int ranks) {
        const std::lock_guard lock(file_mutex_);
        return file_.open(rank, ranks);
    }

    void add(const ClockSample &sample) {
        const std::lock_guard lock(file_mutex_);
        file_.add(sample);
    }

    /// Writes the recorded events. Without events, writes only if `always` is set.
    void write(bool always) {
        if (given_up || in_forked_child()) return;
        const std::lock_guard file_lock(file_mutex_);
        taken_.clear();
        {
            const std::lock_guard lock(mutex_);
            taken_.swap(events_);
        }
        if (taken_.empty() && !always) return;
        std::string wrong;
        if (!file_.is_open()) wrong = file_.open(launched_rank(), 1);
        if (wrong.empty()) wrong = file_.append(taken_);
        if (!wrong.empty()) log_error("{}", wrong);
    }

private:
    // Never held while the file is written, because the threads that record must not wait for a
    // disk.
    std::mutex mutex_;
    std::string events_;
    std::map<const void *, int> lanes_;

    std::mutex file_mutex_;
    File file_;
    std::string taken_;
};

Recorder &recorder() {
    // Never destroyed, because its thread runs until the process ends.
    static auto &instance = *new Recorder;
    return instance;
}

}  // namespace

bool enabled() { return !given_up.load(std::memory_order_relaxed) && !config().trace.empty(); }

void begin(std::string_view name, std::uint64_t id, std::uint64_t start_ns,
           std::string_view details) {
    if (enabled()) recorder().add(event("b", name, id, start_ns, details));
}

void end(std::string_view name, std::uint64_t id, std::uint64_t end_ns, std::string_view details) {
    if (enabled()) recorder().add(event("e", name, id, end_ns, details));
}

void stage(std::string_view name, std::uint64_t id, std::uint64_t start_ns, std::uint64_t end_ns) {
    if (enabled())
        recorder().add(event("b", name, id, start_ns, {}) + event("e", name, id, end_ns, {}));
}

void kernel(std::string_view name, const void *queue, std::uint64_t start_ns,
            std::uint64_t end_ns) {
    if (enabled()) recorder().kernel(name, queue, start_ns, end_ns);
}

std::string start(int rank, int ranks) { return enabled() ? recorder().open(rank, ranks) : ""; }

void add_clock_sample(const ClockSample &sample) {
    if (enabled()) recorder().add(sample);
}

void flush() {
    if (enabled()) recorder().write(true);
}

std::string json_escaped(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const char c = text.front();
        const std::size_t length = utf8_length(text);
        if (c == '"' || c == '\\')
            out += {'\\', c};
        else if (length == 0)
            out += "\xef\xbf\xbd";  // U+FFFD
        else if (static_cast<unsigned char>(c) < 0x20 || c == '@')
            fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
        else
            out += text.substr(0, length);
        text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return out;
}

}  // namespace cldist::trace
