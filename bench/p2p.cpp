/// Compares cldist's messages between the devices of two processes with programs without cldist.
///
/// Measures ping-pongs; the one-way time is half of a ping-pong. The methods alternate, so that
/// noise affects them alike. Before each timed loop, the receiving memory is overwritten. After it,
/// both processes compare the memory with a pattern that depends on size, method and round.
#include "bench.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>

#include <CL/cl_ext_dist.h>

namespace {

using namespace bench;

constexpr int tag = 7;
constexpr size_t chunk_bytes = 4u << 20;

using HostMemory = std::unique_ptr<char, decltype([](char *memory) { std::free(memory); })>;

HostMemory host_memory(size_t size) {
    HostMemory memory(static_cast<char *>(std::aligned_alloc(4096, (size + 4095) / 4096 * 4096)));
    if (!memory) die("no memory");
    return memory;
}

/// One process's end of the ping-pong. Rank 0 sends `out` and receives `in`. Rank 1 sends back what
/// it received, so its `out` is `in`.
struct End {
    cl_command_queue queue = nullptr;
    int peer = 0;
    size_t size = 0;
    cl_mem out = nullptr, in = nullptr;
    char *host_out = nullptr, *host_in = nullptr;
    char *pinned_out = nullptr, *pinned_in = nullptr;

