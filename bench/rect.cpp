/// Compares rectangular commands with other methods of sending a cube's faces between two
/// processes.
///
/// Measures ping-pongs; the one-way time is half of a ping-pong. The methods alternate, so that
/// noise affects them alike. Before each timed loop, the receiving face is overwritten. After it,
/// both processes compare the face with a pattern that depends on face, method and round.
#include "bench.hpp"

#include <array>
#include <cstdint>
#include <span>

#include <getopt.h>

#include <CL/cl_ext_dist.h>

namespace {

using namespace bench;

constexpr int tag = 7;
constexpr double goal = 3;            ///< target: speed in multiples of row by row
constexpr size_t most_pending = 512;  ///< commands enqueued before a wait
/// With this many rows per face, methods with one command per row get only one round.
constexpr size_t many_rows = 1 << 14;

struct Options {
    std::string device = "cpu", label = "auto", json;
    size_t edge = 512;  ///< length of the cube's edge in floats
    int rounds = 7;
    double budget = 0.05;  ///< seconds per timed loop
    bool whole = false;    ///< only the methods with one message per face
};

using Triple = std::array<size_t, 3>;

/// One face of the cube in bytes, rows and slices.
struct Face {
    Triple origin, region;
    size_t row_pitch, slice_pitch;

    [[nodiscard]] size_t bytes() const { return region[0] * region[1] * region[2]; }
    [[nodiscard]] size_t rows() const { return region[1] * region[2]; }
    /// Returns where row `i` of the face starts in the buffer.
    [[nodiscard]] size_t row(size_t i) const {
        return (origin[2] + i / region[1]) * slice_pitch + (origin[1] + i % region[1]) * row_pitch +
               origin[0];
    }
};

/// Returns layer `layer` of the cube, perpendicular to direction 0 (x), 1 (y) or 2 (z).
Face face_of(size_t edge, size_t direction, size_t layer) {
    const size_t row = edge * sizeof(cl_float);
    Face face{{0, 0, 0}, {row, edge, edge}, row, row * edge};
    const size_t unit = direction == 0 ? sizeof(cl_float) : 1;
    face.origin.at(direction) = layer * unit;
    face.region.at(direction) = unit;
    return face;
}

/// One process's end of the ping-pong. Rank 0 sends `out` and receives `in`. Rank 1 sends back what
/// it received, so its `out` is `in`.
struct End {
    cl_command_queue queue = nullptr;
    int peer = 0;
    cl_mem cube = nullptr;
    Face out{}, in{};
    char *host = nullptr;  ///< memory for a face
};

void wait_and_release(cl_event event) {
    check(clWaitForEvents(1, &event), "clWaitForEvents");
    clReleaseEvent(event);
}

void send_rect(const End &end, cl_bool blocking, cl_event *event) {
    check(clEnqueueSendBufferRect(end.queue, end.cube, blocking, end.out.origin.data(),
                                  end.out.region.data(), end.out.row_pitch, end.out.slice_pitch,
                                  end.peer, tag, MPI_COMM_WORLD, 0, nullptr, event),
          "clEnqueueSendBufferRect");
}

void recv_rect(const End &end, cl_bool blocking, cl_event *event) {
    check(clEnqueueRecvBufferRect(end.queue, end.cube, blocking, end.in.origin.data(),
                                  end.in.region.data(), end.in.row_pitch, end.in.slice_pitch,
                                  end.peer, tag, MPI_COMM_WORLD, 0, nullptr, event),
          "clEnqueueRecvBufferRect");
}

void read_rect(const End &end, const Face &face, void *to) {
    const Triple packed{0, 0, 0};
    check(clEnqueueReadBufferRect(end.queue, end.cube, CL_TRUE, face.origin.data(), packed.data(),
                                  face.region.data(), face.row_pitch, face.slice_pitch, 0, 0, to, 0,
                                  nullptr, nullptr),
          "clEnqueueReadBufferRect");
}

void write_rect(const End &end, const Face &face, const void *from) {
    const Triple packed{0, 0, 0};
    check(clEnqueueWriteBufferRect(end.queue, end.cube, CL_TRUE, face.origin.data(), packed.data(),
                                   face.region.data(), face.row_pitch, face.slice_pitch, 0, 0, from,
                                   0, nullptr, nullptr),
          "clEnqueueWriteBufferRect");
}

/// Calls `enqueue`(offset, event) for each row. Waits after each `most_pending` rows and at the
/// end.
template <typename Enqueue>
void row_by_row(const Face &face, Enqueue enqueue) {
    for (size_t i = 0; i < face.rows(); ++i) {
        const bool waits = (i + 1) % most_pending == 0 || i + 1 == face.rows();
        cl_event event = nullptr;
        enqueue(face.row(i), waits ? &event : nullptr);
        if (waits) wait_and_release(event);
    }
}

void send_row(const End &end, cl_bool blocking, size_t offset, cl_event *event) {
    check(clEnqueueSendBuffer(end.queue, end.cube, blocking, offset, end.out.region[0], end.peer,
                              tag, MPI_COMM_WORLD, 0, nullptr, event),
          "clEnqueueSendBuffer");
}

void recv_row(const End &end, cl_bool blocking, size_t offset, cl_event *event) {
    check(clEnqueueRecvBuffer(end.queue, end.cube, blocking, offset, end.in.region[0], end.peer,
                              tag, MPI_COMM_WORLD, 0, nullptr, event),
          "clEnqueueRecvBuffer");
}

struct Method {
    std::string_view name;
    std::string_view what;
    bool by_rows;
    void (*send)(const End &);
    void (*recv)(const End &);
};

// The methods with one message per face come first.
const std::array all_methods = {
    Method{"rect",
           "non-blocking clEnqueueSendBufferRect and clEnqueueRecvBufferRect, then clWaitForEvents",
           false,
           [](const End &end) {
               cl_event event = nullptr;
               send_rect(end, CL_FALSE, &event);
               wait_and_release(event);
           },
           [](const End &end) {
               cl_event event = nullptr;
               recv_rect(end, CL_FALSE, &event);
               wait_and_release(event);
           }},
    Method{"rect-blocking", "the same, blocking", false,
           [](const End &end) { send_rect(end, CL_TRUE, nullptr); },
           [](const End &end) { recv_rect(end, CL_TRUE, nullptr); }},
    Method{"read-write-rect",
           "blocking clEnqueueReadBufferRect, MPI, blocking clEnqueueWriteBufferRect; one message",
           false,
           [](const End &end) {
               read_rect(end, end.out, end.host);
               MPI_Send(end.host, static_cast<int>(end.out.bytes()), MPI_BYTE, end.peer, tag,
                        MPI_COMM_WORLD);
           },
           [](const End &end) {
               MPI_Recv(end.host, static_cast<int>(end.in.bytes()), MPI_BYTE, end.peer, tag,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE);
               write_rect(end, end.in, end.host);
           }},
    Method{"rows",
           "one non-blocking clEnqueueSendBuffer and clEnqueueRecvBuffer per row of bytes, in one "
           "queue",
           true,
           [](const End &end) {
               row_by_row(end.out,
                          [&](size_t at, cl_event *event) { send_row(end, CL_FALSE, at, event); });
           },
           [](const End &end) {
               row_by_row(end.in,
                          [&](size_t at, cl_event *event) { recv_row(end, CL_FALSE, at, event); });
           }},
    Method{"rows-blocking", "the same, blocking", true,
           [](const End &end) {
               for (size_t i = 0; i < end.out.rows(); ++i)
                   send_row(end, CL_TRUE, end.out.row(i), nullptr);
           },
           [](const End &end) {
               for (size_t i = 0; i < end.in.rows(); ++i)
                   recv_row(end, CL_TRUE, end.in.row(i), nullptr);
           }},
};

std::span<const Method> methods_of(const Options &options) {
    const auto by_rows = std::find_if(all_methods.begin(), all_methods.end(),
                                      [](const Method &m) { return m.by_rows; });
    return {all_methods.begin(), options.whole ? by_rows : all_methods.end()};
}

// ---- Measuring --------------------------------------------------------------------------------

uint32_t word(uint64_t seed, size_t i) {
    return static_cast<uint32_t>(((seed + i) * 0x9e3779b97f4a7c15u) >> 32);
}

void write_face(const End &end, const Face &face, uint64_t seed) {
    std::vector<uint32_t> words(face.bytes() / sizeof(uint32_t));
    for (size_t i = 0; i < words.size(); ++i) words[i] = word(seed, i);
    write_rect(end, face, words.data());
}

bool face_equals(const End &end, const Face &face, uint64_t seed) {
    std::vector<uint32_t> words(face.bytes() / sizeof(uint32_t));
    read_rect(end, face, words.data());
    uint32_t differs = 0;
    for (size_t i = 0; i < words.size(); ++i) differs |= words[i] ^ word(seed, i);
    return differs == 0;
}

/// Returns the number of ping-pongs that fill the budget, the same in both processes.
int calibrate(const Method &method, const End &end, int rank, double budget) {
    if (method.by_rows && end.in.rows() >= many_rows) return 1;
    double seconds = 0;
    // The second one counts, because the first one also pages in the memory.
    for (int i = 0; i < 2; ++i) seconds = ping_pong(method, end, rank, 1);
    int count = std::clamp(static_cast<int>(budget / seconds), 1, 5000);
    MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return count;
}

/// The result of one face. `seconds`: one-way time, for each method one value per round; none if
/// the data was wrong.
struct Row {
    std::string_view face;
    Face in;
    std::vector<std::vector<double>> seconds;
};

Row measure(const Options &options, int rank, End end, size_t direction) {
    constexpr std::array names = {"x", "y", "z"};
    const std::span methods = methods_of(options);
    end.in = face_of(options.edge, direction, 0);
    end.out = face_of(options.edge, direction, rank == 0 ? options.edge - 1 : 0);
    std::vector<char> host(end.in.bytes());
    end.host = host.data();
    Row row{names.at(direction), end.in, std::vector<std::vector<double>>(methods.size())};

    std::vector<int> counts;
    for (const Method &method : methods)
        counts.push_back(calibrate(method, end, rank, options.budget));
    std::vector<bool> wrong(methods.size(), false);
    for (int round = 0; round < options.rounds; ++round) {
        for (size_t turn = 0; turn < methods.size(); ++turn) {
            const size_t m = (turn + static_cast<size_t>(round)) % methods.size();
            const Method &method = methods[m];
            const bool once = method.by_rows && end.in.rows() >= many_rows;
            if (wrong[m] || (once && round > 0)) continue;
            const uint64_t seed = (direction << 40) + (m << 32) + static_cast<uint64_t>(round) + 1;
            std::fill(host.begin(), host.end(), '\xA5');
            write_face(end, end.in, ~seed);
            if (rank == 0) write_face(end, end.out, seed);

            row.seconds[m].push_back(ping_pong(method, end, rank, counts[m]) / counts[m] / 2);

            int bad = face_equals(end, end.in, seed) ? 0 : 1;
            MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            if (bad == 0) continue;
            if (rank == 0)
                fmt::print(stderr, "{} face, {}: wrong data in round {}\n", row.face, method.name,
                           round);
            wrong[m] = true;
            row.seconds[m].clear();
        }
    }
    return row;
}

// ---- Tables -----------------------------------------------------------------------------------

void print_all(const Options &options, const std::vector<Row> &rows, Report &report) {
    const std::span methods = methods_of(options);
    for (const Method &method : methods) fmt::print("- {}: {}\n", method.name, method.what);
    fmt::print(
        "\nOne way, µs (medians of {} rounds; one round for row by row with at least {} "
        "rows):\n\n| face | rows |",
        options.rounds, many_rows);
    for (const Method &method : methods) fmt::print(" {} |", method.name);
    fmt::print("\n|---|---|");
    for (size_t i = 0; i < methods.size(); ++i) fmt::print("---:|");
    fmt::print("\n");
    for (const Row &row : rows) {
        fmt::print("| {} | {} of {} B, {} B and {} B apart |", row.face, row.in.rows(),
                   row.in.region[0], row.in.row_pitch, row.in.slice_pitch);
        for (const auto &seconds : row.seconds)
            fmt::print(" {} |",
                       seconds.empty() ? "wrong" : fmt::format("{:.0f}", median(seconds) * 1e6));
        fmt::print("\n");
    }
    fmt::print(
        "\nSpeed of rect and rect-blocking relative to the others (goal for rows: {}):\n\n| face |",
        goal);
    constexpr size_t ours = 2;
    for (size_t of = 0; of < ours; ++of)
        for (size_t by = ours; by < methods.size(); ++by)
            fmt::print(" {} : {} |", methods[of].name, methods[by].name);
    fmt::print("\n|---|");
    for (size_t i = 0; i < ours * (methods.size() - ours); ++i) fmt::print("---:|");
    fmt::print("\n");
    for (const Row &row : rows) {
        fmt::print("| {} |", row.face);
        for (size_t of = 0; of < ours; ++of) {
            for (size_t by = ours; by < methods.size(); ++by) {
                if (row.seconds[of].empty() || row.seconds[by].empty()) {
                    fmt::print(" |");
                    continue;
                }
                const double ratio = median_ratio(row.seconds[by], row.seconds[of]);
                fmt::print(" {:.2f} |", ratio);
                report.ratio(fmt::format("rect {}, {} face, {} : {}", options.label, row.face,
                                         methods[of].name, methods[by].name),
                             ratio, true);
            }
        }
        fmt::print("\n");
    }
    fmt::print("\n");
    for (const Row &row : rows) {
        for (size_t m = 0; m < methods.size(); ++m) {
            std::vector<std::string> us;
            for (const double seconds : row.seconds[m])
                us.push_back(fmt::format("{:.3f}", seconds * 1e6));
            report.rows.push_back(fmt::format(R"({{"face": {}, "method": {}, "us": [{}]}})",
                                              json_text(row.face), json_text(methods[m].name),
                                              fmt::join(us, ", ")));
        }
    }
}

[[noreturn]] void usage(int code) {
    fmt::print(
        "usage: mpirun -n 2 rect [options]\n"
        "  --device cpu|gpu   the kind of device (cpu)\n"
        "  --edge N           length of the cube's edge in floats (512); each process has one "
        "cube\n"
        "  --rounds N         rounds (7), whose median is printed\n"
        "  --budget MS        time of a timed loop (50)\n"
        "  --whole            only methods with one message per face; the others take many seconds "
        "on GPUs\n"
        "  --label TEXT       name of this run in its results (the value of CLDIST_PATH)\n"
        "  --json FILE        also write the raw numbers to FILE\n");
    std::exit(code);
}

Options parse(int argc, char **argv) {
    const option table[] = {
        {"device", 1, nullptr, 'd'}, {"edge", 1, nullptr, 'e'},  {"rounds", 1, nullptr, 'r'},
        {"budget", 1, nullptr, 'b'}, {"label", 1, nullptr, 'l'}, {"json", 1, nullptr, 'j'},
        {"whole", 0, nullptr, 'w'},  {"help", 0, nullptr, 'h'},  {nullptr, 0, nullptr, 0}};
    Options options;
    if (const char *path = std::getenv("CLDIST_PATH")) options.label = path;
    for (int option = 0; (option = getopt_long(argc, argv, "", table, nullptr)) != -1;) {
        switch (option) {
            case 'd': options.device = optarg; break;
            case 'e': options.edge = parse_size(optarg); break;
            case 'r': options.rounds = std::max(1, std::atoi(optarg)); break;
            case 'b': options.budget = std::atof(optarg) / 1e3; break;
            case 'l': options.label = optarg; break;
            case 'j': options.json = optarg; break;
            case 'w': options.whole = true; break;
            case 'h': usage(0);
            default: usage(2);
        }
    }
    return options;
}

}  // namespace

int main(int argc, char **argv) {
    const Options options = parse(argc, argv);
    MPI_Init(&argc, &argv);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) die("start this program with two processes");
    int wrong = 0;
    {
        const Device device(device_type(options.device));
        Report report{"rect", options.label};
        if (rank == 0) {
            report.collect_facts(device);
            fmt::print("## rect: faces of {}³ floats between two processes, {}\n\n", options.edge,
                       options.label);
            report.print_facts();
        }
        End end;
        end.queue = device.queue();
        end.peer = 1 - rank;
        end.cube = device.buffer(options.edge * options.edge * options.edge * sizeof(cl_float));
        std::vector<Row> rows;
        for (size_t direction = 0; direction < 3; ++direction) {
            rows.push_back(measure(options, rank, end, direction));
            for (const auto &seconds : rows.back().seconds) wrong += seconds.empty();
        }
        if (rank == 0) {
            print_all(options, rows, report);
            if (!options.json.empty()) report.write_json(options.json);
        }
        clReleaseMemObject(end.cube);
        clReleaseCommandQueue(end.queue);
    }
    MPI_Finalize();
    return wrong ? 1 : 0;
}
