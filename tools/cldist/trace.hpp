#pragma once

#include <string>

namespace cldist::tool {

struct TraceOptions {
    std::string folder;
    std::string output;  ///< empty: merged.json in the folder
    std::string html;    ///< the file of the page, or empty
    bool per_rank = false;
    bool partial = false;
};

/// Merges the traces of a folder and prints the table. Prints errors. Returns the exit status.
int run_trace(const TraceOptions &options);

}  // namespace cldist::tool
