#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rank_trace.hpp"

namespace cldist::tool {

/// A row of the table: all commands of one kind, or one stage of them.
struct Row {
    std::string kind;
    std::string stage;  ///< empty for whole commands
    std::size_t count = 0;
    double bytes = 0;
    double total_us = 0;   ///< the sum of their durations
    double median_us = 0;  ///< of one command
    double busy_us = 0;    ///< the time in which at least one was in flight, summed over the ranks
    double under_us = 0;   ///< the part of that time during which kernels of the same rank ran
    bool kernel = false;
};

/// A row for each kind of command, sorted by kind with kernels last, each followed by rows for its
/// stages. `ranks` are the commands of each rank.
[[nodiscard]] std::vector<Row> summarise(const std::vector<std::vector<Command>> &ranks);

/// The rows as a text table.
[[nodiscard]] std::string format_table(const std::vector<Row> &rows);

}  // namespace cldist::tool
