#pragma once

#include "protein.hpp"

#include <cstdint>
#include <string>

namespace smith_waterman {

/// Writes a FASTA file of random proteins with at least `residues` residues in all. As in
/// Swiss-Prot, lengths are log-normal with a mean of 360, and amino acids have the frequencies of
/// nature; lengths below 35 or above 8000 are drawn again. Every 2000th protein, and the tenth, is
/// a relative of `query`: more or less mutated, between random ends. The same arguments give the
/// same file.
void generate(const std::string &path, std::uint64_t residues, std::uint64_t seed,
              const Protein &query);

}  // namespace smith_waterman
