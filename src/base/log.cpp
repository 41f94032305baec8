#include "base/log.hpp"

#include <unistd.h>

#include <atomic>

namespace cldist {
namespace {

std::atomic<LogLevel> level_shown{LogLevel::warning};
std::atomic<int> rank_shown{-1};

}  // namespace

void set_log_level(LogLevel level) { level_shown = level; }
bool log_enabled(LogLevel level) { return level <= level_shown.load(std::memory_order_relaxed); }
void set_log_rank(int rank) { rank_shown = rank; }

void log_line(std::string_view text) {
    const int rank = rank_shown;
    const std::string prefix = rank < 0 ? "cldist: " : fmt::format("cldist[{}]: ", rank);
    std::string out;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        out += prefix;
        out += text.substr(0, end);
        out += '\n';
        text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    }
    // One write per text, so that lines of several ranks and threads do not mix. A failed write
    // cannot be reported anywhere.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, out.data(), out.size());
}

}  // namespace cldist
