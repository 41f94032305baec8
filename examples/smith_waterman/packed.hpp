#pragma once

#include "protein.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace smith_waterman {

/// Writes the proteins of a FASTA file as a packed database: an index, then all residues, a byte each, one protein after
/// another, the shortest first. Proteins that are computed together are then of about one length.
///
/// Any range of the residues can be read alone: the index tells what is in it.
void pack(const std::string &fasta, const std::string &packed);

/// A packed database, without its residues. Proteins have the order of the file, the shortest first.
struct Database {
    std::string path;
    std::uint64_t residues_at = 0;      ///< where they begin in the file
    std::vector<std::uint64_t> starts;  ///< of each protein, in the residues, and where the last one ends
    std::vector<std::string> names;

    /// Throws std::invalid_argument if there is no such file, or if it is no packed database, or not a whole one.
    static Database open(const std::string &path);

    std::size_t size() const { return names.size(); }
    std::uint64_t residues() const { return starts.back(); }
    Residues read_residues() const;
};

/// What is read and computed at once: residues begin to end, in which proteins first to first + count have a part. The
/// first one may have begun before, and the last one may go on.
struct Chunk {
    std::uint64_t begin, end;
    std::uint32_t first, count;
};

/// The residues of a database in chunks of `block` bytes, the last of which is what is left.
std::vector<Chunk> cut(const std::vector<std::uint64_t> &starts, std::size_t block);

}  // namespace smith_waterman
