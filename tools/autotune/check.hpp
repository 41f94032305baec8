#pragma once

#include <string>
#include <vector>

#include "choices.hpp"
#include "measure.hpp"

// `cldist tune --check`: what a profile chooses against what else can be had.
namespace cldist::tool {

/// What the user can force, or what is chosen, for transfers of one size.
struct Contender {
    std::string name;  ///< "chosen", "built-in", "mapped", "pipelined 1M", …
    Way way;

    bool operator==(const Contender &) const = default;
};

/// First what the profile chooses, then the built-in choice and each path that can be forced, some of them with several
/// sizes of blocks. What does the same as one before is left out, but for the first. Pure.
[[nodiscard]] std::vector<Contender> contenders_of(const Profile &profile, Route route, std::size_t size,
                                                   const Here &here);

/// What one size took.
struct CheckedSize {
    std::size_t size;
    std::vector<Contender> contenders;
    std::vector<double> seconds;  ///< of each, the median of all rounds
};

/// How many times as long as the best of the others what is chosen takes; below 1 it is faster. 1 if there are no others.
[[nodiscard]] double against_best(const CheckedSize &checked);

/// Measures all contenders in turn, in rounds.
[[nodiscard]] std::vector<CheckedSize> check_route(Transfers &transfers, const Task &task, const Profile &profile,
                                                   const Here &here);

/// A table in Markdown, and below it the worst ratio.
[[nodiscard]] std::string check_text(Route route, const std::vector<CheckedSize> &checked);

}  // namespace cldist::tool
