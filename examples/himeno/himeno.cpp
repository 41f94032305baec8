// The Himeno benchmark on MPI processes with OpenCL devices: six host programs with one kernel.

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
#include <string>
#include <vector>

namespace himeno {
namespace {

constexpr char usage[] = R"(usage: mpirun -n N himeno [options]

  --size XS|S|M|L|XL    the grid, 32x32x64 to 512x512x1024 points (default S)
  --iterations N        iterations of each run (default 50)
  --variant NAME        serial, handopt, handtuned, in-order, chained, chained-k or all (default)
  --k K                 chained-k waits every K iterations (default 10)
  --rounds R            runs of each variant, in turns; the median counts (default 1)
  --check               compare gosa and every point with the sequential reference
  --device N            use device N of the host (default: by the rank on the host)
  --json FILE           also write the results as JSON
  --dump-field FILE     write the last run's pressure, raw floats, k fastest
  --help
)";

struct Options {
    Grid grid = *find_grid("S");
    int iterations = 50, k = 10, rounds = 1, device = -1;
    std::string variant = "all", json, dump;
    bool check = false, help = false;
};

struct Run {
    double seconds;    ///< duration on the slowest rank
    double computing;  ///< seconds during which kernels ran, mean of all ranks
    double gosa;
    double exposed() const { return seconds - computing; }
};

struct Variant {
    std::string_view name;
    std::function<void(Slab &, int iterations)> host;
    std::vector<Run> runs = {};
    bool correct = true;

    /// The run with the median time.
    const Run &median() {
        const auto middle = runs.begin() + std::ptrdiff_t(runs.size() / 2);
        std::nth_element(runs.begin(), middle, runs.end(), [](const Run &left, const Run &right) {
            return left.seconds < right.seconds;
        });
        return *middle;
    }
};

Options parse(int argc, char **argv) {
    static const option names[] = {{"size", required_argument, nullptr, 's'},
                                   {"iterations", required_argument, nullptr, 'i'},
                                   {"variant", required_argument, nullptr, 'v'},
                                   {"k", required_argument, nullptr, 'k'},
                                   {"rounds", required_argument, nullptr, 'r'},
                                   {"check", no_argument, nullptr, 'c'},
                                   {"device", required_argument, nullptr, 'd'},
                                   {"json", required_argument, nullptr, 'j'},
                                   {"dump-field", required_argument, nullptr, 'f'},
                                   {"help", no_argument, nullptr, 'h'},
                                   {nullptr, 0, nullptr, 0}};
    Options options;
    opterr = 0;  // one rank prints the error, see below
    for (int name; (name = getopt_long(argc, argv, "", names, nullptr)) != -1;) {
        switch (name) {
            case 's':
                if (const auto grid = find_grid(optarg))
                    options.grid = *grid;
                else
                    refuse(fmt::format("there is no size '{}'", optarg));
                break;
            case 'i': options.iterations = number(optarg, 1); break;
            case 'v': options.variant = optarg; break;
            case 'k': options.k = number(optarg, 1); break;
            case 'r': options.rounds = number(optarg, 1); break;
            case 'c': options.check = true; break;
            case 'd': options.device = number(optarg, 0); break;
            case 'j': options.json = optarg; break;
            case 'f': options.dump = optarg; break;
            case 'h': options.help = true; break;
            default: refuse(fmt::format("cannot make sense of '{}'", argv[optind - 1]));
        }
    }
    if (optind < argc) refuse(fmt::format("cannot make sense of '{}'", argv[optind]));
    return options;
}

std::vector<Variant> variants_of(const Options &options) {
    const int k = options.k;
    std::vector<Variant> variants = {
        {"serial", run_serial},
        {"handopt", run_hand_optimised},
        {"handtuned", run_hand_tuned},
        {"in-order", run_in_order},
        {"chained", [](Slab &slab, int iterations) { run_event_chained(slab, iterations, 1); }},
        {"chained-k", [k](Slab &slab, int iterations) { run_event_chained(slab, iterations, k); }}};
    if (options.variant != "all")
        std::erase_if(variants,
                      [&](const Variant &variant) { return variant.name != options.variant; });
    if (variants.empty()) refuse(fmt::format("there is no variant '{}'", options.variant));
    return variants;
}

Run measure(const Variant &variant, Slab &slab, int iterations) {
    slab.reset();
    MPI_Barrier(slab.comm());
    const double start = MPI_Wtime();
    variant.host(slab, iterations);
    Run run{};
    run.seconds = MPI_Wtime() - start;
    run.computing = slab.computing();
    MPI_Allreduce(MPI_IN_PLACE, &run.seconds, 1, MPI_DOUBLE, MPI_MAX, slab.comm());
    MPI_Allreduce(MPI_IN_PLACE, &run.computing, 1, MPI_DOUBLE, MPI_SUM, slab.comm());
    int ranks;
    MPI_Comm_size(slab.comm(), &ranks);
    run.computing /= ranks;
    run.gosa = slab.gosa();
    return run;
}

/// Whether the last run's results equal the reference. Prints differences. Only for rank 0.
bool agrees(const Variant &variant, const std::vector<float> &pressure,
            const Reference &reference) {
    const double gosa = variant.runs.back().gosa;
    const bool gosa_agrees = std::abs(gosa - reference.gosa) <= 1e-4 * reference.gosa;
    if (!gosa_agrees)
        fmt::print("{}: gosa is {:.9e}, the reference has {:.9e}\n", variant.name, gosa,
                   reference.gosa);
    std::size_t different = 0;
    for (std::size_t n = 0; n < pressure.size(); ++n)
        different += std::bit_cast<std::uint32_t>(pressure[n]) !=
                     std::bit_cast<std::uint32_t>(reference.pressure[n]);
    if (different)
        fmt::print("{}: {} of {} points differ from the reference\n", variant.name, different,
                   pressure.size());
    return gosa_agrees && different == 0;
}

void print(const Options &options, std::vector<Variant> &variants) {
    const double flop = options.grid.flop_per_iteration() * options.iterations;
    const double serial =
        variants.front().name == "serial" ? variants.front().median().seconds : 0.0;
    fmt::print("{:<10} {:>9} {:>10} {:>13} {:>13}  {:<12}{}\n", "", "MFLOPS", "to serial",
               "computing", "exposed", "gosa", options.check ? "  against the reference" : "");
    for (Variant &variant : variants) {
        const Run &run = variant.median();
        fmt::print("{:<10} {:>9.0f} {:>10} {:>10.3f} ms {:>10.3f} ms  {:.6e}{}\n", variant.name,
                   flop / run.seconds * 1e-6,
                   serial > 0 ? fmt::format("{:.3f}", serial / run.seconds) : "-",
                   run.computing / options.iterations * 1e3,
                   run.exposed() / options.iterations * 1e3, run.gosa,
                   !options.check    ? ""
                   : variant.correct ? "  same bits"
                                     : "  WRONG");
    }
    fmt::print(
        "computing: kernels ran, per iteration, mean of all ranks; exposed: the rest of the "
        "iteration.\n");
}

void write_json(const Options &options, std::vector<Variant> &variants, int ranks,
                const std::string &device) {
    std::string text = fmt::format(
        R"({{"size": "{}", "processes": {}, "device": "{}", "iterations": {}, "rounds": {}, )"
        R"("k": {}, "variants": [)",
        options.grid.name, ranks, device, options.iterations, options.rounds, options.k);
    const char *separator = "";
    for (Variant &variant : variants) {
        const Run &run = variant.median();
        text += fmt::format(
            "{}\n  {{\"name\": \"{}\", \"mflops\": {:.1f}, \"computing\": {:.9f}, \"exposed\": "
            "{:.9f}, "
            "\"gosa\": {:.9e}, \"checked\": {}, \"correct\": {}}}",
            separator, variant.name,
            options.grid.flop_per_iteration() * options.iterations / run.seconds * 1e-6,
            run.computing / options.iterations, run.exposed() / options.iterations, run.gosa,
            options.check, variant.correct);
        separator = ",";
    }
    text += "\n]}\n";
    write_text(options.json, text);
}

void dump(const std::string &path, const std::vector<float> &pressure) {
    std::FILE *file = std::fopen(path.c_str(), "wb");
    if (!file ||
        std::fwrite(pressure.data(), sizeof(float), pressure.size(), file) != pressure.size() ||
        std::fclose(file) != 0)
        throw std::runtime_error("cannot write " + path);
}

/// Returns whether all checks passed.
bool run(const Options &options, std::vector<Variant> variants) {
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks > Slab::max_processes(options.grid))
        refuse(fmt::format("size {} has {} inner planes, enough for {} processes, not for {}",
                           options.grid.name, options.grid.imax - 2,
                           Slab::max_processes(options.grid), ranks));

