#include "trace_table.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include <fmt/format.h>

namespace cldist::tool {
namespace {

// The order of the stages in a command.
constexpr std::array<const char *, 5> stage_order{"wait", "match", "device", "message", "file"};

/// The sort key of a row: kernels come last, and a command comes before its stages.
struct Key {
    bool kernel;
    std::string kind;
    std::ptrdiff_t stage;  ///< -1 for the whole command

    auto operator<=>(const Key &) const = default;
};

/// The data of a row.
struct Sum {
    double bytes = 0;
    double busy_us = 0;
    double under_us = 0;
    std::vector<double> durations;
};

double median_of(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    if (values.size() % 2 == 1) return *middle;
    return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

void add_rank(const std::vector<Command> &commands, std::map<Key, Sum> &sums) {
    std::map<Key, std::vector<Interval>> times;
    std::vector<Interval> kernels;
    for (const Command &command : commands) {
        const Key whole{command.is_kernel(), command.kind, -1};
        sums[whole].bytes += command.bytes;
        times[whole].push_back(command.time);
        if (command.is_kernel()) kernels.push_back(command.time);
        for (const Command::Stage &stage : command.stages) {
            const auto place = std::ranges::find(stage_order, stage.name) - stage_order.begin();
            times[{false, command.kind, place}].push_back(stage.time);
        }
    }
    const Intervals computing = union_of(std::move(kernels));
    for (auto &[key, intervals] : times) {
        Sum &sum = sums[key];
        for (const Interval &time : intervals) sum.durations.push_back(time.end - time.start);
        const Intervals busy = union_of(std::move(intervals));
        sum.busy_us += length_of(busy);
        sum.under_us += length_of(intersection_of(busy, computing));
    }
}

std::string rate_of(const Row &row) {
    return row.bytes > 0 && row.busy_us > 0 ? fmt::format("{:.3f}", row.bytes / row.busy_us / 1e3)
                                            : "-";
}

}  // namespace

std::vector<Row> summarise(const std::vector<std::vector<Command>> &ranks) {
    std::map<Key, Sum> sums;
    for (const std::vector<Command> &commands : ranks) add_rank(commands, sums);
    std::vector<Row> rows;
    for (const auto &[key, sum] : sums) {
        Row row;
        row.kind = key.kind;
        if (key.stage >= 0) row.stage = stage_order.at(static_cast<std::size_t>(key.stage));
        row.count = sum.durations.size();
        row.bytes = sum.bytes;
        row.total_us = std::accumulate(sum.durations.begin(), sum.durations.end(), 0.0);
        row.median_us = median_of(sum.durations);
        row.busy_us = sum.busy_us;
        row.under_us = sum.under_us;
        row.kernel = key.kernel;
        rows.push_back(std::move(row));
    }
    return rows;
}

std::string format_table(const std::vector<Row> &rows) {
    const bool computes = std::ranges::any_of(rows, &Row::kernel);
    std::size_t width = 16;
    for (const Row &row : rows) width = std::max(width, row.kind.size());
    std::string text =
        fmt::format("{:<{}} {:>9} {:>15} {:>11} {:>11} {:>11} {:>8} {:>13}\n", "kind", width,
                    "count", "bytes", "total ms", "median us", "busy ms", "GB/s", "under kernels");
    for (const Row &row : rows) {
        const bool whole = row.stage.empty();
        text += fmt::format("{:<{}} {:>9} {:>15} {:>11.3f} {:>11.1f} {:>11.3f} {:>8} {:>13}\n",
                            whole ? row.kind : "  " + row.stage, width, row.count,
                            whole && !row.kernel ? fmt::format("{:.0f}", row.bytes) : "-",
                            row.total_us / 1e3, row.median_us, row.busy_us / 1e3, rate_of(row),
                            row.kernel || !computes || row.busy_us <= 0
                                ? "-"
                                : fmt::format("{:.1f} %", 100 * row.under_us / row.busy_us));
    }
    return text;
}

}  // namespace cldist::tool
