#pragma once

#include <string>
#include <vector>

namespace cldist::tool {

struct TuneOptions {
    std::string device;     ///< see choose_device
    std::string directory;  ///< of the temporary file; empty: TMPDIR or /tmp
    std::string output;     ///< empty: the path where the library looks for it
    double seconds = 100;
    bool force = false;  ///< saves a route even if its times vary widely
    bool check = false;  ///< measures the chosen ways and all alternatives
    bool explain = false;
    std::vector<std::string> sizes;  ///< for --explain; empty: the usual sizes
    std::string plot;                ///< the PNG file to draw, or empty
    std::string profile;             ///< the profile to explain or draw; empty: the profile in use
};

/// `cldist tune`. Returns the exit status.
int run_tune(const TuneOptions &options);

}  // namespace cldist::tool
