#include "generate.hpp"

#include "fasta.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

namespace smith_waterman {
namespace {

constexpr double log_median = 5.68, log_deviation = 0.64;  // median 293, mean 360
constexpr double shortest = 35, longest = 8000;
constexpr int amino_acids = 20;  // the first letters
// The frequencies in Swiss-Prot, in parts per 10,000, in the order of the letters.
constexpr int frequencies[amino_acids] = {825, 553, 406, 546, 138, 393, 672, 707, 227, 591,
                                          964, 580, 241, 386, 474, 665, 536, 110, 292, 686};

// Random numbers that are equal on all systems: the engines of <random> are specified exactly, its
// distributions are not.
class Nature {
public:
    explicit Nature(std::uint64_t seed) : engine_(seed) {}

    /// In [0, 1).
    double uniform() { return double(engine_() >> 11) * 0x1p-53; }

    std::size_t length() {
        for (;;) {
            const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
            const double normal = radius * std::cos(2.0 * std::numbers::pi * uniform());
            const double length = std::round(std::exp(log_median + log_deviation * normal));
            if (length >= shortest && length <= longest) return std::size_t(length);
        }
    }

    std::uint8_t residue() {
        static constexpr int sum = [] {
            int all = 0;
            for (const int frequency : frequencies) all += frequency;
            return all;
        }();
        int at = int(uniform() * sum);
        std::uint8_t residue = 0;
        while (at >= frequencies[residue]) at -= frequencies[residue++];
        return residue;
    }

    Residues residues(std::size_t length) {
        Residues all(length);
        std::generate(all.begin(), all.end(), [this] { return residue(); });
        return all;
    }

    /// Returns a mutated copy of `ancestor` between random ends. `rate` is the fraction of replaced
    /// residues; a tenth as many are deleted or inserted.
    Residues relative(const Residues &ancestor, double rate) {
        Residues all = residues(length() / 4);
        for (const std::uint8_t same : ancestor) {
            if (uniform() < rate / 20) continue;
            if (uniform() < rate / 20) all.push_back(residue());
            all.push_back(uniform() < rate ? residue() : same);
        }
        const Residues end = residues(length() / 4);
        all.insert(all.end(), end.begin(), end.end());
        return all;
    }

private:
    std::mt19937_64 engine_;
};

}  // namespace

void generate(const std::string &path, std::uint64_t residues, std::uint64_t seed,
              const Protein &query) {
    Nature nature(seed);
    FastaWriter file(path);
    std::uint64_t written = 0;
    for (std::uint64_t n = 0; written < residues; ++n) {
        Protein protein;
        if (n == 9 || n % 2000 == 1999) {
            const double rate = 0.2 + 0.6 * nature.uniform();
            protein = {fmt::format("R{:08} relative, {:.0f} % mutated", n, rate * 100),
                       nature.relative(query.residues, rate)};
        } else {
            protein = {fmt::format("P{:08} random", n), nature.residues(nature.length())};
        }
        file.write(protein);
        written += protein.residues.size();
    }
    file.close();
}

}  // namespace smith_waterman
