#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smith_waterman {

/// A residue is the number of its letter here: BLOSUM62's order.
inline constexpr std::string_view letters = "ARNDCQEGHILKMFPSTWYVBZX*";
using Residues = std::vector<std::uint8_t>;

/// The residue of a letter, capital or small; of those that BLOSUM62 hasn't (J, O, U), that of X.
std::optional<std::uint8_t> residue_of(char letter);

/// Score of two residues that are aligned.
extern const std::array<std::array<signed char, letters.size()>, letters.size()> blosum62;

/// What a gap costs: its first residue, and each further one.
struct Gap {
    int open = 10, extend = 1;
};

struct Protein {
    std::string name;
    Residues residues;
};

}  // namespace smith_waterman