    const Device device = Device::choose(options.device, MPI_COMM_WORLD);
    Slab slab(options.grid, device, MPI_COMM_WORLD);
    Reference reference;
    if (rank == 0) {
        fmt::print("Himeno {} ({} x {} x {}), {} process{} on {}, {} iterations, median of {}\n",
                   options.grid.name, options.grid.imax, options.grid.jmax, options.grid.kmax,
                   ranks, ranks > 1 ? "es" : "", device.name, options.iterations, options.rounds);
        std::fflush(stdout);
        if (options.check) reference = run_reference(options.grid, options.iterations);
    }

    for (const Variant &variant : variants)
        // Warms up: compiles the kernel and connects the processes.
        measure(variant, slab, std::min(options.iterations, 3));
    for (int round = 0; round < options.rounds; ++round)
        for (std::size_t turn = 0; turn < variants.size(); ++turn) {
            Variant &variant = variants[(round + turn) % variants.size()];
            variant.runs.push_back(measure(variant, slab, options.iterations));
            if (options.check) {
                const std::vector<float> pressure = slab.gather(options.iterations);
                if (rank == 0) variant.correct &= agrees(variant, pressure, reference);
            }
        }

    if (!options.dump.empty()) {
        const std::vector<float> pressure = slab.gather(options.iterations);
        if (rank == 0) dump(options.dump, pressure);
    }
    bool correct = true;
    if (rank == 0) {
        print(options, variants);
        if (!options.json.empty()) write_json(options, variants, ranks, device.name);
        correct = std::all_of(variants.begin(), variants.end(),
                              [](const Variant &variant) { return variant.correct; });
    }
    MPI_Bcast(&correct, 1, MPI_CXX_BOOL, 0, MPI_COMM_WORLD);
    return correct;
}

}  // namespace
}  // namespace himeno

int main(int argc, char **argv) {
    return examples::run_program("himeno", argc, argv, [&](int rank) {
        const himeno::Options options = himeno::parse(argc, argv);
        if (!options.help) return himeno::run(options, himeno::variants_of(options)) ? 0 : 1;
        if (rank == 0) fmt::print("{}", himeno::usage);
        return 0;
    });
}
