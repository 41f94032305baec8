#pragma once

#include "hosts.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace smith_waterman {

struct Host {
    std::string_view name;
    std::function<Times(Search &, std::FILE *)> run;
};

/// The times of one search of the whole database, in seconds.
struct Run {
    double total;
    Times times;
    /// The cost of the transfers: the time in which no kernel ran.
    double exposed() const { return total - times.kernels; }
};

/// The runs of one host program with one block size.
struct Series {
    std::string_view host;
    std::size_t block, chunks;
    std::vector<Run> runs = {};

    template <typename Figure>
    double median(Figure &&figure) const;
    double total() const;
    double kernels() const;
    double exposed() const;
    double file() const;
    double copy() const;
};

/// Returns the reduction of exposed time by `series` compared with `by`, the median over the
/// rounds; 0.18 means 18 % less.
double saved(const Series &series, const Series &by);

/// Returns "511", "4K" or "1M".
std::string size_name(std::size_t bytes);

/// Prints a table, and the reduction at the block size with which event-chained is fastest.
/// `cells`: the number of matrix cells that a run computes.
void print(const std::vector<Series> &all, double cells);
/// Writes JSON. `head` contains further members of the object.
std::string to_json(const std::string &head, const std::vector<Series> &all, double cells);

}  // namespace smith_waterman
