// The Himeno benchmark with checkpoints. It writes its field to an HDF5 file while the next
// iterations run, and can restart from such a file.

#include "field_file.hpp"
#include "hosts.hpp"
#include "reference.hpp"

#include "options.hpp"

#include <getopt.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace checkpoint {
namespace {

constexpr char usage[] = R"(usage: mpirun -n N checkpoint [options]

  --size XS|S|M|L|XL    the grid (default S)
  --iterations N        iterations of this run (default 50)
  --every K             write a checkpoint every K iterations (default 20; 0: none)
  --file NAME           to NAME-<iteration>.h5 (default checkpoint)
  --restart FILE        begin with a checkpoint that any number of processes wrote
  --check               compare every point, and gosa, with a run from the beginning and with the sequential reference
  --device N            use device N of the host (default: by the rank on the host)
  --help
)";

struct Options {
    Grid grid = *find_grid("S");
    int iterations = 50, every = 20, device = -1;
    std::string file = "checkpoint", restart;
    bool check = false, help = false;
};

Options parse(int argc, char **argv) {
    static const option names[] = {{"size", required_argument, nullptr, 's'},
                                   {"iterations", required_argument, nullptr, 'i'},
                                   {"every", required_argument, nullptr, 'e'},
                                   {"file", required_argument, nullptr, 'f'},
                                   {"restart", required_argument, nullptr, 'r'},
                                   {"check", no_argument, nullptr, 'c'},
                                   {"device", required_argument, nullptr, 'd'},
                                   {"help", no_argument, nullptr, 'h'},
                                   {nullptr, 0, nullptr, 0}};
    Options options;
    opterr = 0;  // only rank 0 prints the error, see refuse()
    for (int name; (name = getopt_long(argc, argv, "", names, nullptr)) != -1;) {
        switch (name) {
            case 's':
                if (const auto grid = find_grid(optarg))
                    options.grid = *grid;
                else
                    refuse(fmt::format("there is no size '{}'", optarg));
                break;
            case 'i': options.iterations = number(optarg, 1); break;
            case 'e': options.every = number(optarg, 0); break;
            case 'f': options.file = optarg; break;
            case 'r': options.restart = optarg; break;
            case 'c': options.check = true; break;
            case 'd': options.device = number(optarg, 0); break;
            case 'h': options.help = true; break;
            default: refuse(fmt::format("cannot make sense of '{}'", argv[optind - 1]));
        }
    }
    if (optind < argc) refuse(fmt::format("cannot make sense of '{}'", argv[optind]));
    return options;
}

/// A checkpoint whose write may be in flight; no event: no checkpoint.
struct Write {
    Event event;
    std::string path;
};

/// Waits for the write. Prints how long it took, and how long the computation waited for it.
void finish(const Write &write, int rank) {
    if (!write.event) return;
    const double start = MPI_Wtime();
    wait(write.event);
    const double waited = MPI_Wtime() - start;
    cl_transfer_stage stages[5];
    std::size_t size;
    check(clGetTransferInfo(write.event.get(), CL_TRANSFER_STAGES, sizeof stages, stages, &size),
          "clGetTransferInfo");
    for (std::size_t n = 0; n < size / sizeof *stages; ++n)
        if (stages[n].stage == CL_STAGE_FILE && rank == 0)
            fmt::print("{}: {:.1f} ms in the file, {:.1f} ms of which nothing was computed\n",
                       write.path, double(stages[n].end - stages[n].start) * 1e-6, waited * 1e3);
}

