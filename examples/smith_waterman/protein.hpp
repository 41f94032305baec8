#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smith_waterman {

/// A residue is the index of its letter here, in the order of BLOSUM62.
inline constexpr std::string_view letters = "ARNDCQEGHILKMFPSTWYVBZX*";
using Residues = std::vector<std::uint8_t>;

/// Returns the residue of a capital or small letter. J, O and U, which BLOSUM62 lacks, become X.
std::optional<std::uint8_t> residue_of(char letter);

/// The score of two aligned residues.
extern const std::array<std::array<signed char, letters.size()>, letters.size()> blosum62;

/// The cost of a gap: of its first residue, and of each further one.
struct Gap {
    int open = 10, extend = 1;
};

struct Protein {
    std::string name;
    Residues residues;
};

}  // namespace smith_waterman
