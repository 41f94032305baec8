/// Shared by the benchmarks: a device for each rank, checks, medians, facts about the machine, and
/// results in JSON.
///
/// MPI calls are not checked one by one, because MPI's default error handler ends the program.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <getopt.h>

#include <CL/cl.h>
#include <fmt/format.h>
#include <mpi.h>

namespace bench {

template <typename... Args>
[[noreturn]] void die(fmt::format_string<Args...> format, Args &&...args) {
    fmt::print(stderr, "bench: {}\n", fmt::format(format, std::forward<Args>(args)...));
    int initialized = 0;
    MPI_Initialized(&initialized);
    if (initialized) MPI_Abort(MPI_COMM_WORLD, 1);
    std::exit(1);
}

inline void check(cl_int status, std::string_view what) {
    if (status != CL_SUCCESS) die("{} failed: {}", what, status);
}

/// Accepts "4K", "16M", "1G", the same with small letters, and plain bytes.
inline size_t parse_size(const char *text) {
    char *end = nullptr;
    const size_t number = std::strtoull(text, &end, 10);
    const std::string_view units = "kmg", unit = end;
    const size_t at =
        unit.size() == 1 ? units.find(static_cast<char>(unit[0] | 0x20)) : std::string_view::npos;
    if (number == 0 || (!unit.empty() && at == std::string_view::npos))
        die("'{}' is not a size; sizes look like 4096, 4K or 16M", text);
    return unit.empty() ? number : number << (10 * (at + 1));
}

inline std::string size_name(size_t bytes) {
    if (bytes >= 1u << 20) return fmt::format("{} MiB", bytes >> 20);
    if (bytes >= 1u << 10) return fmt::format("{} KiB", bytes >> 10);
    return fmt::format("{} B", bytes);
}

inline double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const size_t middle = values.size() / 2;
    return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Returns the median of of[i] / by[i]. Both values come from one round, so slow changes of the
/// machine's speed cancel out.
inline double median_ratio(const std::vector<double> &of, const std::vector<double> &by) {
    std::vector<double> ratios;
    for (size_t i = 0; i < std::min(of.size(), by.size()); ++i) ratios.push_back(of[i] / by[i]);
    return median(ratios);
}

/// Returns the seconds of a monotonic clock.
inline double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// ---- Start ------------------------------------------------------------------------------------

/// The options of every benchmark.
struct CommonOptions {
    std::string device = "cpu", label = "auto", json;
};

inline constexpr std::string_view common_usage =
    "  --device cpu|gpu   the kind of device (cpu)\n"
    "  --label TEXT       name of this run in its results (the value of CLDIST_PATH)\n"
    "  --json FILE        also write the raw numbers to FILE\n";

/// Parses the command line. `own` are the benchmark's own options. For each of them, `take` gets
/// its letter; the value is in optarg. The letters d, l, j and h are reserved. `usage` prints the
/// help and exits with the given code.
template <typename Take>
void parse_options(int argc, char **argv, CommonOptions &common, std::vector<option> own,
                   void (*usage)(int), const Take &take) {
    own.insert(own.end(), {{"device", 1, nullptr, 'd'},
                           {"label", 1, nullptr, 'l'},
                           {"json", 1, nullptr, 'j'},
                           {"help", 0, nullptr, 'h'},
                           {nullptr, 0, nullptr, 0}});
    if (const char *path = std::getenv("CLDIST_PATH")) common.label = path;
    for (int letter = 0; (letter = getopt_long(argc, argv, "", own.data(), nullptr)) != -1;) {
        switch (letter) {
            case 'd': common.device = optarg; break;
            case 'l': common.label = optarg; break;
            case 'j': common.json = optarg; break;
            case 'h': usage(0); break;
            case '?': usage(2); break;
            default: take(letter);
        }
    }
}

/// Starts MPI and returns this process's rank. Fails unless there are two processes.
inline int rank_of_two(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) die("start this program with two processes");
    return rank;
}

// ---- Devices ----------------------------------------------------------------------------------

inline std::string device_text(cl_device_id device, cl_device_info what) {
    size_t size = 0;
    check(clGetDeviceInfo(device, what, 0, nullptr, &size), "clGetDeviceInfo");
    std::string text(size, '\0');
    check(clGetDeviceInfo(device, what, size, text.data(), nullptr), "clGetDeviceInfo");
    if (!text.empty()) text.pop_back();  // removes the terminating zero
    return text;
}

