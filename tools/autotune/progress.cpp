#include "progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

namespace cldist::tool {
namespace {

// Unlike fmt::print it does not throw: a failed progress message must not end the measurement.
void show(const std::string &text) { std::fputs(text.c_str(), stderr); }

}  // namespace

Progress::Progress() : terminal_(isatty(STDERR_FILENO) != 0) {}

void Progress::begin(const std::string &route, double seconds, double seconds_after) {
    before_ += planned_;
    route_ = route;
    planned_ = seconds;
    after_ = seconds_after;
    if (!terminal_) show(fmt::format("cldist tune: {}, up to {:.0f} s\n", route, seconds));
}

void Progress::step(const std::string &what, double done) {
    if (!terminal_) return;
    const double over = before_ + planned_ * std::clamp(done, 0.0, 1.0);
    const double all = before_ + planned_ + after_;
    const double part = all > 0 ? over / all : 1;
    std::string bar(24, '.');
    std::fill_n(bar.begin(), static_cast<std::size_t>(part * static_cast<double>(bar.size())), '#');
    show(fmt::format("\r[{}] {:3.0f} %, up to {:.0f} s left: {}, {}\033[K", bar, 100 * part,
                     all - over, route_, what));
    std::fflush(stderr);
    shown_ = true;
}

void Progress::clear() {
    if (shown_) show("\r\033[K");
    shown_ = false;
}

}  // namespace cldist::tool
