/// Compares collective commands with a program without cldist: read, MPI collective, write.
///
/// The methods alternate, so that noise affects them alike. Before the measurements of each size,
/// their results are compared.
#include "bench.hpp"

#include <cstring>
#include <numeric>

#include <CL/cl_ext_dist.h>

namespace {

using namespace bench;

struct Options {
    CommonOptions common;
    size_t min = 8, max = 64u << 20;
    int rounds = 5;
    double seconds = 0.1;
};

[[noreturn]] void usage(int code) {
    fmt::print(
        "Usage: mpirun -n N collectives [OPTIONS]\n{}"
        "  --min BYTES        the smallest size (8)\n"
        "  --max BYTES        the largest size (64M)\n"
        "  --rounds N         rounds, whose median is printed (5)\n"
        "  --seconds S        the approximate time of a method in a round (0.1)\n",
        common_usage);
    std::exit(code);
}

/// The data of all methods. `in` is this process's input. A broadcast uses only the root's.
struct Case {
    cl_command_queue queue = nullptr;
    cl_mem in = nullptr, out = nullptr;
    char *host_in = nullptr, *host_out = nullptr;
    size_t size = 0;  ///< bytes that each process contributes
    int rank = 0, ranks = 1;

    [[nodiscard]] size_t floats() const { return size / sizeof(float); }
    [[nodiscard]] int count() const { return static_cast<int>(floats()); }
};

void read(const Case &c, size_t size) {
    check(clEnqueueReadBuffer(c.queue, c.in, CL_TRUE, 0, size, c.host_in, 0, nullptr, nullptr),
          "clEnqueueReadBuffer");
}
void write(const Case &c, cl_mem to, const char *from, size_t size) {
    check(clEnqueueWriteBuffer(c.queue, to, CL_TRUE, 0, size, from, 0, nullptr, nullptr),
          "clEnqueueWriteBuffer");
}

struct Kind {
    std::string_view name;
    bool gathers;  ///< whether the result is as large as all inputs together
    void (*command)(const Case &, cl_bool blocking, cl_event *event);
    void (*by_hand)(const Case &);
    void (*on_host)(const Case &);
};

const Kind kinds[] = {
    {"allreduce", false,
     [](const Case &c, cl_bool blocking, cl_event *event) {
         check(clEnqueueAllreduceBufferMPI(c.queue, c.in, blocking, 0, c.out, 0, c.floats(),
                                           MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, 0, nullptr, event),
               "clEnqueueAllreduceBufferMPI");
     },
     [](const Case &c) {
         read(c, c.size);
         MPI_Allreduce(c.host_in, c.host_out, c.count(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
         write(c, c.out, c.host_out, c.size);
     },
     [](const Case &c) {
         MPI_Allreduce(c.host_in, c.host_out, c.count(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
     }},
    {"bcast", false,
     [](const Case &c, cl_bool blocking, cl_event *event) {
         check(clEnqueueBcastBufferMPI(c.queue, c.rank == 0 ? c.in : c.out, blocking, 0, c.floats(),
                                       MPI_FLOAT, 0, MPI_COMM_WORLD, 0, nullptr, event),
               "clEnqueueBcastBufferMPI");
     },
     [](const Case &c) {
         if (c.rank == 0) read(c, c.size);
         MPI_Bcast(c.rank == 0 ? c.host_in : c.host_out, c.count(), MPI_FLOAT, 0, MPI_COMM_WORLD);
         if (c.rank != 0) write(c, c.out, c.host_out, c.size);
     },
     [](const Case &c) {
         MPI_Bcast(c.rank == 0 ? c.host_in : c.host_out, c.count(), MPI_FLOAT, 0, MPI_COMM_WORLD);
     }},
    {"allgather", true,
     [](const Case &c, cl_bool blocking, cl_event *event) {
         check(clEnqueueAllgatherBufferMPI(c.queue, c.in, blocking, 0, c.floats(), MPI_FLOAT, c.out,
                                           0, c.floats(), MPI_FLOAT, MPI_COMM_WORLD, 0, nullptr,
                                           event),
               "clEnqueueAllgatherBufferMPI");
     },
     [](const Case &c) {
         read(c, c.size);
         MPI_Allgather(c.host_in, c.count(), MPI_FLOAT, c.host_out, c.count(), MPI_FLOAT,
                       MPI_COMM_WORLD);
         write(c, c.out, c.host_out, c.size * static_cast<size_t>(c.ranks));
     },
     [](const Case &c) {
         MPI_Allgather(c.host_in, c.count(), MPI_FLOAT, c.host_out, c.count(), MPI_FLOAT,
                       MPI_COMM_WORLD);
     }},
};

constexpr size_t methods = 5;
constexpr std::string_view method_names[methods] = {"blocking", "event", "by-hand", "mpi",
                                                    "chained"};

void once(const Kind &kind, const Case &c, size_t method) {
    switch (method) {
        case 0: kind.command(c, CL_TRUE, nullptr); return;
        case 1: {
            cl_event event = nullptr;
            kind.command(c, CL_FALSE, &event);
            check(clWaitForEvents(1, &event), "clWaitForEvents");
            clReleaseEvent(event);
            return;
        }
        case 2: kind.by_hand(c); return;
        case 3: kind.on_host(c); return;
        default: kind.command(c, CL_FALSE, nullptr); return;
    }
}

std::vector<char> result(const Kind &kind, const Case &c) {
    std::vector<char> data(kind.gathers ? c.size * static_cast<size_t>(c.ranks) : c.size);
    const bool root = kind.name == "bcast" && c.rank == 0;
    check(clEnqueueReadBuffer(c.queue, root ? c.in : c.out, CL_TRUE, 0, data.size(), data.data(), 0,
                              nullptr, nullptr),
          "clEnqueueReadBuffer");
    return data;
}

/// Checks that all methods on devices have the same result.
void compare(const Kind &kind, const Case &c) {
    std::vector<char> wanted;
    for (size_t method : {2u, 0u, 1u, 4u}) {
        const std::vector<char> nothing(
            kind.gathers ? c.size * static_cast<size_t>(c.ranks) : c.size, 1);
        write(c, c.out, nothing.data(), nothing.size());
        once(kind, c, method);
        const std::vector<char> found = result(kind, c);
        if (wanted.empty()) wanted = found;
        if (found != wanted)
            die("{} of {}: {} has another result", kind.name, size_name(c.size),
                method_names[method]);
    }
}

}  // namespace

int main(int argc, char **argv) {
    Options options;
    parse_options(argc, argv, options.common,
                  {{"min", 1, nullptr, 'm'},
                   {"max", 1, nullptr, 'M'},
                   {"rounds", 1, nullptr, 'r'},
                   {"seconds", 1, nullptr, 's'}},
                  usage, [&](int letter) {
                      if (letter == 'm') options.min = parse_size(optarg);
                      if (letter == 'M') options.max = parse_size(optarg);
                      if (letter == 'r') options.rounds = std::atoi(optarg);
                      if (letter == 's') options.seconds = std::atof(optarg);
                  });
    MPI_Init(&argc, &argv);
    Case c;
    MPI_Comm_rank(MPI_COMM_WORLD, &c.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &c.ranks);
    const Device device(device_type(options.common.device));
    Report report{"collectives", options.common.label};
    report.collect_facts(device);
    if (c.rank == 0) {
        fmt::print("# Collectives of {} processes, {}\n\n", c.ranks, options.common.label);
        report.print_facts();
        fmt::print(
            "blocking, event, chained: commands of cldist, waited for one by one or all together; "
            "by-hand: blocking\n"
            "read, MPI, blocking write; mpi: only host memory. Medians in µs. The ratios are "
            "medians of the ratios of\n"
            "each round.\n\n"
            "| collective | size | blocking | event | chained | by-hand | mpi | by-hand / blocking "
            "| by-hand / event | "
            "by-hand / chained |\n"
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    }
    c.queue = device.queue();
    const size_t all = options.max * static_cast<size_t>(c.ranks);
    c.in = device.buffer(options.max);
    c.out = device.buffer(all);
    std::vector<char> host_in(options.max), host_out(all);
    c.host_in = host_in.data();
    c.host_out = host_out.data();
    std::vector<float> data(options.max / sizeof(float));
    for (size_t i = 0; i < data.size(); ++i)
        data[i] = static_cast<float>((i + static_cast<size_t>(c.rank)) % 7);
    write(c, c.in, reinterpret_cast<const char *>(data.data()), options.max);

    for (const Kind &kind : kinds) {
        for (c.size = options.min; c.size <= options.max; c.size *= 8) {
            compare(kind, c);
            int counts[methods] = {1, 1, 1, 1, 1};
            std::vector<double> seconds[methods];
            for (int round = -2; round < options.rounds; ++round) {
                for (size_t method = 0; method < methods; ++method) {
                    MPI_Barrier(MPI_COMM_WORLD);
                    int &count = counts[method];
                    const double start = now();
                    for (int i = 0; i < count; ++i) once(kind, c, method);
                    if (method == 4) check(clFinish(c.queue), "clFinish");
                    MPI_Barrier(MPI_COMM_WORLD);
                    const double taken = (now() - start) / count;
                    if (round >= 0) seconds[method].push_back(taken);
                    if (round < 0)
                        count = std::clamp(static_cast<int>(options.seconds / taken), 1, 1000);
                    MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
                }
            }
            if (c.rank != 0) continue;
            fmt::print("| {} | {} |", kind.name, size_name(c.size));
            for (const size_t method : {0, 1, 4, 2, 3})
                fmt::print(" {:.1f} |", median(seconds[method]) * 1e6);
            for (const size_t method : {0, 1, 4}) {
                const double ratio = median_ratio(seconds[2], seconds[method]);
                fmt::print(" {:.2f} |", ratio);
                report.ratio(fmt::format("{} {} by hand / {}", kind.name, size_name(c.size),
                                         method_names[method]),
                             ratio, true);
            }
            fmt::print("\n");
            std::fflush(stdout);
            for (size_t method = 0; method < methods; ++method)
                report.rows.push_back(fmt::format(
                    R"({{"kind": "{}", "bytes": {}, "method": "{}", "seconds": {:.9f}}})",
                    kind.name, c.size, method_names[method], median(seconds[method])));
        }
    }
    if (c.rank == 0 && !options.common.json.empty()) report.write_json(options.common.json);
    clReleaseMemObject(c.in);
    clReleaseMemObject(c.out);
    clReleaseCommandQueue(c.queue);
    MPI_Finalize();
}
