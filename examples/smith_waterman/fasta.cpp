#include "fasta.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace smith_waterman {
namespace {

constexpr std::size_t line_length = 60;

std::string shown(char letter) {
    const auto byte = static_cast<unsigned char>(letter);
    return byte > ' ' && byte < 0x7f ? fmt::format("'{}'", letter)
                                     : fmt::format("byte 0x{:02x}", byte);
}

class Reader {
public:
    explicit Reader(const std::string &path) : path_(path), file_(path, std::ios::binary) {
        if (!file_) throw std::invalid_argument(fmt::format("{}: {}", path, std::strerror(errno)));
    }

    std::vector<Protein> all() {
        for (std::string line; std::getline(file_, line);) {
            ++line_number_;
            if (line.ends_with('\r')) line.pop_back();
            if (line.starts_with('>'))
                header(line);
            else
                residues(line);
        }
        if (file_.bad() || !file_.eof()) throw std::invalid_argument(path_ + ": reading failed");
        if (proteins_.empty())
            throw std::invalid_argument(path_ + ": has no protein, a line that begins with '>'");
        check_last();
        return std::move(proteins_);
    }

private:
    [[noreturn]] void refuse(std::size_t line, const std::string &problem) const {
        throw std::invalid_argument(fmt::format("{}:{}: {}", path_, line, problem));
    }

    void header(const std::string &line) {
        check_last();
        const std::size_t begin = line.find_first_not_of(" \t", 1);
        if (begin == std::string::npos) refuse(line_number_, "'>' without a name");
        proteins_.push_back({line.substr(begin), {}});
        header_line_ = line_number_;
    }

    void residues(const std::string &line) {
        for (const char letter : line) {
            if (letter == ' ' || letter == '\t') continue;
            const auto residue = residue_of(letter);
            if (!residue) refuse(line_number_, shown(letter) + " is not the letter of a residue");
            if (proteins_.empty()) refuse(line_number_, "residues before the first '>'");
            proteins_.back().residues.push_back(*residue);
        }
    }

    void check_last() const {
        if (!proteins_.empty() && proteins_.back().residues.empty())
            refuse(header_line_, fmt::format("'{}' has no residues", proteins_.back().name));
    }

    std::string path_;
    std::ifstream file_;
    std::size_t line_number_ = 0, header_line_ = 0;
    std::vector<Protein> proteins_;
};

}  // namespace

std::vector<Protein> read_fasta(const std::string &path) { return Reader(path).all(); }

FastaWriter::FastaWriter(std::string path)
    : path_(std::move(path)), file_(std::fopen(path_.c_str(), "wb")) {
    if (!file_)
        throw std::runtime_error(fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
}

FastaWriter::~FastaWriter() {
    if (file_) std::fclose(file_);
}

void FastaWriter::write(const Protein &protein) {
    std::string text = ">" + protein.name;
    for (std::size_t n = 0; n < protein.residues.size(); ++n) {
        if (n % line_length == 0) text += '\n';
        text += letters[protein.residues[n]];
    }
    text += '\n';
    std::fputs(text.c_str(), file_);
}

void FastaWriter::close() {
    const bool failed = std::ferror(file_) != 0;
    if (std::fclose(std::exchange(file_, nullptr)) != 0 || failed)
        throw std::runtime_error(fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
}

}  // namespace smith_waterman
