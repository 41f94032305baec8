#pragma once

#include "protein.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace smith_waterman {

/// Writes the proteins of a FASTA file as a packed database: an index, then all residues, one byte
/// each. The shortest protein comes first, so that proteins that are computed together have similar
/// lengths.
///
/// Any range of the residues can be read alone, because the index describes its content.
void pack(const std::string &fasta, const std::string &packed);

/// A packed database without its residues. The proteins have the order of the file, the shortest
/// first.
struct Database {
    std::string path;
    std::uint64_t residues_at = 0;  ///< where they begin in the file
    /// of each protein in the residues, and the end of the last one
    std::vector<std::uint64_t> starts;
    std::vector<std::string> names;

    /// Throws std::invalid_argument if the file does not exist, is no packed database, or is
    /// incomplete.
    static Database open(const std::string &path);

    std::size_t size() const { return names.size(); }
    std::uint64_t residues() const { return starts.back(); }
    Residues read_residues() const;
};

/// A chunk that is read and computed at once: residues begin to end, which belong to proteins first
/// to first + count. The first protein may have begun before, and the last one may continue after.
struct Chunk {
    std::uint64_t begin, end;
    std::uint32_t first, count;
};

/// Returns the residues of a database in chunks of `block` bytes. The last one contains the rest.
std::vector<Chunk> cut(const std::vector<std::uint64_t> &starts, std::size_t block);

}  // namespace smith_waterman
