#pragma once

#include "protein.hpp"

#include <span>

namespace smith_waterman {

/// The best score of a local alignment of two sequences of residues, with BLOSUM62 and affine gaps:
/// Smith and Waterman (1981) as Gotoh (1982) computes it, as plain loops.
int reference_score(std::span<const std::uint8_t> query, std::span<const std::uint8_t> sequence,
                    Gap gap);

}  // namespace smith_waterman