/// Advances the field from iteration `begin` by `options.iterations`, with checkpoints.
void run_with_checkpoints(Slab &slab, const Options &options, int begin) {
    const Queue queue = slab.make_queue();
    const Buffer field = slab.make_field();
    const int end = begin + options.iterations, every = options.every;
    const int rank = rank_of(slab.comm());
    Write write;
    Event copied;
    for (int now = begin; now < end;) {
        const int next = every == 0 ? end : std::min(now - now % every + every, end);
        run_event_chained(slab, next - now, next - now, now, copied.get());
        now = next;
        if (every == 0 || now % every != 0) break;
        // Waits for the previous write, which is collective, like the creation of the next file.
        finish(write, rank);
        // Copies the field on the device. The copy is written while the next iterations run.
        check(clEnqueueCopyBuffer(queue.get(), slab.pressure(now), field.get(), 0, 0,
                                  slab.all().count * slab.face_size(), 0, nullptr, copied.put()),
              "clEnqueueCopyBuffer");
        write.path = fmt::format("{}-{}.h5", options.file, now);
        write.event = enqueue_write(slab, options.grid, now, queue, field, copied, write.path);
    }
    finish(write, rank);
}

std::size_t differences(const std::vector<float> &left, const std::vector<float> &right) {
    std::size_t count = left.size() != right.size();
    for (std::size_t n = 0; n < std::min(left.size(), right.size()); ++n)
        count += std::bit_cast<std::uint32_t>(left[n]) != std::bit_cast<std::uint32_t>(right[n]);
    return count;
}

/// Whether the field after `iterations` has the same bits as after a run without restart, and as in
/// the sequential reference. Collective.
bool agrees(Slab &slab, const Grid &grid, int iterations) {
    const double gosa = slab.gosa();
    const std::vector<float> field = slab.gather(iterations);
    slab.reset();
    run_event_chained(slab, iterations, iterations);
    const double gosa_in_one_go = slab.gosa();
    const std::vector<float> in_one_go = slab.gather(iterations);
    bool well = true;
    if (rank_of(slab.comm()) == 0) {
        const Reference reference = run_reference(grid, iterations);
        const std::size_t to_one_go = differences(field, in_one_go),
                          to_reference = differences(field, reference.pressure);
        const bool gosa_well =
            std::bit_cast<std::uint64_t>(gosa) == std::bit_cast<std::uint64_t>(gosa_in_one_go) &&
            std::abs(gosa - reference.gosa) <= 1e-4 * reference.gosa;
        well = to_one_go == 0 && to_reference == 0 && gosa_well;
        fmt::print(
            "{} iterations in one go: {} points differ, gosa {:.9e}; reference: {} points differ, "
            "gosa {:.9e}: {}\n",
            iterations, to_one_go, gosa_in_one_go, to_reference, reference.gosa,
            well ? "same bits" : "WRONG");
    }
    MPI_Bcast(&well, 1, MPI_CXX_BOOL, 0, slab.comm());
    return well;
}

/// Returns whether all checks passed.
bool run(const Options &options) {
    const int rank = rank_of(MPI_COMM_WORLD), ranks = size_of(MPI_COMM_WORLD);
    if (ranks > Slab::max_processes(options.grid))
        refuse(fmt::format("size {} is enough for {} processes, not for {}", options.grid.name,
                           Slab::max_processes(options.grid), ranks));
    Slab slab(options.grid, Device::choose(options.device, MPI_COMM_WORLD), MPI_COMM_WORLD);
    slab.reset();
    const int begin =
        options.restart.empty() ? 0 : read(slab, options.grid, slab.make_queue(), options.restart);
    run_with_checkpoints(slab, options, begin);
    const int end = begin + options.iterations;
    const double gosa = slab.gosa();
    if (rank == 0)
        fmt::print("Himeno {}, {} process{}: iterations {} to {}, gosa {:.9e}\n", options.grid.name,
                   ranks, ranks > 1 ? "es" : "", begin, end, gosa);
    return !options.check || agrees(slab, options.grid, end);
}

}  // namespace
}  // namespace checkpoint

int main(int argc, char **argv) {
    return examples::run_program("checkpoint", argc, argv, [&](int rank) {
        const checkpoint::Options options = checkpoint::parse(argc, argv);
        if (!options.help) return checkpoint::run(options) ? 0 : 1;
        if (rank == 0) fmt::print("{}", checkpoint::usage);
        return 0;
    });
}
