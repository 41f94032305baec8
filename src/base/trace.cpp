#include "base/trace.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "base/config.hpp"
#include "base/log.hpp"

namespace cldist::trace {
namespace {

// Events are kept as JSON text, the rank's "pid" filled in when the file is written.
class Recorder {
public:
    void add(std::string_view event) {
        const std::lock_guard lock(mutex_);
        events_.append(event);
    }

    int lane(const void *queue) {
        const std::lock_guard lock(mutex_);
        return lanes_.try_emplace(queue, static_cast<int>(lanes_.size()) + 1).first->second;
    }

    void add(const ClockSample &sample) {
        const std::lock_guard lock(mutex_);
        fmt::format_to(std::back_inserter(clock_), R"({}{{"at_ns":{},"offset_ns":{},"uncertainty_ns":{}}})",
                       clock_.empty() ? "" : ",", sample.at_ns, sample.offset_ns, sample.uncertainty_ns);
    }

    std::string clock() const {
        const std::lock_guard lock(mutex_);
        return clock_;
    }

    std::string events() const {
        const std::lock_guard lock(mutex_);
        return events_;
    }

private:
    mutable std::mutex mutex_;
    std::string events_;
    std::string clock_;
    std::map<const void *, int> lanes_;
};

Recorder &recorder() {
    // Never destroyed: written at exit.
    static auto &instance = *new Recorder;
    return instance;
}

std::atomic<int> known_rank{0};
std::atomic<int> known_ranks{1};

std::string host_name() {
    std::array<char, 256> name{};
    return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Of the running kernel: processes that share it have one CLOCK_MONOTONIC, whatever their hosts are called.
std::string boot_id() {
    std::string id;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
    return id;
}

double microseconds(std::uint64_t ns) { return static_cast<double>(ns) / 1000.0; }

// Of the character that `text` begins with; 0 if its bytes are not UTF-8.
std::size_t utf8_length(std::string_view text) {
    const auto byte = [&](std::size_t i) -> unsigned { return static_cast<unsigned char>(text[i]); };
    const unsigned first = byte(0);
    if (first < 0x80) return 1;
    const std::size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (length == 0 || text.size() < length) return 0;
    for (std::size_t i = 1; i < length; ++i)
        if ((byte(i) & 0xc0) != 0x80) return 0;
    const unsigned second = byte(1);
    const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
    const bool no_character = (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);
    return overlong || no_character ? 0 : length;
}

// Gives errno's value of the first failure, or 0.
int write_file(const std::string &path, int rank) {
    std::FILE *file = std::fopen(path.c_str(), "w");
    if (file == nullptr) return errno;
    int error = 0;
    // Not fmt::print, which throws where this fails.
    const auto put = [&](std::string_view text) {
        if (error == 0 && std::fwrite(text.data(), 1, text.size(), file) != text.size()) error = errno;
    };
    put(
        fmt::format("{{\"displayTimeUnit\":\"ms\",\n"
                    "\"otherData\":{{\"rank\":{},\"ranks\":{},\"host\":\"{}\",\"boot\":\"{}\",\"clock\":[{}]}},\n"
                    "\"traceEvents\":[\n",
                    rank, known_ranks.load(), json_escaped(host_name()), json_escaped(boot_id()), recorder().clock()));
    const std::string events = recorder().events();
    const std::string process = fmt::format("{}", rank);
    for (std::string_view rest = events; !rest.empty();) {
        const std::size_t end = rest.find('@');
        put(rest.substr(0, end));
        if (end == std::string_view::npos) break;
        put(process);
        rest.remove_prefix(end + 1);
    }
    put(fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"rank {}"}}}})", rank, rank));
    put("\n]}\n");
    if (std::fclose(file) != 0 && error == 0) error = errno;
    return error;
}

// The trace is written more than once; what is wrong is said once.
void complain(const std::string &what, int error) {
    static std::atomic<bool> said = false;
    if (!said.exchange(true)) log_warning("CLDIST_TRACE: can't {}: {}", what, std::strerror(error));
}

}  // namespace

bool enabled() { return !config().trace.empty(); }

void span(std::string_view name, std::uint64_t id, std::uint64_t start_ns, std::uint64_t end_ns,
          std::string_view details) {
    if (!enabled()) return;
    const std::string common = fmt::format(R"("name":"{}","cat":"cldist","id":{})", json_escaped(name), id);
    recorder().add(
        fmt::format("{{\"ph\":\"b\",{},\"ts\":{:.3f},\"args\":{{{}}},\"tid\":0,\"pid\":@}},\n"
                    "{{\"ph\":\"e\",{},\"ts\":{:.3f},\"tid\":0,\"pid\":@}},\n",
                    common, microseconds(start_ns), details, common, microseconds(end_ns)));
}

void kernel(std::string_view name, const void *queue, std::uint64_t start_ns, std::uint64_t end_ns) {
    if (!enabled()) return;
    recorder().add(fmt::format(
        "{{\"ph\":\"X\",\"name\":\"{}\",\"cat\":\"kernel\",\"ts\":{:.3f},\"dur\":{:.3f},\"tid\":{},\"pid\":@}},\n",
        json_escaped(name), microseconds(start_ns), microseconds(end_ns - start_ns), recorder().lane(queue)));
}

void set_ranks(int ranks) { known_ranks = ranks; }

void add_clock_sample(const ClockSample &sample) {
    if (enabled()) recorder().add(sample);
}

void write(int rank) {
    known_rank = rank;
    write();
}

void write() {
    if (!enabled()) return;
    const int rank = known_rank;
    const std::string &folder = config().trace;
    if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) {
        complain("make the folder " + folder, errno);
        return;
    }
    const std::string path = fmt::format("{}/cldist-trace-{}.json", folder, rank);
    const int error = write_file(path, rank);
    if (error == 0) return;
    // What is there of it is of no use, and takes place on a disk that may be full.
    unlink(path.c_str());
    complain("write " + path, error);
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
