#pragma once

#include "protein.hpp"

#include <span>

namespace smith_waterman {

/// Returns the best score of a local alignment of two sequences of residues, with BLOSUM62 and
/// affine gaps (Smith and Waterman 1981, computed as in Gotoh 1982) in plain loops.
int reference_score(std::span<const std::uint8_t> query, std::span<const std::uint8_t> sequence,
                    Gap gap);

}  // namespace smith_waterman
