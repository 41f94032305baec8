#include "packed.hpp"

#include "fasta.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <numeric>
#include <sstream>
#include <stdexcept>

namespace smith_waterman {
namespace {

/// The beginning of the file. The starts, the names (each with LF at its end) and the residues
/// follow. Numbers have the machine's byte order.
struct Header {
    char magic[8];
    std::uint64_t proteins, residues, names_size, residues_at;
};

constexpr char magic[8] = {'S', 'W', 'P', 'A', 'C', 'K', '1', '\n'};
constexpr std::uint64_t alignment = 4096;  // of the residues' offset in the file

template <typename T>
void write(std::ofstream &file, const T *data, std::size_t count) {
    file.write(reinterpret_cast<const char *>(data), std::streamsize(count * sizeof(T)));
}

template <typename T>
void read_items(std::ifstream &file, T *data, std::size_t count) {
    file.read(reinterpret_cast<char *>(data), std::streamsize(count * sizeof(T)));
}

std::ifstream open_for_reading(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::invalid_argument(fmt::format("{}: {}", path, std::strerror(errno)));
    return file;
}

}  // namespace

void pack(const std::string &fasta, const std::string &packed) {
    std::vector<Protein> proteins = read_fasta(fasta);
    if (proteins.size() > std::numeric_limits<std::uint32_t>::max())
        throw std::invalid_argument(
            fmt::format("{}: {} proteins are too many", fasta, proteins.size()));
    std::stable_sort(proteins.begin(), proteins.end(),
                     [](const Protein &left, const Protein &right) {
                         return left.residues.size() < right.residues.size();
                     });

    std::vector<std::uint64_t> starts{0};
    std::string names;
    for (const Protein &protein : proteins) {
        starts.push_back(starts.back() + protein.residues.size());
        names += protein.name + '\n';
    }
    const std::uint64_t index = sizeof(Header) + starts.size() * sizeof starts[0] + names.size();
    Header header{{},
                  proteins.size(),
                  starts.back(),
                  names.size(),
                  (index + alignment - 1) / alignment * alignment};
    std::copy(std::begin(magic), std::end(magic), header.magic);

    std::ofstream file(packed, std::ios::binary);
    write(file, &header, 1);
    write(file, starts.data(), starts.size());
    write(file, names.data(), names.size());
    file.seekp(std::streamoff(header.residues_at));
    for (const Protein &protein : proteins)
        write(file, protein.residues.data(), protein.residues.size());
    file.close();
    if (!file)
        throw std::runtime_error(fmt::format("cannot write {}: {}", packed, std::strerror(errno)));
}

Database Database::open(const std::string &path) {
    std::ifstream file = open_for_reading(path);
    const auto refuse = [&](const char *problem) {
        throw std::invalid_argument(fmt::format("{}: {}", path, problem));
    };
    file.seekg(0, std::ios::end);
    const auto size = std::uint64_t(file.tellg());
    file.seekg(0);
    Header header{};
    read_items(file, &header, 1);
    if (!file || !std::equal(std::begin(magic), std::end(magic), header.magic))
        refuse("is not a packed database; 'smith_waterman pack' makes one of a FASTA file");
    if (header.proteins == 0 || header.proteins >= size / sizeof(std::uint64_t) ||
        header.names_size > size || header.residues > size ||
        header.residues_at > size - header.residues)
        refuse("is not a whole packed database");

    Database database;
    database.path = path;
    database.residues_at = header.residues_at;
    database.starts.resize(header.proteins + 1);
    read_items(file, database.starts.data(), database.starts.size());
    std::string names(header.names_size, '\0');
    read_items(file, names.data(), names.size());
    if (!file || database.starts.front() != 0 || database.starts.back() != header.residues ||
        std::adjacent_find(database.starts.begin(), database.starts.end(),
                           std::greater_equal<>()) != database.starts.end())
        refuse("has a damaged index");
    std::istringstream lines(names);
    for (std::string name; std::getline(lines, name);) database.names.push_back(name);
    if (database.names.size() != header.proteins) refuse("has a damaged index");
    return database;
}

Residues Database::read_residues() const {
    std::ifstream file = open_for_reading(path);
    file.seekg(std::streamoff(residues_at));
    Residues all(residues());
    read_items(file, all.data(), all.size());
    if (!file) throw std::runtime_error(path + ": reading failed");
    const auto wrong = std::find_if(all.begin(), all.end(),
                                    [](std::uint8_t residue) { return residue >= letters.size(); });
    if (wrong != all.end())
        throw std::invalid_argument(
            fmt::format("{}: byte {} is no residue", path, residues_at + (wrong - all.begin())));
    return all;
}

std::vector<Chunk> cut(const std::vector<std::uint64_t> &starts, std::size_t block) {
    std::vector<Chunk> chunks;
    std::size_t first = 0;
    for (std::uint64_t begin = 0; begin < starts.back(); begin += block) {
        const std::uint64_t end = std::min<std::uint64_t>(begin + block, starts.back());
        while (starts[first + 1] <= begin) ++first;
        std::size_t last = first;
        while (starts[last + 1] < end) ++last;
        chunks.push_back({begin, end, std::uint32_t(first), std::uint32_t(last - first + 1)});
        first = last;
    }
    return chunks;
}

}  // namespace smith_waterman
