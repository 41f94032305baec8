#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/clock_sync.hpp"
#include "intervals.hpp"

namespace cldist::tool {

/// What is wrong with a trace, or with the files of a folder, in words that name the file.
class TraceError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// A command of the library, of which `stages` are parts, or a kernel.
struct Command {
    struct Stage {
        std::string name;
        Interval time;
    };

    std::string kind;  ///< "send", "file read", …; "kernel NAME"; "send, not ended" if the trace has no end of it
    /// From when it could start, its wait list done, to its end.
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
    std::string boot;  ///< of the running kernel: ranks with the same one have the same clock
    std::vector<ClockSample> clock;
    nlohmann::json events;  ///< an array of Chrome's trace events
};

/// Reads a trace from its text. Throws a TraceError that does not name the file.
[[nodiscard]] RankTrace parse_trace(const std::string &text);

/// Reads cldist-trace-<rank>.json of all ranks, in their order. What is missing or damaged, or of another run, throws a
/// TraceError that names all such files; with `partial` they are left out, and named in `left_out`, if any is whole.
[[nodiscard]] std::vector<RankTrace> read_traces(const std::filesystem::path &folder, bool partial,
                                                 std::vector<std::string> &left_out);

/// The commands and kernels among a rank's events. Throws a TraceError that does not name the file, if parse_trace() made
/// the trace; those of read_traces() are well.
[[nodiscard]] std::vector<Command> commands_of(const RankTrace &trace);

}  // namespace cldist::tool
