// Growth of a nanopowder by coagulation, on MPI processes with OpenCL devices. Every step needs a
// large matrix, which the host of rank 0 computes and sends to all devices.

#include "hosts.hpp"
#include "reference.hpp"

#include "options.hpp"

#include <getopt.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace nanopowder {
namespace {

constexpr char usage[] = R"(usage: mpirun -n N nanopowder [options]

  --bins N              sizes, a multiple of 8 (default 3240: a matrix of 42 MB)
  --steps N             steps of each run (default 10)
  --version NAME        baseline, mpi-cl-mem or all (default all)
  --rounds R            runs of each version, in turns; the median counts (default 1)
  --verify              compare all sizes with the sequential reference, to 1e-5
  --device N            use device N of the host (default: by the rank on the host)
  --json FILE           also write the results as JSON
  --help

Always checked, with status 1 if it fails: that mass is conserved to 1e-6, and that all runs give the same bits.
)";

constexpr double mass_tolerance = 1e-6;       ///< of the mass at the start
constexpr double reference_tolerance = 1e-5;  ///< of each concentration

struct Options {
    int bins = 3240, steps = 10, rounds = 1, device = -1;
    std::string version = "all", json;
    bool verify = false, help = false;
};

struct Run {
    double seconds;     ///< duration on the slowest rank
    double kernels;     ///< seconds during which kernels ran, mean of all ranks
    double matrices;    ///< seconds in which rank 0 computed matrices
    double mass_error;  ///< relative
    std::vector<float> concentrations;
    /// The cost of the transfers: without them, a run would take the longer of the two times.
    double exposed() const { return seconds - std::max(kernels, matrices); }
};

struct Version {
    std::string_view name;
    std::function<void(Powder &, int steps)> host;
    std::vector<Run> runs = {};

    /// The run with the median time.
    const Run &median() const {
        std::vector<const Run *> sorted;
        for (const Run &run : runs) sorted.push_back(&run);
        std::sort(sorted.begin(), sorted.end(),
                  [](const Run *left, const Run *right) { return left->seconds < right->seconds; });
        return *sorted[sorted.size() / 2];
    }
    double mass_error() const {
        double worst = 0.0;
        for (const Run &run : runs) worst = std::max(worst, run.mass_error);
        return worst;
    }
};

Options parse(int argc, char **argv) {
    static const option names[] = {{"bins", required_argument, nullptr, 'b'},
                                   {"steps", required_argument, nullptr, 's'},
                                   {"version", required_argument, nullptr, 'v'},
                                   {"rounds", required_argument, nullptr, 'r'},
                                   {"verify", no_argument, nullptr, 'c'},
                                   {"device", required_argument, nullptr, 'd'},
                                   {"json", required_argument, nullptr, 'j'},
                                   {"help", no_argument, nullptr, 'h'},
                                   {nullptr, 0, nullptr, 0}};
    Options options;
    opterr = 0;  // only rank 0 prints the error, see refuse()
    for (int name; (name = getopt_long(argc, argv, "", names, nullptr)) != -1;) {
        switch (name) {
            case 'b': options.bins = number(optarg, 16); break;
            case 's': options.steps = number(optarg, 1); break;
            case 'v': options.version = optarg; break;
            case 'r': options.rounds = number(optarg, 1); break;
            case 'c': options.verify = true; break;
            case 'd': options.device = number(optarg, 0); break;
            case 'j': options.json = optarg; break;
            case 'h': options.help = true; break;
            default: refuse(fmt::format("cannot make sense of '{}'", argv[optind - 1]));
        }
    }
    if (optind < argc) refuse(fmt::format("cannot make sense of '{}'", argv[optind]));
    if (options.bins % Aerosol::block != 0)
        refuse(fmt::format("--bins {} is not a multiple of {}", options.bins, Aerosol::block));
    // The count of an MPI call is an int.
    constexpr int most_bins = 23168;
    static_assert(4.0 * most_bins * most_bins <= std::numeric_limits<int>::max());
    if (options.bins > most_bins)
        refuse(fmt::format("--bins {} is more than {}", options.bins, most_bins));
    return options;
}