    [[nodiscard]] int count() const { return static_cast<int>(size); }
};

void mpi_send(const End &end, const void *from) {
    MPI_Send(from, end.count(), MPI_BYTE, end.peer, tag, MPI_COMM_WORLD);
}

void mpi_recv(const End &end, void *to) {
    MPI_Recv(to, end.count(), MPI_BYTE, end.peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void wait_and_release(cl_event event) {
    check(clWaitForEvents(1, &event), "clWaitForEvents");
    clReleaseEvent(event);
}

void read_and_send(const End &end, char *staging) {
    check(
        clEnqueueReadBuffer(end.queue, end.out, CL_TRUE, 0, end.size, staging, 0, nullptr, nullptr),
        "clEnqueueReadBuffer");
    mpi_send(end, staging);
}

void recv_and_write(const End &end, char *staging) {
    mpi_recv(end, staging);
    check(
        clEnqueueWriteBuffer(end.queue, end.in, CL_TRUE, 0, end.size, staging, 0, nullptr, nullptr),
        "clEnqueueWriteBuffer");
}

void *map(const End &end, cl_mem buffer, cl_map_flags flags) {
    cl_int status = CL_SUCCESS;
    void *mapped = clEnqueueMapBuffer(end.queue, buffer, CL_TRUE, flags, 0, end.size, 0, nullptr,
                                      nullptr, &status);
    check(status, "clEnqueueMapBuffer");
    return mapped;
}

void unmap(const End &end, cl_mem buffer, void *mapped) {
    check(clEnqueueUnmapMemObject(end.queue, buffer, mapped, 0, nullptr, nullptr),
          "clEnqueueUnmapMemObject");
}

enum class Memory { device, host, pinned };

struct Method {
    std::string_view name;
    std::string_view what;
    Memory memory;
    bool only_gpu;
    void (*send)(const End &);
    void (*recv)(const End &);
    void (*finish)(const End &) = nullptr;
};

void send(const End &end, cl_event *event) {
    check(clEnqueueSendBuffer(end.queue, end.out, CL_FALSE, 0, end.size, end.peer, tag,
                              MPI_COMM_WORLD, 0, nullptr, event),
          "clEnqueueSendBuffer");
}

void recv(const End &end, cl_event *event) {
    check(clEnqueueRecvBuffer(end.queue, end.in, CL_FALSE, 0, end.size, end.peer, tag,
                              MPI_COMM_WORLD, 0, nullptr, event),
          "clEnqueueRecvBuffer");
}

const std::array methods = {
    Method{"cldist", "blocking clEnqueueSendBuffer and clEnqueueRecvBuffer", Memory::device, false,
           [](const End &end) {
               check(clEnqueueSendBuffer(end.queue, end.out, CL_TRUE, 0, end.size, end.peer, tag,
                                         MPI_COMM_WORLD, 0, nullptr, nullptr),
                     "clEnqueueSendBuffer");
           },
           [](const End &end) {
               check(clEnqueueRecvBuffer(end.queue, end.in, CL_TRUE, 0, end.size, end.peer, tag,
                                         MPI_COMM_WORLD, 0, nullptr, nullptr),
                     "clEnqueueRecvBuffer");
           }},
    Method{"cldist-event", "the same, non-blocking, then clWaitForEvents", Memory::device, false,
           [](const End &end) {
               cl_event event = nullptr;
               send(end, &event);
               wait_and_release(event);
           },
           [](const End &end) {
               cl_event event = nullptr;
               recv(end, &event);
               wait_and_release(event);
           }},
    Method{"cldist-chained", "all ping-pongs enqueued, then clFinish", Memory::device, false,
           [](const End &end) { send(end, nullptr); }, [](const End &end) { recv(end, nullptr); },
           [](const End &end) { check(clFinish(end.queue), "clFinish"); }},
    Method{"read-write", "blocking read, MPI, blocking write; host memory from malloc",
           Memory::device, false, [](const End &end) { read_and_send(end, end.host_in); },
           [](const End &end) { recv_and_write(end, end.host_in); }},
    Method{"read-write-pinned", "the same with page-locked host memory", Memory::device, false,
           [](const End &end) { read_and_send(end, end.pinned_in); },
           [](const End &end) { recv_and_write(end, end.pinned_in); }},
    Method{"map", "blocking map, MPI on the mapped memory, unmap; clFinish on the receiver",
           Memory::device, false,
           [](const End &end) {
               void *mapped = map(end, end.out, CL_MAP_READ);
               mpi_send(end, mapped);
               unmap(end, end.out, mapped);
               check(clFlush(end.queue), "clFlush");
           },
           [](const End &end) {
               void *mapped = map(end, end.in, CL_MAP_WRITE_INVALIDATE_REGION);
               mpi_recv(end, mapped);
               unmap(end, end.in, mapped);
               check(clFinish(end.queue), "clFinish");  // waits until the data is on the device
           }},
    Method{"mpi", "plain MPI from host memory to host memory, no device", Memory::host, false,
           [](const End &end) { mpi_send(end, end.host_out); },
           [](const End &end) { mpi_recv(end, end.host_in); }},
    Method{"mpi-pinned", "plain MPI from page-locked to page-locked host memory", Memory::pinned,
           true, [](const End &end) { mpi_send(end, end.pinned_out); },
           [](const End &end) { mpi_recv(end, end.pinned_in); }},
};

struct Options : CommonOptions {
    std::vector<const Method *> methods;
    size_t min = 8, max = 256u << 20;
    int rounds = 7;
    double budget = 0.01;  ///< seconds per timed loop
    bool exportable = false;
    double busy_ms = 0;  ///< how long a kernel of another queue runs during each timed loop

    /// Small messages get more rounds: other programs disturb them most, and they take little time.
    [[nodiscard]] int rounds_of(size_t size) const {
        return size <= 1u << 20 ? 3 * rounds : rounds;
    }
};

// ---- Patterns ---------------------------------------------------------------------------------

/// Returns word `i` of the data of a loop. All sizes are multiples of 8 bytes.
uint64_t word(uint64_t seed, size_t i) { return (seed + i) * 0x9e3779b97f4a7c15u; }

uint64_t seed_of(size_t size, size_t method, int round) {
    return (size << 20) + (method << 12) + static_cast<uint64_t>(round) + 1;
}

/// Fills and checks the memory of a method: the source if `sending`, otherwise the destination.
class Contents {
public:
    Contents(const End &end, Memory memory, bool sending)
        : end_(end),
          buffer_(memory == Memory::device ? (sending ? end.out : end.in) : nullptr),
          host_(memory == Memory::host ? (sending ? end.host_out : end.host_in)
                                       : (sending ? end.pinned_out : end.pinned_in)) {}

    void write(uint64_t seed) {
        for_chunks([&](size_t at, size_t bytes) {
            for (size_t i = 0; i < bytes / 8; ++i) words_[i] = word(seed, at / 8 + i);
            if (!buffer_) {
                std::memcpy(host_ + at, words_.data(), bytes);
                return;
            }
            check(clEnqueueWriteBuffer(end_.queue, buffer_, CL_TRUE, at, bytes, words_.data(), 0,
                                       nullptr, nullptr),
                  "clEnqueueWriteBuffer");
        });
    }

    [[nodiscard]] bool equals(uint64_t seed) {
        bool equal = true;
        for_chunks([&](size_t at, size_t bytes) {
            if (!buffer_) {
                std::memcpy(words_.data(), host_ + at, bytes);
            } else {
                check(clEnqueueReadBuffer(end_.queue, buffer_, CL_TRUE, at, bytes, words_.data(), 0,
                                          nullptr, nullptr),
                      "clEnqueueReadBuffer");
            }
            uint64_t differs = 0;
            for (size_t i = 0; i < bytes / 8; ++i) differs |= words_[i] ^ word(seed, at / 8 + i);
            equal = equal && differs == 0;
        });
        return equal;
    }

private:
    template <typename Use>
    void for_chunks(Use use) {
        words_.resize(std::min(chunk_bytes, end_.size) / 8);
        for (size_t at = 0; at < end_.size; at += chunk_bytes)
            use(at, std::min(chunk_bytes, end_.size - at));
    }

    const End &end_;
    cl_mem buffer_;
    char *host_;
    std::vector<uint64_t> words_;
};

/// A kernel of another queue that occupies the device like a program that computes meanwhile.
class OtherKernel {
public:
    OtherKernel(const Device &device, double ms)
        : queue_(device.queue()), buffer_(device.buffer(items * sizeof(cl_int))) {
        const char *source =
            "kernel void spin(global int *a, int n) { int x = a[get_global_id(0)];"
            " for (int i = 0; i < n; ++i) x = (x * 3 + i) ^ (x >> 3); a[get_global_id(0)] = x; }";
        cl_int status = CL_SUCCESS;
        program_ = clCreateProgramWithSource(device.context, 1, &source, nullptr, &status);
        check(status, "clCreateProgramWithSource");
        check(clBuildProgram(program_, 1, &device.id, "", nullptr, nullptr), "clBuildProgram");
        kernel_ = clCreateKernel(program_, "spin", &status);
        check(status, "clCreateKernel");
        check(clSetKernelArg(kernel_, 0, sizeof buffer_, &buffer_), "clSetKernelArg");
        double seconds = 0;
        for (iterations_ = 16; seconds < 1e-3; iterations_ *= 2) {
            const double begin = now();
            start();
            finish();
            seconds = now() - begin;
        }
        iterations_ = static_cast<cl_int>(iterations_ / 2 * ms * 1e-3 / seconds);
    }
    OtherKernel(const OtherKernel &) = delete;
    OtherKernel &operator=(const OtherKernel &) = delete;
    ~OtherKernel() {
        clReleaseKernel(kernel_);
        clReleaseProgram(program_);
        clReleaseMemObject(buffer_);
        clReleaseCommandQueue(queue_);
    }
    void start() const {
        check(clSetKernelArg(kernel_, 1, sizeof iterations_, &iterations_), "clSetKernelArg");
        check(clEnqueueNDRangeKernel(queue_, kernel_, 1, nullptr, &items, nullptr, 0, nullptr,
                                     nullptr),
              "clEnqueueNDRangeKernel");
        check(clFlush(queue_), "clFlush");
    }
    void finish() const { check(clFinish(queue_), "clFinish"); }

private:
    static constexpr size_t items = size_t{1} << 20;
    cl_command_queue queue_;
    cl_mem buffer_;
    cl_program program_ = nullptr;
    cl_kernel kernel_ = nullptr;
    cl_int iterations_ = 0;
};

// ---- Measuring --------------------------------------------------------------------------------

/// Returns the number of ping-pongs that fill the budget, the same in both processes.
int calibrate(const Method &method, const End &end, int rank, const Options &options) {
    // The first ping-pongs also page in the memory and build kernels.
    double seconds = ping_pong(method, end, rank, 1);
    for (int i = 0; i < 3; ++i) seconds = std::min(seconds, ping_pong(method, end, rank, 1));
    const int most = options.busy_ms > 0 ? 4 : 5000;
    int count = std::clamp(static_cast<int>(options.budget / seconds), 1, most);
    MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return count;
}

/// Returns the path that the receiver reports for a message of this size. The message is
/// non-blocking unless `first` is the method cldist.
std::string path_taken(const End &end, int rank, const Method &first) {
    const bool non_blocking = first.name.starts_with("cldist-");
    if (rank != 0) {
        (non_blocking ? first : methods[0]).send(end);
        return {};
    }
    cl_event event = nullptr;
    check(clEnqueueRecvBuffer(end.queue, end.in, non_blocking ? CL_FALSE : CL_TRUE, 0, end.size,
                              end.peer, tag, MPI_COMM_WORLD, 0, nullptr, &event),
          "clEnqueueRecvBuffer");
    check(clWaitForEvents(1, &event), "clWaitForEvents");
    char path[64] = "?";
    clGetTransferInfo(event, CL_TRANSFER_PATH, sizeof path, path, nullptr);
    clReleaseEvent(event);
    return path;
}

/// The result of one size. `seconds`: one-way time, for each method one value per round; none if
/// the data was wrong.
struct Row {
    size_t size = 0;
    std::string path;
    std::vector<std::vector<double>> seconds;
};

cl_mem buffer(const Options &options, const Device &device, size_t size) {
    if (!options.exportable) return device.buffer(size);
    cl_int status = CL_SUCCESS;
    cl_mem made =
        clCreateBufferExportable(device.context, device.id, CL_MEM_READ_WRITE, size, &status);
    check(status, "clCreateBufferExportable");
    return made;
}

Row measure(const Options &options, const Device &device, int rank, size_t size) {
    Row row{size, {}, std::vector<std::vector<double>>(options.methods.size())};
    End end;
    end.queue = device.queue();
    end.peer = 1 - rank;
    end.size = size;
    end.in = buffer(options, device, size);
    end.out = rank == 0 ? buffer(options, device, size) : end.in;

    const auto host_in = host_memory(size);
    const auto host_out = rank == 0 ? host_memory(size) : nullptr;
    end.host_in = host_in.get();
    end.host_out = rank == 0 ? host_out.get() : end.host_in;
    std::optional<Pinned> pinned_in, pinned_out;
    end.pinned_in = pinned_in.emplace(device, end.queue, size).data();
    const bool sends_pinned = rank == 0 && options.device == "gpu";
    end.pinned_out =
        sends_pinned ? pinned_out.emplace(device, end.queue, size).data() : end.pinned_in;

    std::vector<int> counts;
    for (const Method *method : options.methods) {
        if (rank == 0) Contents(end, method->memory, true).write(0);
        counts.push_back(calibrate(*method, end, rank, options));
    }
    std::optional<OtherKernel> other;
    if (options.busy_ms > 0) other.emplace(device, options.busy_ms);
    row.path = path_taken(end, rank, *options.methods.front());

    std::vector<bool> wrong(options.methods.size(), false);
    for (int round = 0; round < options.rounds_of(size); ++round) {
        for (size_t turn = 0; turn < options.methods.size(); ++turn) {
            const size_t m = (turn + static_cast<size_t>(round)) % options.methods.size();
            const Method &method = *options.methods[m];
            if (wrong[m]) continue;
            const uint64_t seed = seed_of(size, m, round);
            std::memset(end.host_in, 0xA5, size);
            std::memset(end.pinned_in, 0xA5, size);
            Contents(end, method.memory, false).write(~seed);
            if (rank == 0) Contents(end, method.memory, true).write(seed);

            if (other) other->start();
            const double seconds = ping_pong(method, end, rank, counts[m]);
            if (other) other->finish();
            row.seconds[m].push_back(seconds / counts[m] / 2);

            int bad = Contents(end, method.memory, false).equals(seed) ? 0 : 1;
            MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            if (bad == 0) continue;
            if (rank == 0)
                fmt::print(stderr, "{}, {}: wrong data in round {}\n", size_name(size), method.name,
                           round);
            wrong[m] = true;
            row.seconds[m].clear();
        }
    }

    pinned_in.reset();
    pinned_out.reset();
    if (end.out != end.in) clReleaseMemObject(end.out);
    clReleaseMemObject(end.in);
    clReleaseCommandQueue(end.queue);
    return row;
}

// ---- Tables -----------------------------------------------------------------------------------

void print_table(const Options &options, const std::vector<Row> &rows, std::string_view title,
                 auto cell) {
    fmt::print("{}\n\n| size | path |", title);
    for (const Method *method : options.methods) fmt::print(" {} |", method->name);
    fmt::print("\n|---:|---|");
    for (size_t i = 0; i < options.methods.size(); ++i) fmt::print("---:|");
    fmt::print("\n");
    for (const Row &row : rows) {
        fmt::print("| {} | {} |", size_name(row.size), row.path);
        for (const auto &seconds : row.seconds) {
            fmt::print(" {} |",
                       seconds.empty() ? std::string("wrong") : cell(row.size, median(seconds)));
        }
        fmt::print("\n");
    }
    fmt::print("\n");
}

/// Prints by which factor cldist is faster than the other methods: the median over the rounds.
void print_ratios(const Options &options, const std::vector<Row> &rows, Report &report) {
    std::vector<std::pair<size_t, size_t>> pairs;
    for (size_t of = 0; of < options.methods.size(); ++of) {
        for (size_t by = 0; by < options.methods.size(); ++by) {
            const bool ours = options.methods[of]->name.rfind("cldist", 0) == 0;
            const bool theirs = options.methods[by]->name.rfind("cldist", 0) != 0;
            if (ours && theirs) pairs.emplace_back(of, by);
        }
    }
    if (pairs.empty()) return;
    fmt::print("How many times as fast (1.00: equal):\n\n| size |");
    for (const auto &[of, by] : pairs)
        fmt::print(" {} : {} |", options.methods[of]->name, options.methods[by]->name);
    fmt::print("\n|---:|");
    for (size_t i = 0; i < pairs.size(); ++i) fmt::print("---:|");
    fmt::print("\n");
    for (const Row &row : rows) {
        fmt::print("| {} |", size_name(row.size));
        for (const auto &[of, by] : pairs) {
            if (row.seconds[of].empty() || row.seconds[by].empty()) {
                fmt::print(" |");
                continue;
            }
            const double ratio = median_ratio(row.seconds[by], row.seconds[of]);
            fmt::print(" {:.2f} |", ratio);
            report.ratio(fmt::format("p2p {}, {}, {} : {}", options.label, size_name(row.size),
                                     options.methods[of]->name, options.methods[by]->name),
                         ratio, true);
        }
        fmt::print("\n");
    }
    fmt::print("\n");
}

void print_all(const Options &options, const std::vector<Row> &rows, Report &report) {
    print_table(options, rows, "One way, µs (medians):", [](size_t, double seconds) {
        return fmt::format("{:.{}f}", seconds * 1e6, seconds < 1e-3 ? 2 : 0);
    });
    print_table(options, rows, "GB/s:", [](size_t size, double seconds) {
        return fmt::format("{:.{}f}", static_cast<double>(size) / seconds / 1e9,
                           size < 4096 ? 4 : 2);
    });
    print_ratios(options, rows, report);
    for (const Row &row : rows) {
        for (size_t m = 0; m < options.methods.size(); ++m) {
            std::vector<std::string> us;
            for (const double seconds : row.seconds[m])
                us.push_back(fmt::format("{:.3f}", seconds * 1e6));
            report.rows.push_back(fmt::format(
                R"({{"size": {}, "path": {}, "method": {}, "us": [{}]}})", row.size,
                json_text(row.path), json_text(options.methods[m]->name), fmt::join(us, ", ")));
        }
    }
}

// ---- Arguments --------------------------------------------------------------------------------

[[noreturn]] void usage(int code) {
    fmt::print(
        "usage: mpirun -n 2 p2p [options]\n"
        "  --methods A,B      measure only these (all):\n");
    for (const Method &method : methods) fmt::print("      {:<18} {}\n", method.name, method.what);
    fmt::print(
        "  --min SIZE, --max SIZE   8 to 256M; sizes are 8, 64, 512, 4K, 16K, 64K, ... 256M\n"
        "  --rounds N         rounds (7), whose median is printed; three times as many up to 1 "
        "MiB\n"
        "  --budget MS        time of a timed loop (10)\n"
        "  --exportable       create the buffers with clCreateBufferExportable\n"
        "  --busy MS          a kernel in another queue runs for MS during each loop, of at most 4 "
        "ping-pongs\n"
        "  --list             print the OpenCL platforms and devices; fails without a device of "
        "this kind\n"
        "{}",
        common_usage);
    std::exit(code);
}

std::vector<const Method *> choose_methods(std::string_view names, bool gpu) {
    std::vector<const Method *> chosen;
    while (!names.empty()) {
        const std::string_view name = names.substr(0, names.find(','));
        names.remove_prefix(std::min(names.size(), name.size() + 1));
        const auto *found =
            std::find_if(methods.begin(), methods.end(), [&](auto &m) { return m.name == name; });
        if (found == methods.end()) die("unknown method '{}'", name);
        if (!found->only_gpu || gpu) chosen.push_back(&*found);
    }
    return chosen;
}

Options parse(int argc, char **argv) {
    const std::vector<option> own{{"methods", 1, nullptr, 'm'},    {"min", 1, nullptr, 'i'},
                                  {"max", 1, nullptr, 'a'},        {"rounds", 1, nullptr, 'r'},
                                  {"budget", 1, nullptr, 'b'},     {"list", 0, nullptr, 'L'},
                                  {"exportable", 0, nullptr, 'e'}, {"busy", 1, nullptr, 'u'}};
    Options options;
    std::string names;
    bool list = false;
    parse_options(argc, argv, options, own, usage, [&](int letter) {
        switch (letter) {
            case 'm': names = optarg; break;
            case 'i': options.min = parse_size(optarg); break;
            case 'a': options.max = std::min(parse_size(optarg), size_t{256} << 20); break;
            case 'r': options.rounds = std::max(1, std::atoi(optarg)); break;
            case 'b': options.budget = std::atof(optarg) / 1e3; break;
            case 'e': options.exportable = true; break;
            case 'u': options.busy_ms = std::atof(optarg); break;
            case 'L': list = true; break;
        }
    });
    const cl_device_type type = device_type(options.device);
    if (list) {
        devices(CL_DEVICE_TYPE_ALL, true);
        std::exit(devices(type).empty() ? 1 : 0);
    }
    if (names.empty()) {
        for (const Method &method : methods) names += fmt::format("{},", method.name);
    }
    options.methods = choose_methods(names, type == CL_DEVICE_TYPE_GPU);
    return options;
}

}  // namespace

int main(int argc, char **argv) {
    const Options options = parse(argc, argv);
    const int rank = rank_of_two(argc, argv);

    int wrong = 0;
    {
        const Device device(device_type(options.device));
        Report report{"p2p", options.label};
        if (rank == 0) {
            report.collect_facts(device);
            fmt::print("## p2p: device to device, {}\n\n", options.label);
            report.print_facts();
        }
        std::vector<Row> rows;
        for (const size_t bytes :
             {size_t{8}, size_t{64}, size_t{512}, size_t{4} << 10, size_t{16} << 10,
              size_t{64} << 10, size_t{256} << 10, size_t{1} << 20, size_t{4} << 20,
              size_t{16} << 20, size_t{64} << 20, size_t{256} << 20}) {
            if (bytes < options.min || bytes > options.max) continue;
            rows.push_back(measure(options, device, rank, bytes));
            for (const auto &seconds : rows.back().seconds) wrong += seconds.empty();
        }
        if (rank == 0) {
            print_all(options, rows, report);
            if (!options.json.empty()) report.write_json(options.json);
        }
    }
    MPI_Finalize();
    return wrong ? 1 : 0;
}