inline std::string platform_text(cl_platform_id platform, cl_platform_info what) {
    size_t size = 0;
    check(clGetPlatformInfo(platform, what, 0, nullptr, &size), "clGetPlatformInfo");
    std::string text(size, '\0');
    check(clGetPlatformInfo(platform, what, size, text.data(), nullptr), "clGetPlatformInfo");
    if (!text.empty()) text.pop_back();  // removes the terminating zero
    return text;
}

/// Returns all devices of a type. Leaves out Oclgrind, which checks programs and is slow.
inline std::vector<cl_device_id> devices(cl_device_type type, bool print = false) {
    cl_uint platform_count = 0;
    clGetPlatformIDs(0, nullptr, &platform_count);  // on an error, the count stays 0
    std::vector<cl_platform_id> platforms(platform_count);
    if (platform_count)
        check(clGetPlatformIDs(platform_count, platforms.data(), nullptr), "clGetPlatformIDs");
    std::vector<cl_device_id> found;
    for (cl_platform_id platform : platforms) {
        const std::string name = platform_text(platform, CL_PLATFORM_NAME);
        if (print) fmt::print("{}: {}\n", name, platform_text(platform, CL_PLATFORM_VERSION));
        if (name == "Oclgrind") continue;
        cl_uint count = 0;
        if (clGetDeviceIDs(platform, type, 0, nullptr, &count) != CL_SUCCESS) continue;
        std::vector<cl_device_id> here(count);
        check(clGetDeviceIDs(platform, type, count, here.data(), nullptr), "clGetDeviceIDs");
        for (cl_device_id device : here) {
            if (print) {
                fmt::print("    {}, driver {}\n", device_text(device, CL_DEVICE_NAME),
                           device_text(device, CL_DRIVER_VERSION));
            }
            found.push_back(device);
        }
    }
    return found;
}

inline cl_device_type device_type(std::string_view name) {
    if (name == "cpu") return CL_DEVICE_TYPE_CPU;
    if (name == "gpu") return CL_DEVICE_TYPE_GPU;
    die("device '{}' is neither cpu nor gpu", name);
}

/// Returns this rank's number among the ranks of its host; 0 if MPI is not initialised.
inline int local_rank() {
    int initialized = 0;
    int number = 0;
    MPI_Initialized(&initialized);
    if (!initialized) return 0;
    MPI_Comm host = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &number);
    MPI_Comm_free(&host);
    return number;
}

/// The device of this rank. The ranks of a host get its devices round robin.
struct Device {
    cl_device_id id = nullptr;
    cl_context context = nullptr;
    size_t count = 0;  ///< devices of this type on the host

    explicit Device(cl_device_type type) {
        const auto all = devices(type);
        if (all.empty()) die("this host has no OpenCL device of that type");
        count = all.size();
        id = all[static_cast<size_t>(local_rank()) % count];
        cl_int status = CL_SUCCESS;
        context = clCreateContext(nullptr, 1, &id, nullptr, nullptr, &status);
        check(status, "clCreateContext");
    }
    Device(const Device &) = delete;
    Device &operator=(const Device &) = delete;
    ~Device() { clReleaseContext(context); }

    [[nodiscard]] cl_command_queue queue(cl_command_queue_properties wanted = 0) const {
        const cl_queue_properties properties[] = {CL_QUEUE_PROPERTIES, wanted, 0};
        cl_int status = CL_SUCCESS;
        cl_command_queue made =
            clCreateCommandQueueWithProperties(context, id, properties, &status);
        check(status, "clCreateCommandQueueWithProperties");
        return made;
    }

    [[nodiscard]] cl_mem buffer(size_t size, cl_mem_flags flags = CL_MEM_READ_WRITE) const {
        cl_int status = CL_SUCCESS;
        cl_mem made = clCreateBuffer(context, flags, size, nullptr, &status);
        check(status, "clCreateBuffer");
        return made;
    }
};

/// Page-locked host memory: a buffer with CL_MEM_ALLOC_HOST_PTR that stays mapped.
class Pinned {
public:
    Pinned(const Device &device, cl_command_queue queue, size_t size)
        : queue_(queue), buffer_(device.buffer(size, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR)) {
        cl_int status = CL_SUCCESS;
        data_ = static_cast<char *>(clEnqueueMapBuffer(queue, buffer_, CL_TRUE,
                                                       CL_MAP_READ | CL_MAP_WRITE, 0, size, 0,
                                                       nullptr, nullptr, &status));
        check(status, "clEnqueueMapBuffer");
    }
    Pinned(const Pinned &) = delete;
    Pinned &operator=(const Pinned &) = delete;
    ~Pinned() {
        clEnqueueUnmapMemObject(queue_, buffer_, data_, 0, nullptr, nullptr);
        clFinish(queue_);
        clReleaseMemObject(buffer_);
    }
    [[nodiscard]] char *data() const { return data_; }

private:
    cl_command_queue queue_;
    cl_mem buffer_;
    char *data_ = nullptr;
};

