#pragma once

#include "protein.hpp"

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace smith_waterman {

/// Reads proteins from a FASTA file.
///
/// A sequence may have any number of lines of any length, with blanks and empty lines. Letters may
/// be capital or small. Lines end with LF or CRLF, and the last one may lack its end. '*' is a
/// residue like others.
///
/// Throws std::invalid_argument with the file and line if a character is no letter of a residue, or
/// residues precede the first '>'. It also throws if a '>' has no name, a protein has no residues,
/// or the file can't be read or contains no protein.
std::vector<Protein> read_fasta(const std::string &path);

/// Writes proteins, with 60 residues per line.
class FastaWriter {
public:
    explicit FastaWriter(std::string path);
    FastaWriter(const FastaWriter &) = delete;
    FastaWriter &operator=(const FastaWriter &) = delete;
    ~FastaWriter();

    void write(const Protein &protein);
    /// Must be called at the end. Throws if a write failed.
    void close();

private:
    std::string path_;
    std::FILE *file_;
};

}  // namespace smith_waterman