std::vector<Version> versions_of(const Options &options) {
    std::vector<Version> versions = {{"baseline", run_baseline}, {"mpi-cl-mem", run_mpi_cl_mem}};
    if (options.version != "all")
        std::erase_if(versions,
                      [&](const Version &version) { return version.name != options.version; });
    if (versions.empty()) refuse(fmt::format("there is no version '{}'", options.version));
    return versions;
}

Run measure(const Version &version, Powder &powder, const Aerosol &aerosol, int steps) {
    powder.reset();
    MPI_Barrier(powder.comm());
    const double start = MPI_Wtime();
    version.host(powder, steps);
    Run run{};
    run.seconds = MPI_Wtime() - start;
    run.kernels = powder.computing() / powder.ranks();
    run.matrices = powder.computing_matrices();  // 0 on ranks other than 0
    MPI_Allreduce(MPI_IN_PLACE, &run.seconds, 1, MPI_DOUBLE, MPI_MAX, powder.comm());
    MPI_Allreduce(MPI_IN_PLACE, &run.kernels, 1, MPI_DOUBLE, MPI_SUM, powder.comm());
    MPI_Allreduce(MPI_IN_PLACE, &run.matrices, 1, MPI_DOUBLE, MPI_SUM, powder.comm());
    run.concentrations = powder.concentrations();
    const double at_start = mass(aerosol.initial());
    run.mass_error = std::abs(mass(run.concentrations) + powder.outgrown() - at_start) / at_start;
    return run;
}

/// A hash of the bits, like FNV-1a with 32-bit words in place of bytes.
std::uint64_t fingerprint(const std::vector<float> &values) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const float value : values)
        hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3;
    return hash;
}

/// Whether a run's results have the same bits as `expected`.
bool same(const Version &version, const Run &run, const std::vector<float> &expected) {
    std::size_t different = 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
        different += std::bit_cast<std::uint32_t>(run.concentrations[i]) !=
                     std::bit_cast<std::uint32_t>(expected[i]);
    if (different)
        fmt::print("{}: {} of {} bins have not the bits of the first run\n", version.name,
                   different, expected.size());
    return different == 0;
}

/// Whether the concentrations are close to the reference.
bool agrees(const std::vector<float> &concentrations, const Aerosol &aerosol, int steps) {
    const std::vector<double> reference = run_reference(aerosol, steps);
    double error = 0.0;
    bool all_near = true;
    for (std::size_t i = 1; i < reference.size(); ++i) {
        const double difference = std::abs(concentrations[i] - reference[i]) / reference[i];
        error = std::max(error, difference);
        all_near &= difference <= reference_tolerance;  // false for NaN
    }
    fmt::print("largest difference to the reference: {:.1e}, allowed: {:.0e}\n", error,
               reference_tolerance);
    return all_near;
}

/// Prints how the particles have changed.
void describe(const std::vector<float> &before, const std::vector<float> &after) {
    const auto particles = [](const std::vector<float> &sizes) {
        return std::accumulate(sizes.begin(), sizes.end(), 0.0);
    };
    fmt::print(
        "particles: {:.1f} % of those at the start are left; atoms of a particle: {:.1f}, {:.1f} "
        "at the start\n",
        100.0 * particles(after) / particles(before), mass(after) / particles(after),
        mass(before) / particles(before));
}

/// Checks the results of all runs. Only for rank 0.
bool all_correct(const std::vector<Version> &versions, const Options &options,
                 const Aerosol &aerosol) {
    bool correct = true;
    const std::vector<float> &first = versions.front().runs.front().concentrations;
    for (const Version &version : versions)
        for (const Run &run : version.runs) {
            if (!(run.mass_error <= mass_tolerance)) {
                fmt::print("{}: mass is wrong by {:.1e}, at most {:.0e} is allowed\n", version.name,
                           run.mass_error, mass_tolerance);
                correct = false;
            }
            correct &= same(version, run, first);
        }
    describe(aerosol.initial(), first);
    fmt::print("fingerprint: {:016x}\n", fingerprint(first));
    if (options.verify) correct &= agrees(first, aerosol, options.steps);
    return correct;
}

