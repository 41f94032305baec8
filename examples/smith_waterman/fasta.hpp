#pragma once

#include "protein.hpp"

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace smith_waterman {

/// Reads proteins from a FASTA file. Sequences may have any number of lines, of any length, in capital or small letters,
/// with blanks and empty lines, ended by LF or CRLF; the last line need not be ended. '*' is a residue like others.
///
/// Throws std::invalid_argument, with file and line, for what is no letter of a residue, for residues before the first
/// '>', for a '>' without a name, and for a protein without residues; also for a file that can't be read or has no protein.
std::vector<Protein> read_fasta(const std::string &path);

/// Writes proteins, 60 residues to a line.
class FastaWriter {
public:
    explicit FastaWriter(std::string path);
    FastaWriter(const FastaWriter &) = delete;
    FastaWriter &operator=(const FastaWriter &) = delete;
    ~FastaWriter();

    void write(const Protein &protein);
    /// Must be called: throws if anything could not be written.
    void close();

private:
    std::string path_;
    std::FILE *file_;
};

}  // namespace smith_waterman
