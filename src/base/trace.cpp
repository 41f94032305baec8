#include "base/trace.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
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

    std::string take() {
        const std::lock_guard lock(mutex_);
        return std::exchange(events_, {});
    }

private:
    std::mutex mutex_;
    std::string events_;
    std::map<const void *, int> lanes_;
};

Recorder &recorder() {
    // Never destroyed: written at exit.
    static auto &instance = *new Recorder;
    return instance;
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

void write(int rank) {
    if (!enabled()) return;
    const std::string events = recorder().take();
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
    fmt::print(file, "{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
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
