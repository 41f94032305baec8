#pragma once

#include <string>

namespace cldist::tool {

/// What is going on, on standard error: a line that changes if that is a terminal, else a line for each route.
class Progress {
public:
    Progress();
    Progress(const Progress &) = delete;
    Progress &operator=(const Progress &) = delete;
    ~Progress() { clear(); }

    /// A route begins; it and what follows take so many seconds, at most.
    void begin(const std::string &route, double seconds, double seconds_after);
    /// What is measured, and which part of the route's time is over.
    void step(const std::string &what, double done);
    /// Makes room for other output.
    void clear();

private:
    const bool terminal_;
    std::string route_;
    double planned_ = 0;
    double after_ = 0;
    double before_ = 0;  ///< planned for routes that are over
    bool shown_ = false;
};

}  // namespace cldist::tool