// ---- Results ----------------------------------------------------------------------------------

inline std::string json_text(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
    return out + '"';
}

/// The results of a benchmark. Only the ratios are comparable between machines and versions.
struct Report {
    std::string name;
    std::string label;
    std::vector<std::pair<std::string, std::string>> facts{};
    std::vector<std::string> ratios{};  ///< JSON objects
    std::vector<std::string> rows{};    ///< JSON objects with the raw numbers
    bool busy = false;

    void ratio(std::string_view of, double value, bool higher_is_better) {
        ratios.push_back(fmt::format(R"({{"name": {}, "value": {:.4f}, "better": "{}"}})",
                                     json_text(of), value, higher_is_better ? "higher" : "lower"));
    }

    /// Call this before the measurements.
    void collect_facts(const Device &device) {
        char library[MPI_MAX_LIBRARY_VERSION_STRING] = {};
        int length = 0;
        int level = 0;
        int initialized = 0;
        MPI_Get_library_version(library, &length);
        MPI_Initialized(&initialized);
        if (initialized) MPI_Query_thread(&level);
        std::string mpi = library;
        mpi = mpi.substr(0, mpi.find_first_of(",\n"));
        std::replace(mpi.begin(), mpi.end(), '\t', ' ');
        std::string cpu = "unknown";
        std::ifstream cpuinfo("/proc/cpuinfo");
        for (std::string line; std::getline(cpuinfo, line);) {
            if (line.rfind("model name", 0) == 0) cpu = line.substr(line.find(':') + 2);
        }
        double load = 0;
        if (getloadavg(&load, 1) != 1) load = -1;
        const unsigned cores = std::thread::hardware_concurrency();
        busy = load > cores / 2.0;
        const std::time_t seconds = std::time(nullptr);
        char date[32] = {};
        std::strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", std::gmtime(&seconds));
        const auto variable = [](const char *of) {
            const char *value = std::getenv(of);
            return std::string(value ? value : "not set");
        };
        facts = {
            {"date", date},
            {"device", device_text(device.id, CL_DEVICE_NAME)},
            {"devices", fmt::format("{}", device.count)},
            {"driver", device_text(device.id, CL_DEVICE_VERSION) + ", " +
                           device_text(device.id, CL_DRIVER_VERSION)},
            {"MPI", mpi + (!initialized                   ? ", not started"
                           : level == MPI_THREAD_MULTIPLE ? ", MPI_THREAD_MULTIPLE"
                                                          : "")},
            {"CPU", cpu},
            {"cores", fmt::format("{}", cores)},
            {"load before", fmt::format("{:.2f}", load)},
            {"CLDIST_PATH", variable("CLDIST_PATH")},
            {"POCL_MAX_PTHREAD_COUNT", variable("POCL_MAX_PTHREAD_COUNT")},
        };
    }

    void print_facts() const {
        for (const auto &[key, value] : facts) fmt::print("- {}: {}\n", key, value);
        if (busy)
            fmt::print(
                "- **the machine was busy with other programs: measure again on a quiet "
                "machine**\n");
        fmt::print("\n");
        std::fflush(stdout);
    }

    void write_json(const std::string &path) const {
        std::vector<std::string> pairs;
        for (const auto &[key, value] : facts)
            pairs.push_back(json_text(key) + ": " + json_text(value));
        std::ofstream file(path);
        file << fmt::format(
            "{{\"bench\": {}, \"label\": {},\n\"facts\": {{{}}},\n"
            "\"ratios\": [\n{}\n],\n\"rows\": [\n{}\n]}}\n",
            json_text(name), json_text(label), fmt::join(pairs, ", "), fmt::join(ratios, ",\n"),
            fmt::join(rows, ",\n"));
        if (!file.flush()) die("cannot write {}", path);
    }
};

/// Returns the seconds of `count` ping-pongs, measured by rank 0. `finish` of a method that has one
/// waits for all of them.
template <typename Method, typename End>
double ping_pong(const Method &method, const End &end, int rank, int count) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = now();
    for (int i = 0; i < count; ++i) {
        if (rank == 0) {
            method.send(end);
            method.recv(end);
        } else {
            method.recv(end);
            method.send(end);
        }
    }
    if constexpr (requires { method.finish; })
        if (method.finish != nullptr) method.finish(end);
    return now() - start;
}

}  // namespace bench