void print(const Options &options, const std::vector<Version> &versions, int ranks) {
    const double baseline =
        versions.front().name == "baseline" ? versions.front().median().seconds : 0.0;
    fmt::print("{:<12} {:>9} {:>6} {:>12} {:>12} {:>12} {:>12} {:>11} {:>11}\n", "version",
               "processes", "steps", "step", "matrix", "kernel", "exposed", "to baseline",
               "mass error");
    for (const Version &version : versions) {
        const Run &run = version.median();
        const double scale = 1e3 / options.steps;
        fmt::print(
            "{:<12} {:>9} {:>6} {:>9.3f} ms {:>9.3f} ms {:>9.3f} ms {:>9.3f} ms {:>11} {:>11.1e}\n",
            version.name, ranks, options.steps, run.seconds * scale, run.matrices * scale,
            run.kernels * scale, run.exposed() * scale,
            baseline > 0 ? fmt::format("{:.3f}", baseline / run.seconds) : "-",
            version.mass_error());
    }
    fmt::print(
        "matrix: rank 0 computed it; kernel: devices computed, mean of all ranks;\n"
        "exposed: what a step takes beyond the longer of the two, for all that moves.\n");
}

void write_json(const Options &options, const std::vector<Version> &versions, int ranks,
                const std::string &device) {
    std::string text = fmt::format(
        R"({{"bins": {}, "processes": {}, "device": "{}", "steps": {}, "rounds": {}, "versions": [)",
        options.bins, ranks, device, options.steps, options.rounds);
    const char *separator = "";
    for (const Version &version : versions) {
        const Run &run = version.median();
        text += fmt::format(
            "{}\n  {{\"name\": \"{}\", \"step\": {:.9f}, \"matrix\": {:.9f}, \"kernel\": {:.9f}, "
            "\"exposed\": {:.9f}, \"mass_error\": {:.3e}}}",
            separator, version.name, run.seconds / options.steps, run.matrices / options.steps,
            run.kernels / options.steps, run.exposed() / options.steps, version.mass_error());
        separator = ",";
    }
    text += "\n]}\n";
    write_text(options.json, text);
}

/// Returns whether all checks passed.
bool run(const Options &options, std::vector<Version> versions) {
    const Aerosol aerosol{options.bins};
    const int rank = rank_of(MPI_COMM_WORLD), ranks = size_of(MPI_COMM_WORLD);
    if (ranks > Powder::max_processes(aerosol))
        refuse(fmt::format("{} bins are enough for {} processes, not for {}", options.bins,
                           Powder::max_processes(aerosol), ranks));

    const Device device = Device::choose(options.device, MPI_COMM_WORLD);
    Powder powder(aerosol, device, MPI_COMM_WORLD);
    if (rank == 0) {
        fmt::print(
            "Nanopowder, {} bins, a matrix of {:.1f} MB, {} process{} on {}, {} steps, median of "
            "{}\n",
            options.bins, double(powder.matrix_size()) * 1e-6, ranks, ranks > 1 ? "es" : "",
            device.name, options.steps, options.rounds);
        std::fflush(stdout);
    }

    for (const Version &version : versions)
        // Warms up: compiles the kernel and connects the processes.
        measure(version, powder, aerosol, std::min(options.steps, 2));
    for (int round = 0; round < options.rounds; ++round)
        for (std::size_t turn = 0; turn < versions.size(); ++turn) {
            Version &version = versions[(round + turn) % versions.size()];
            version.runs.push_back(measure(version, powder, aerosol, options.steps));
        }

    bool correct = true;
    if (rank == 0) {
        print(options, versions, ranks);
        correct = all_correct(versions, options, aerosol);
        if (!options.json.empty()) write_json(options, versions, ranks, device.name);
    }
    MPI_Bcast(&correct, 1, MPI_CXX_BOOL, 0, MPI_COMM_WORLD);
    return correct;
}

}  // namespace
}  // namespace nanopowder

int main(int argc, char **argv) {
    return examples::run_program("nanopowder", argc, argv, [&](int rank) {
        const nanopowder::Options options = nanopowder::parse(argc, argv);
        if (!options.help)
            return nanopowder::run(options, nanopowder::versions_of(options)) ? 0 : 1;
        if (rank == 0) fmt::print("{}", nanopowder::usage);
        return 0;
    });
}
