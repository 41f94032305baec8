#pragma once

#include <string>

namespace cldist::tool {

/// Shows the progress on standard error: a changing line in a terminal, otherwise one line per
/// route.
class Progress {
public:
    Progress();
    Progress(const Progress &) = delete;
    Progress &operator=(const Progress &) = delete;
    ~Progress() { clear(); }

    /// A route begins. It takes at most `seconds`, the later routes at most `seconds_after`.
    void begin(const std::string &route, double seconds, double seconds_after);
    /// Shows the current measurement and the finished fraction of the route's time.
    void step(const std::string &what, double done);
    /// Removes the line before other output.
    void clear();

private:
    const bool terminal_;
    std::string route_;
    double planned_ = 0;
    double after_ = 0;
    double before_ = 0;  ///< the planned time of finished routes
    bool shown_ = false;
};

}  // namespace cldist::tool
