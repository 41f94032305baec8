#include "base/trace.hpp"

#include <sys/stat.h>
#include <unistd.h>

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
    const std::string events = recorder().events();
    const std::string &folder = config().trace;
    if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) {
        log_warning("CLDIST_TRACE: can't make the folder {}: {}", folder, std::strerror(errno));
        return;
    }
    const std::string path = fmt::format("{}/cldist-trace-{}.json", folder, rank);
    std::FILE *file = std::fopen(path.c_str(), "w");
    if (file == nullptr) {
        log_warning("CLDIST_TRACE: can't write {}: {}", path, std::strerror(errno));
        return;
    }
    fmt::print(file,
               "{{\"displayTimeUnit\":\"ms\",\n"
               "\"otherData\":{{\"rank\":{},\"ranks\":{},\"host\":\"{}\",\"boot\":\"{}\",\"clock\":[{}]}},\n"
               "\"traceEvents\":[\n",
               rank, known_ranks.load(), json_escaped(host_name()), json_escaped(boot_id()), recorder().clock());
    for (const char c : events) {
        if (c == '@')
            fmt::print(file, "{}", rank);
        else
            std::fputc(c, file);
    }
    fmt::print(file, R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"rank {}"}}}})", rank, rank);
    fmt::print(file, "\n]}}\n");
    if (std::fclose(file) != 0) log_warning("CLDIST_TRACE: can't write {}: {}", path, std::strerror(errno));
}

std::string json_escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '"' || c == '\\')
            out += {'\\', c};
        else if (static_cast<unsigned char>(c) < 0x20 || c == '@')
            fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
        else
            out += c;
    }
    return out;
}

}  // namespace cldist::trace
