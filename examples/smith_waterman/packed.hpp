#pragma once

#include "protein.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace smith_waterman {

/// Writes the proteins of a FASTA file as a packed database: an index, then all residues, one byte
/// each. Proteins are sorted by length, so that those computed together have similar lengths.
///
/// Any range of the residues can be read alone, because the index describes its content.
void pack(const std::string &fasta, const std::string &packed);

/// A packed database without its residues. The proteins are sorted by length, the shortest first.
struct Database {
    std::string path;
    std::uint64_t residues_at = 0;  ///< their offset in the file
    /// The index of each protein's first residue, then the number of residues.
    std::vector<std::uint64_t> starts;
    std::vector<std::string> names;

    /// Throws std::invalid_argument if the file is missing, incomplete or no packed database.
    static Database open(const std::string &path);

    std::size_t size() const { return names.size(); }
    std::uint64_t residues() const { return starts.back(); }
    Residues read_residues() const;
};

/// A part of the database that is read and computed at once: residues `begin` to `end` (exclusive)
/// of `count` proteins from `first` on. The first protein may begin in an earlier chunk, and the
/// last one may continue in later chunks.
struct Chunk {
    std::uint64_t begin, end;
    std::uint32_t first, count;
};

/// Divides the residues of a database into chunks of `block` bytes. The last one may be smaller.
std::vector<Chunk> cut(const std::vector<std::uint64_t> &starts, std::size_t block);

}  // namespace smith_waterman
