#include "reference.hpp"

#include <algorithm>
#include <vector>

namespace smith_waterman {

int reference_score(std::span<const std::uint8_t> query, std::span<const std::uint8_t> sequence,
                    Gap gap) {
    // Lower than any score, without danger of overflow.
    constexpr int never = -1'000'000'000;
    // The previous row. For each column: the best score of an alignment that ends there, and the
    // best score of an alignment that ends there with a gap in the sequence.
    std::vector<int> best(sequence.size() + 1, 0), best_gap(sequence.size() + 1, never);
    int highest = 0;
    for (const std::uint8_t letter : query) {
        int diagonal = 0, left = 0, left_gap = never;
        for (std::size_t n = 1; n <= sequence.size(); ++n) {
            best_gap[n] = std::max(best_gap[n] - gap.extend, best[n] - gap.open);
            left_gap = std::max(left_gap - gap.extend, left - gap.open);
            const int aligned = diagonal + blosum62[letter][sequence[n - 1]];
            diagonal = best[n];
            left = std::max({0, aligned, best_gap[n], left_gap});
            best[n] = left;
            highest = std::max(highest, left);
        }
    }
    return highest;
}

}  // namespace smith_waterman
