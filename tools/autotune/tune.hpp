#pragma once

#include <string>
#include <vector>

namespace cldist::tool {

struct TuneOptions {
    std::string device;     ///< see choose_device
    std::string directory;  ///< of the temporary file; empty: TMPDIR or /tmp
    std::string output;     ///< empty: where the library looks for it
    double seconds = 100;
    bool force = false;  ///< save what was measured even if it scatters widely
    bool check = false;  ///< measure what is chosen against what else can be had
    bool explain = false;
    std::vector<std::string> sizes;  ///< to be explained; empty: the usual ones
    std::string plot;                ///< a PNG file to be drawn, or empty
    std::string profile;             ///< to be explained or drawn; empty: that in use
};

/// `cldist tune`. Gives the exit status.
int run_tune(const TuneOptions &options);

}  // namespace cldist::tool
