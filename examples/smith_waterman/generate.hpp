#pragma once

#include "protein.hpp"

#include <cstdint>
#include <string>

namespace smith_waterman {

/// Writes a FASTA file of random proteins with at least `residues` residues in total. Lengths and
/// amino acid frequencies are as in Swiss-Prot: lengths are log-normal from 35 to 8000, with a mean
/// of 360. The tenth and every 2000th protein is a mutated copy of `query` between random ends.
/// Equal arguments produce equal files.
void generate(const std::string &path, std::uint64_t residues, std::uint64_t seed,
              const Protein &query);

}  // namespace smith_waterman
