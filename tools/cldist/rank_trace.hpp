#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/clock_sync.hpp"
#include "intervals.hpp"

namespace cldist::tool {

/// An error in a trace, or in the files of a folder. The text contains the file's name.
class TraceError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// A command of the library with its stages, or a kernel.
struct Command {
    struct Stage {
        std::string name;
        Interval time;
    };

    /// "send", "file read", …; "kernel NAME"; "send, not ended" if the trace contains no end
    std::string kind;
    /// From the completion of its wait list to its end.
    Interval time;
    double bytes = 0;
    std::vector<Stage> stages;

    [[nodiscard]] bool is_kernel() const { return kind.starts_with("kernel "); }
};

/// The trace of one rank, as the library wrote it.
struct RankTrace {
    int rank = 0;
    int ranks = 1;
    std::string host;
    std::string boot;  ///< of the running kernel: ranks with equal values share a clock
    std::vector<ClockSample> clock;
    nlohmann::json events;  ///< an array of Chrome trace events
};

/// Parses a trace. The text of a TraceError does not contain the file's name.
[[nodiscard]] RankTrace parse_trace(const std::string &text);

/// Reads cldist-trace-<rank>.json of all ranks in order. If files are missing, damaged or from
/// another run, throws a TraceError that lists them. With `partial` it adds them to `left_out`
/// instead, and throws only if no file is valid.
[[nodiscard]] std::vector<RankTrace> read_traces(const std::filesystem::path &folder, bool partial,
                                                 std::vector<std::string> &left_out);

/// The commands and kernels among a rank's events. Throws a TraceError without the file's name for
/// traces of parse_trace(). Traces of read_traces() are already checked.
[[nodiscard]] std::vector<Command> commands_of(const RankTrace &trace);

}  // namespace cldist::tool
