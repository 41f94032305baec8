#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rank_trace.hpp"

namespace cldist::tool {

/// All commands of one kind, or one stage of them.
struct Row {
    std::string kind;
    std::string stage;  ///< empty for the commands as wholes
    std::size_t count = 0;
    double bytes = 0;
    double total_us = 0;   ///< the sum of their times
    double median_us = 0;  ///< of one
    double busy_us = 0;    ///< the time in which at least one was under way, summed over the ranks
    double under_us = 0;   ///< how much of that lies under kernels of the same rank
    bool kernel = false;
};

/// A row for each kind, in the order of their names, kernels last, and behind each one for each of its stages. `ranks` has the
/// commands of each rank.
[[nodiscard]] std::vector<Row> summarise(const std::vector<std::vector<Command>> &ranks);

/// As a table for people.
[[nodiscard]] std::string format_table(const std::vector<Row> &rows);

}  // namespace cldist::tool
