#pragma once

#include <string>
#include <vector>

#include "choices.hpp"
#include "measure.hpp"

// `cldist tune --check`: compares a profile's choices with all alternatives.
namespace cldist::tool {

/// A way to transfer one size: the profile's choice or a forced way.
struct Contender {
    std::string name;  ///< "chosen", "built-in", "mapped", "chunked 1M", …
    Way way;

    bool operator==(const Contender &) const = default;
};

/// The profile's choice, the built-in choice, and each path that can be forced, some with several
/// block sizes. Ways that are equivalent to an earlier one are left out, except the built-in
/// choice. Pure.
[[nodiscard]] std::vector<Contender> contenders_of(const Profile &profile, Route route,
                                                   std::size_t size, const Here &here);

/// The times of one size.
struct CheckedSize {
    std::size_t size;
    std::vector<Contender> contenders;
    std::vector<double> seconds;  ///< of each contender, the median of all rounds
};

/// The time of the chosen way divided by that of the best different way; below 1 the chosen way is
/// faster. 1 if there is no different way.
[[nodiscard]] double against_best(const CheckedSize &checked);

/// Measures all contenders alternately, in rounds.
[[nodiscard]] std::vector<CheckedSize> check_route(Transfers &transfers, const Task &task,
                                                   const Profile &profile, const Here &here);

/// A table in Markdown, followed by the worst ratio.
[[nodiscard]] std::string check_text(Route route, const std::vector<CheckedSize> &checked);

}  // namespace cldist::tool
