/// Compares file commands with a program without cldist, and with the file access alone.
///
/// Runs in one process, without MPI. The methods alternate, so that noise affects them alike.
/// Before each timed loop, the target is overwritten with other data. After it, the whole target is
/// compared with the expected data.
///
/// The files are created with their largest size and unlinked immediately, so that nothing remains
/// after the program. Writes overwrite existing data, so that the file system allocates nothing
/// during the measurement.
#include "bench.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <sstream>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <CL/cl_ext_dist.h>
#if CLDIST_HAS_HDF5
#include <CL/cl_ext_dist_hdf5.h>
#endif

namespace {

using namespace bench;

constexpr size_t smallest = 64u << 10, largest = 1u << 30;
constexpr int most_shifts = 4096;  ///< number of different contents that can be written
constexpr size_t hdf5_chunk = 1u << 20;
#if CLDIST_HAS_HDF5
constexpr size_t file_count = 3;  ///< copies of the data on disk: the file and two datasets
#else
constexpr size_t file_count = 1;
#endif
constexpr size_t spare_bytes = most_shifts * sizeof(uint64_t);

enum class Direction { in, out };  ///< file → device, device → file
enum class State { cached, dropped };

template <typename Number>
Number checked(Number result, std::string_view what) {
    if (result < 0) die("{} failed: {}", what, std::strerror(errno));
    return result;
}

// ---- The file ---------------------------------------------------------------------------------

void read_all(int fd, char *to, size_t size, size_t place) {
    for (size_t done = 0; done < size;) {
        const ssize_t got =
            checked(pread(fd, to + done, size - done, static_cast<off_t>(place + done)), "pread");
        if (got == 0) die("the file ends at byte {}", place + done);
        done += static_cast<size_t>(got);
    }
}

void write_all(int fd, const char *from, size_t size, size_t place) {
    for (size_t done = 0; done < size;) {
        done += static_cast<size_t>(checked(
            pwrite(fd, from + done, size - done, static_cast<off_t>(place + done)), "pwrite"));
    }
}

/// The file, opened once for each kind of access, so that methods share no position or read-ahead.
struct Files {
    int alone = -1, fd = -1;
    FILE *serial = nullptr, *stdio = nullptr;
    int serial_fd = -1, stdio_fd = -1;
#if CLDIST_HAS_HDF5
    hid_t hdf5 = H5I_INVALID_HID, contiguous = H5I_INVALID_HID, chunked = H5I_INVALID_HID;
    int hdf5_fd = -1;
#endif

    Files(const std::string &folder, [[maybe_unused]] size_t largest_size) {
        std::string path = folder + "/cldist-bench-XXXXXX";
        alone = mkostemp(path.data(), O_CLOEXEC);
        if (alone < 0) die("can't make a file in {}: {}", folder, std::strerror(errno));
        fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
        serial = fopen(path.c_str(), "r+e");
        stdio = fopen(path.c_str(), "r+e");
        if (fd < 0 || !serial || !stdio) die("can't open {}: {}", path, std::strerror(errno));
        unlink(path.c_str());
        serial_fd = fileno(serial);
        stdio_fd = fileno(stdio);
#if CLDIST_HAS_HDF5
        make_datasets(path + ".h5", largest_size);
#endif
    }
    Files(const Files &) = delete;
    Files &operator=(const Files &) = delete;
    ~Files() {
        close(alone);
        close(fd);
        fclose(serial);
        fclose(stdio);
#if CLDIST_HAS_HDF5
        H5Dclose(contiguous);
        H5Dclose(chunked);
        H5Fclose(hdf5);
#endif
    }

#if CLDIST_HAS_HDF5
private:
    /// Creates two datasets of cl_uint with allocated space. Disables HDF5's data caches, which
    /// would serve small accesses.
    void make_datasets(const std::string &path, size_t bytes) {
        const hid_t access = checked(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate");
        checked(H5Pset_cache(access, 0, 0, 0, 0), "H5Pset_cache");
        checked(H5Pset_sieve_buf_size(access, 1), "H5Pset_sieve_buf_size");
        hdf5 = checked(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access), "H5Fcreate");
        unlink(path.c_str());
        const hsize_t elements = bytes / sizeof(cl_uint), chunk = hdf5_chunk / sizeof(cl_uint);
        const hid_t space = checked(H5Screate_simple(1, &elements, nullptr), "H5Screate_simple");
        const hid_t creation = checked(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
        checked(H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time");
        contiguous = checked(H5Dcreate2(hdf5, "contiguous", H5T_NATIVE_UINT, space, H5P_DEFAULT,
                                        creation, H5P_DEFAULT),
                             "H5Dcreate2");
        checked(H5Pset_chunk(creation, 1, &chunk), "H5Pset_chunk");
        chunked = checked(
            H5Dcreate2(hdf5, "chunked", H5T_NATIVE_UINT, space, H5P_DEFAULT, creation, H5P_DEFAULT),
            "H5Dcreate2");
        void *handle = nullptr;
        checked(H5Fget_vfd_handle(hdf5, access, &handle), "H5Fget_vfd_handle");
        hdf5_fd = *static_cast<int *>(handle);
        H5Pclose(creation);
        H5Sclose(space);
        H5Pclose(access);
    }
#endif
};

/// Returns the fraction of the file's first `size` bytes (0: all) that is in the page cache.
double cached_share(int fd, size_t size) {
    if (size == 0) size = static_cast<size_t>(lseek(fd, 0, SEEK_END));
    void *mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) die("mmap failed: {}", std::strerror(errno));
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> pages((size + page - 1) / page);
    checked(mincore(mapped, size, pages.data()), "mincore");
    munmap(mapped, size);
    return static_cast<double>(
               std::count_if(pages.begin(), pages.end(), [](unsigned char at) { return at & 1; })) /
           static_cast<double>(pages.size());
}

/// Empties the page cache: of the whole system if permitted, otherwise of the file.
class Dropper {
public:
    static constexpr size_t try_bytes = smallest;

    /// `fd` is a file of at least `try_bytes`.
    explicit Dropper(int fd) : system_(open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC)) {
        if (system_ >= 0 && write(system_, "1\n", 2) != 2) {
            close(system_);
            system_ = -1;
        }
        works_ = drop(fd, try_bytes) < 0.01;
    }
    Dropper(const Dropper &) = delete;
    Dropper &operator=(const Dropper &) = delete;
    ~Dropper() {
        if (system_ >= 0) close(system_);
    }

    /// Empties the cache. Returns the remaining fraction of the file's first `size` bytes (0: all).
    double drop(int fd, size_t size) {
        checked(fdatasync(fd), "fdatasync");  // dirty pages would stay in the cache
        double left = 1;
        for (int i = 0; i < 5 && left > 0.01; ++i) {  // a running read-ahead adds pages
            if (system_ >= 0) {
                checked(pwrite(system_, "1\n", 2, 0), "write to /proc/sys/vm/drop_caches");
            } else if (const int error = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)) {
                die("posix_fadvise failed: {}", std::strerror(error));
            }
            left = cached_share(fd, size);
        }
        return left;
    }

    [[nodiscard]] bool works() const { return works_; }
    [[nodiscard]] std::string_view how() const {
        return system_ >= 0 ? "fdatasync, then 1 to /proc/sys/vm/drop_caches"
                            : "fdatasync, then posix_fadvise(POSIX_FADV_DONTNEED)";
    }

private:
    int system_;
    bool works_ = false;
};

// ---- Methods ----------------------------------------------------------------------------------

using HostMemory = std::unique_ptr<char, decltype([](char *memory) { std::free(memory); })>;

HostMemory host_memory(size_t size) {
    HostMemory memory(static_cast<char *>(std::aligned_alloc(4096, (size + 4095) / 4096 * 4096)));
    if (!memory) die("no memory");
    std::memset(memory.get(), 0xA5, size);
    return memory;
}

/// The two sides of a transfer.
struct Ends {
    const Files &files;
    cl_command_queue queue;
    cl_mem buffer;
    char *host;
#if CLDIST_HAS_HDF5
    std::vector<hid_t> file_spaces{};  ///< one per part of the case, in order
    hid_t memory_space = H5I_INVALID_HID;
#endif
};

/// A range of `size` bytes from offset `place`, both in the file and in the memory.
struct Part {
    size_t place, size;
    cl_bool blocking;
    cl_event *event;

    [[nodiscard]] off_t file_place() const { return static_cast<off_t>(place); }
};

void read_buffer(const Ends &ends, size_t place, size_t size, void *to) {
    check(
        clEnqueueReadBuffer(ends.queue, ends.buffer, CL_TRUE, place, size, to, 0, nullptr, nullptr),
        "clEnqueueReadBuffer");
}

void write_buffer(const Ends &ends, size_t place, size_t size, const void *from) {
    check(clEnqueueWriteBuffer(ends.queue, ends.buffer, CL_TRUE, place, size, from, 0, nullptr,
                               nullptr),
          "clEnqueueWriteBuffer");
}

enum class Role { alone, serial, command };

/// A way to move parts of a file. A command is compared with the methods `alone` (only the file
/// access) and `serial` (file access, then device copy) for the same kind of file.
struct Method {
    std::string_view name;
    std::string_view kind;
    Role role;
    std::string_view in_what, out_what;
    int Files::*fd;
    void (*in)(const Ends &, const Part &);
    void (*out)(const Ends &, const Part &);
    void (*rewind)(const Files &) = [](const Files &) {};
    /// writes buffered data to the file
    void (*flush)(const Files &) = [](const Files &) {};

    [[nodiscard]] int fd_of(const Files &files) const { return files.*fd; }
    /// Returns how many of the file's first bytes are in use; 0 means all.
    [[nodiscard]] size_t span_in_file(size_t span) const { return kind == "file" ? span : 0; }
};

template <FILE *Files::*stream>
void rewind_stream(const Files &files) {
    checked(fseeko(files.*stream, 0, SEEK_SET), "fseeko");
}

template <FILE *Files::*stream>
void flush_stream(const Files &files) {
    if (fflush(files.*stream) != 0) die("fflush failed: {}", std::strerror(errno));
}

const std::array file_methods = {
    Method{"alone", "file", Role::alone, "pread into host memory without a device",
           "pwrite from host memory without a device", &Files::alone,
           [](const Ends &ends, const Part &part) {
               read_all(ends.files.alone, ends.host + part.place, part.size, part.place);
           },
           [](const Ends &ends, const Part &part) {
               write_all(ends.files.alone, ends.host + part.place, part.size, part.place);
           }},
    Method{"serial", "file", Role::serial,
           "fread into memory from malloc, blocking clEnqueueWriteBuffer",
           "blocking clEnqueueReadBuffer into memory from malloc, fwrite, fflush at the end",
           &Files::serial_fd,
           [](const Ends &ends, const Part &part) {
               if (fread(ends.host, 1, part.size, ends.files.serial) != part.size)
                   die("fread failed");
               write_buffer(ends, part.place, part.size, ends.host);
           },
           [](const Ends &ends, const Part &part) {
               read_buffer(ends, part.place, part.size, ends.host);
               if (fwrite(ends.host, 1, part.size, ends.files.serial) != part.size)
                   die("fwrite failed");
           },
           rewind_stream<&Files::serial>, flush_stream<&Files::serial>},
    Method{"stdio", "file", Role::command, "clEnqueueWriteBufferFromStdioFile",
           "clEnqueueReadBufferToStdioFile, fflush at the end", &Files::stdio_fd,
           [](const Ends &ends, const Part &part) {
               check(clEnqueueWriteBufferFromStdioFile(ends.queue, ends.buffer, part.blocking,
                                                       part.place, part.size, ends.files.stdio, 0,
                                                       nullptr, part.event),
                     "clEnqueueWriteBufferFromStdioFile");
           },
           [](const Ends &ends, const Part &part) {
               check(clEnqueueReadBufferToStdioFile(ends.queue, ends.buffer, part.blocking,
                                                    part.place, part.size, ends.files.stdio, 0,
                                                    nullptr, part.event),
                     "clEnqueueReadBufferToStdioFile");
           },
           rewind_stream<&Files::stdio>, flush_stream<&Files::stdio>},
    Method{"fd", "file", Role::command, "clEnqueueWriteBufferFromFile", "clEnqueueReadBufferToFile",
           &Files::fd,
           [](const Ends &ends, const Part &part) {
               check(clEnqueueWriteBufferFromFile(ends.queue, ends.buffer, part.blocking,
                                                  part.place, part.size, ends.files.fd,
                                                  part.file_place(), 0, nullptr, part.event),
                     "clEnqueueWriteBufferFromFile");
           },
           [](const Ends &ends, const Part &part) {
               check(clEnqueueReadBufferToFile(ends.queue, ends.buffer, part.blocking, part.place,
                                               part.size, ends.files.fd, part.file_place(), 0,
                                               nullptr, part.event),
                     "clEnqueueReadBufferToFile");
           }},
};

#if CLDIST_HAS_HDF5
hid_t file_space(const Ends &ends, const Part &part) {
    return ends.file_spaces[part.place / part.size];
}

template <hid_t Files::*dataset>
void hdf5_read(const Ends &ends, const Part &part, char *to) {
    checked(H5Dread(ends.files.*dataset, H5T_NATIVE_UINT, ends.memory_space, file_space(ends, part),
                    H5P_DEFAULT, to),
            "H5Dread");
}

template <hid_t Files::*dataset>
void hdf5_write(const Ends &ends, const Part &part, const char *from) {
    checked(H5Dwrite(ends.files.*dataset, H5T_NATIVE_UINT, ends.memory_space,
                     file_space(ends, part), H5P_DEFAULT, from),
            "H5Dwrite");
}

void hdf5_flush(const Files &files) { checked(H5Fflush(files.hdf5, H5F_SCOPE_LOCAL), "H5Fflush"); }

template <hid_t Files::*dataset>
std::array<Method, 3> hdf5_methods(std::string_view kind, std::string_view command_name) {
    return {
        Method{"alone", kind, Role::alone, "H5Dread into host memory without a device",
               "H5Dwrite from host memory without a device, H5Fflush at the end", &Files::hdf5_fd,
               [](const Ends &ends, const Part &part) {
                   hdf5_read<dataset>(ends, part, ends.host + part.place);
               },
               [](const Ends &ends, const Part &part) {
                   hdf5_write<dataset>(ends, part, ends.host + part.place);
               },
               [](const Files &) {}, hdf5_flush},
        Method{
            "serial", kind, Role::serial,
            "H5Dread into memory from malloc, blocking clEnqueueWriteBuffer",
            "blocking clEnqueueReadBuffer into memory from malloc, H5Dwrite, H5Fflush at the end",
            &Files::hdf5_fd,
            [](const Ends &ends, const Part &part) {
                hdf5_read<dataset>(ends, part, ends.host);
                write_buffer(ends, part.place, part.size, ends.host);
            },
            [](const Ends &ends, const Part &part) {
                read_buffer(ends, part.place, part.size, ends.host);
                hdf5_write<dataset>(ends, part, ends.host);
            },
            [](const Files &) {}, hdf5_flush},
        Method{command_name, kind, Role::command, "clEnqueueWriteBufferFromHDF5Dataset",
               "clEnqueueReadBufferToHDF5Dataset, H5Fflush at the end", &Files::hdf5_fd,
               [](const Ends &ends, const Part &part) {
                   check(clEnqueueWriteBufferFromHDF5Dataset(
                             ends.queue, ends.buffer, part.blocking, part.place,
                             ends.files.*dataset, H5T_NATIVE_UINT, file_space(ends, part),
                             H5P_DEFAULT, 0, nullptr, part.event),
                         "clEnqueueWriteBufferFromHDF5Dataset");
               },
               [](const Ends &ends, const Part &part) {
                   check(clEnqueueReadBufferToHDF5Dataset(ends.queue, ends.buffer, part.blocking,
                                                          part.place, ends.files.*dataset,
                                                          H5T_NATIVE_UINT, file_space(ends, part),
                                                          H5P_DEFAULT, 0, nullptr, part.event),
                         "clEnqueueReadBufferToHDF5Dataset");
               },
               [](const Files &) {}, hdf5_flush},
    };
}
#endif

std::vector<Method> all_methods() {
    std::vector<Method> all(file_methods.begin(), file_methods.end());
#if CLDIST_HAS_HDF5
    for (const auto &some : {hdf5_methods<&Files::contiguous>("HDF5, contiguous", "hdf5"),
                             hdf5_methods<&Files::chunked>("HDF5, chunked", "hdf5-chunked")}) {
        all.insert(all.end(), some.begin(), some.end());
    }
#endif
    return all;
}

struct Options : CommonOptions {
    size_t min = smallest, max = largest;
    size_t stream = 64u << 20;  ///< bytes that a stream of commands moves
    int rounds = 7;
    double budget = 0.02;  ///< seconds per timed loop of blocking commands
    std::string folder = "/tmp";
    std::string only;  ///< "cached", "dropped", or empty for both
    std::vector<Method> methods{};

    [[nodiscard]] size_t index_of(std::string_view kind, Role role) const {
        const auto found = std::find_if(methods.begin(), methods.end(), [&](const Method &m) {
            return m.kind == kind && m.role == role;
        });
        return static_cast<size_t>(found - methods.begin());
    }
};

// ---- Measuring --------------------------------------------------------------------------------

/// A timed loop of `count` commands of `size` bytes. With `stream`, they are non-blocking and
/// access consecutive parts of the file. Otherwise they are blocking and access the first bytes.
struct Case {
    Direction direction;
    State state;
    bool stream;
    size_t size;
    size_t count;

    [[nodiscard]] size_t span() const { return stream ? size * count : size; }
};

/// The result of a case. `seconds`: per command, for each method one value per round; none if the
/// data was wrong.
struct Row {
    Case what;
    std::vector<std::vector<double>> seconds;
    std::vector<std::string> paths;
    /// For each method, the fraction of cached pages: at the start, or the largest after dropping.
    std::vector<double> cached;
};

class Bench {
public:
    Bench(const Options &options, const Device &device, Dropper &dropper, const Files &files)
        : options_(options),
          methods_(options.methods),
          dropper_(dropper),
          host_(host_memory(options.max)),
          pattern_(host_memory(options.max + spare_bytes)),
          ends_{files, device.queue(), device.buffer(options.max), host_.get()} {
        auto *words = reinterpret_cast<uint64_t *>(pattern_.get());
        for (size_t i = 0; i < (options.max + spare_bytes) / sizeof *words; ++i)
            words[i] = i * 0x9e3779b97f4a7c15u;
        select({Direction::out, State::cached, false, options.max, 1});
        for (const Method &method : methods_) {
            if (method.role == Role::alone) write_expected(method, options.max);
        }
    }
    Bench(const Bench &) = delete;
    Bench &operator=(const Bench &) = delete;
    ~Bench() {
        select({});
        clReleaseMemObject(ends_.buffer);
        clReleaseCommandQueue(ends_.queue);
    }

    Row measure(const Case &what) {
        const size_t count = methods_.size();
        Row row{what, std::vector<std::vector<double>>(count), std::vector<std::string>(count),
                std::vector<double>(count)};
        // Fills the range of the case with known data in one piece.
        Case whole = what;
        whole.size = what.span();
        select(whole);
        for (const Method &method : methods_) {
            if (method.role == Role::alone) write_expected(method, what.span());
        }
        select(what);
        std::vector<size_t> counts;
        for (size_t m = 0; m < count; ++m) {
            row.paths[m] = warm_up(methods_[m], what);
            counts.push_back(calibrate(methods_[m], what));
            if (what.state == State::cached)
                row.cached[m] = cached_share(methods_[m].fd_of(ends_.files),
                                             methods_[m].span_in_file(what.span()));
        }
        std::vector<bool> wrong(count, false);
        const int rounds = what.span() <= 1u << 20 ? 3 * options_.rounds : options_.rounds;
        for (int round = 0; round < rounds; ++round) {
            for (size_t turn = 0; turn < count; ++turn) {
                const size_t m = (turn + static_cast<size_t>(round)) % count;
                if (wrong[m]) continue;
                Case loop = what;
                loop.count = counts[m];
                const double left = prepare(methods_[m], loop);
                if (what.state == State::dropped) row.cached[m] = std::max(row.cached[m], left);
                row.seconds[m].push_back(timed(methods_[m], loop) /
                                         static_cast<double>(loop.count));
                if (arrived(methods_[m], loop)) continue;
                fmt::print(stderr, "{}, {} ({}): wrong data in round {}\n", size_name(what.size),
                           methods_[m].name, methods_[m].kind, round);
                wrong[m] = true;
                row.seconds[m].clear();
            }
        }
        return row;
    }

private:
    [[nodiscard]] const char *expected(int shift) const {
        return pattern_.get() + static_cast<size_t>(shift) * sizeof(uint64_t);
    }

    /// Creates the dataspaces for the parts of a case, outside the timed loop.
    void select([[maybe_unused]] const Case &what) {
#if CLDIST_HAS_HDF5
        for (const hid_t space : ends_.file_spaces) H5Sclose(space);
        ends_.file_spaces.clear();
        if (ends_.memory_space != H5I_INVALID_HID)
            H5Sclose(std::exchange(ends_.memory_space, H5I_INVALID_HID));
        if (what.size == 0) return;
        const hsize_t elements = what.size / sizeof(cl_uint);
        ends_.memory_space = checked(H5Screate_simple(1, &elements, nullptr), "H5Screate_simple");
        for (size_t i = 0; i < (what.stream ? what.count : 1); ++i) {
            const hsize_t first = i * elements;
            ends_.file_spaces.push_back(
                checked(H5Dget_space(ends_.files.contiguous), "H5Dget_space"));
            checked(H5Sselect_hyperslab(ends_.file_spaces.back(), H5S_SELECT_SET, &first, nullptr,
                                        &elements, nullptr),
                    "H5Sselect_hyperslab");
        }
#endif
    }

    void write_expected(const Method &method, size_t size) {
        std::memcpy(ends_.host, expected(0), size);
        method.out(ends_, {0, size, CL_TRUE, nullptr});
        method.flush(ends_.files);
        checked(fdatasync(method.fd_of(ends_.files)), "fdatasync");
    }

    /// Executes the method once, which pages in the memory. Returns a command's path.
    std::string warm_up(const Method &method, const Case &what) {
        cl_event event = nullptr;
        method.rewind(ends_.files);
        move(method, what,
             {0, what.size, CL_TRUE, method.role == Role::command ? &event : nullptr});
        finish(method, what);
        if (!event) return {};
        char path[64] = "?";
        clGetTransferInfo(event, CL_TRANSFER_PATH, sizeof path, path, nullptr);
        cl_bool direct = CL_FALSE;
        clGetTransferInfo(event, CL_TRANSFER_DIRECT_IO, sizeof direct, &direct, nullptr);
        clReleaseEvent(event);
        return fmt::format("{}{}", path, direct != CL_FALSE ? ", direct" : "");
    }

    /// Returns the number of blocking commands that fill the budget; with a dropped cache only one,
    /// because the next one would find its data in the cache.
    size_t calibrate(const Method &method, const Case &what) {
        if (what.stream || what.state == State::dropped) return what.count;
        const double seconds = timed(method, what);
        return static_cast<size_t>(std::clamp(options_.budget / seconds, 1.0, 1000.0));
    }

    void move(const Method &method, const Case &what, const Part &part) const {
        (what.direction == Direction::in ? method.in : method.out)(ends_, part);
    }

    /// Waits until all commands are complete and the system has their bytes; with a dropped cache,
    /// until the bytes are on the disk.
    void finish(const Method &method, const Case &what) const {
        if (what.stream && method.role == Role::command) check(clFinish(ends_.queue), "clFinish");
        if (what.direction == Direction::in) return;
        method.flush(ends_.files);
        if (what.state == State::dropped)
            checked(fdatasync(method.fd_of(ends_.files)), "fdatasync");
    }

    double timed(const Method &method, const Case &loop) const {
        const double start = now();
        for (size_t i = 0; i < loop.count; ++i) {
            if (!loop.stream || i == 0) method.rewind(ends_.files);
            move(method, loop, {loop.stream ? i * loop.size : 0, loop.size, !loop.stream, nullptr});
        }
        finish(method, loop);
        return now() - start;
    }

    /// Overwrites the target with other data and prepares the page cache. Returns the fraction that
    /// is still cached after dropping.
    double prepare(const Method &method, const Case &loop) {
        const uint64_t other = 0xA5A5A5A5A5A5A5A5u;
        std::memset(ends_.host, 0xA5, loop.span());
        check(clEnqueueFillBuffer(ends_.queue, ends_.buffer, &other, sizeof other, 0, loop.span(),
                                  0, nullptr, nullptr),
              "clEnqueueFillBuffer");
        check(clFinish(ends_.queue), "clFinish");
        method.flush(ends_.files);  // discards old data that a stream has read ahead
        if (loop.direction == Direction::out) {
            shift_ = shift_ % (most_shifts - 1) + 1;
            if (method.role == Role::alone) {
                std::memcpy(ends_.host, expected(shift_), loop.span());
            } else {
                write_buffer(ends_, 0, loop.span(), expected(shift_));
            }
        }
        const int fd = method.fd_of(ends_.files);
        if (loop.state == State::dropped)
            return dropper_.drop(fd, method.span_in_file(loop.span()));
        if (loop.direction == Direction::out) checked(fdatasync(fd), "fdatasync");
        return 0;
    }

    /// Checks every byte of the target.
    [[nodiscard]] bool arrived(const Method &method, const Case &loop) const {
        const bool in = loop.direction == Direction::in;
        if (in && method.role != Role::alone) read_buffer(ends_, 0, loop.span(), ends_.host);
        if (!in) {
            const Method &alone = methods_[options_.index_of(method.kind, Role::alone)];
            for (size_t i = 0; i < (loop.stream ? loop.count : 1); ++i)
                alone.in(ends_, {i * loop.size, loop.size, CL_TRUE, nullptr});
        }
        return std::memcmp(ends_.host, expected(in ? 0 : shift_), loop.span()) == 0;
    }

    const Options &options_;
    const std::vector<Method> &methods_;
    Dropper &dropper_;
    HostMemory host_, pattern_;
    Ends ends_;
    int shift_ = 0;  ///< argument of expected() for the data that was written last
};

// ---- Tables -----------------------------------------------------------------------------------

std::string_view name_of(Direction direction) {
    return direction == Direction::in ? "file → device" : "device → file";
}
std::string_view name_of(State state) {
    return state == State::cached ? "cached" : "dropped caches";
}
std::string_view kind_of(const Case &what) { return what.stream ? "stream" : "blocking"; }

std::string ms(double seconds) {
    return fmt::format("{:.{}f}", seconds * 1e3, seconds < 1e-3 ? 4 : seconds < 0.1 ? 2 : 1);
}

void print_head(const Options &options, const Case &what) {
    const std::string_view alone = what.direction == Direction::in ? "read" : "write";
    fmt::print("### {}, {}, {}\n\n", name_of(what.direction), name_of(what.state),
               what.stream ? fmt::format("{} in non-blocking commands, one clFinish",
                                         size_name(options.stream))
                           : "one blocking command");
    fmt::print(
        "| size | command | path | cached | {0} alone, ms | serial, ms | command, ms | GB/s | of "
        "{0} alone | "
        "× serial |\n|---:|---|---|---:|---:|---:|---:|---:|---:|---:|\n",
        alone);
}

void print_row(const Options &options, const Row &row, size_t m, Report &report) {
    const Case &what = row.what;
    const Method &method = options.methods[m];
    const auto &seconds = row.seconds[m];
    const auto &alone = row.seconds[options.index_of(method.kind, Role::alone)];
    const auto &serial = row.seconds[options.index_of(method.kind, Role::serial)];
    fmt::print("| {} | {} | {} | {:.0f} % |", size_name(what.size), method.name, row.paths[m],
               row.cached[m] * 100);
    if (seconds.empty() || alone.empty() || serial.empty()) {
        fmt::print(" wrong |\n");
        return;
    }
    const double of_alone = median_ratio(alone, seconds);
    const double times_serial = median_ratio(serial, seconds);
    fmt::print(" {} | {} | {} | {:.2f} | {:.2f} | {:.2f} |\n", ms(median(alone)),
               ms(median(serial)), ms(median(seconds)),
               static_cast<double>(what.size) / median(seconds) / 1e9, of_alone, times_serial);
    const std::string name =
        fmt::format("file {}, {}, {}, {}, {}, {}", options.label, name_of(what.direction),
                    name_of(what.state), kind_of(what), size_name(what.size), method.name);
    const std::string_view alone_name =
        what.direction == Direction::in ? "read alone" : "write alone";
    report.ratio(fmt::format("{} : {}", name, alone_name), of_alone, true);
    report.ratio(name + " : serial", times_serial, true);
}

void print_rows(const Options &options, const Row &row, Report &report) {
    const Case &what = row.what;
    for (size_t m = 0; m < options.methods.size(); ++m) {
        const Method &method = options.methods[m];
        if (method.role == Role::command) print_row(options, row, m, report);
        std::vector<std::string> us;
        for (const double value : row.seconds[m]) us.push_back(fmt::format("{:.3f}", value * 1e6));
        report.rows.push_back(fmt::format(
            R"({{"direction": {}, "state": {}, "kind": {}, "size": {}, "file": {}, "method": {}, "path": {}, )"
            R"("cached": {:.4f}, "us": [{}]}})",
            json_text(name_of(what.direction)), json_text(name_of(what.state)),
            json_text(kind_of(what)), what.size, json_text(method.kind), json_text(method.name),
            json_text(row.paths[m]), row.cached[m], fmt::join(us, ", ")));
    }
    std::fflush(stdout);
}

void print_methods(const Options &options) {
    fmt::print(
        "Times are per command, medians of {} rounds (up to 1 MiB {}). Every byte was checked.\n\n",
        options.rounds, 3 * options.rounds);
    for (const Method &method : options.methods)
        fmt::print("- {}, {}: {}; {}\n", method.kind, method.name, method.in_what, method.out_what);
    fmt::print(
        "- device → file overwrites an existing file. Cached: its pages are clean in the page "
        "cache, and the time "
        "ends when the bytes are there. Dropped: its pages are not cached, and the time ends after "
        "fdatasync.\n");
#if CLDIST_HAS_HDF5
    fmt::print(
        "- HDF5: cl_uint without conversion, chunks of {}, without HDF5's own data caches.\n",
        size_name(hdf5_chunk));
#endif
    fmt::print("\n");
}

// ---- Arguments and the machine ----------------------------------------------------------------

std::string command_names(const std::vector<Method> &methods) {
    std::vector<std::string_view> names;
    for (const Method &method : methods) {
        if (method.role == Role::command) names.push_back(method.name);
    }
    return fmt::format("{}", fmt::join(names, ","));
}

[[noreturn]] void usage(int code) {
    fmt::print(
        "usage: file [options]\n"
        "  --min SIZE, --max SIZE   64K to 1G; sizes are 64K, 256K, 1M, ... 1G; less if disk or "
        "memory is too small\n"
        "  --stream SIZE      bytes of a stream of non-blocking commands (64M)\n"
        "  --rounds N         rounds (7), whose median is printed; three times as many up to 1 "
        "MiB\n"
        "  --budget MS        time of a timed loop of blocking commands (20)\n"
        "  --folder PATH      folder of the file (TMPDIR, or /tmp); "
        "it needs free space for the largest size{}\n"
        "  --only STATE       measure only cached or dropped (both)\n"
        "  --methods A,B      measure only these commands of {} (all)\n"
        "{}",
        file_count > 1 ? fmt::format(", {} times", file_count) : "", command_names(all_methods()),
        common_usage);
    std::exit(code);
}

/// Keeps the listed commands and the methods with which they are compared.
void choose_methods(std::vector<Method> &methods, std::string_view names) {
    const std::string all = command_names(methods);
    std::vector<Method> chosen;
    while (!names.empty()) {
        const std::string_view name = names.substr(0, names.find(','));
        names.remove_prefix(std::min(names.size(), name.size() + 1));
        const auto found =
            std::find_if(methods.begin(), methods.end(), [&](auto &m) { return m.name == name; });
        if (found == methods.end() || found->role != Role::command)
            die("unknown command '{}'; commands: {}", name, all);
        for (const Method &method : methods) {
            const bool there = std::any_of(chosen.begin(), chosen.end(), [&](const Method &other) {
                return other.kind == method.kind && other.name == method.name;
            });
            const bool compared = method.kind == found->kind && method.role != Role::command;
            if (!there && (compared || method.name == name)) chosen.push_back(method);
        }
    }
    methods = chosen;
}

Options parse(int argc, char **argv) {
    const std::vector<option> own{{"min", 1, nullptr, 'i'},    {"max", 1, nullptr, 'a'},
                                  {"stream", 1, nullptr, 's'}, {"rounds", 1, nullptr, 'r'},
                                  {"budget", 1, nullptr, 'b'}, {"folder", 1, nullptr, 'f'},
                                  {"only", 1, nullptr, 'o'},   {"methods", 1, nullptr, 'm'}};
    Options options;
    options.methods = all_methods();
    if (const char *folder = std::getenv("TMPDIR")) options.folder = folder;
    parse_options(argc, argv, options, own, usage, [&](int letter) {
        switch (letter) {
            case 'i': options.min = parse_size(optarg); break;
            case 'a': options.max = std::min(parse_size(optarg), largest); break;
            case 's': options.stream = parse_size(optarg); break;
            case 'r': options.rounds = std::max(1, std::atoi(optarg)); break;
            case 'b': options.budget = std::atof(optarg) / 1e3; break;
            case 'f': options.folder = optarg; break;
            case 'o': options.only = optarg; break;
            case 'm': choose_methods(options.methods, optarg); break;
        }
    });
    if (!options.only.empty() && options.only != "cached" && options.only != "dropped")
        die("state '{}' is neither cached nor dropped", options.only);
    return options;
}

/// Returns how many bytes of memory are available without swapping.
size_t available_memory() {
    std::ifstream meminfo("/proc/meminfo");
    for (std::string line; std::getline(meminfo, line);) {
        if (line.rfind("MemAvailable:", 0) == 0)
            return std::strtoull(line.c_str() + 13, nullptr, 10) << 10;
    }
    return 0;
}

size_t available_disk(const std::string &folder) {
    struct statvfs disk {};
    if (statvfs(folder.c_str(), &disk) != 0) die("--folder {}: {}", folder, std::strerror(errno));
    return disk.f_bavail * disk.f_frsize;
}

/// Returns the file system of the folder, such as "ext4, /dev/sda1".
std::string file_system(int fd) {
    struct stat at {};
    checked(fstat(fd, &at), "fstat");
    const std::string device = fmt::format(" {}:{} ", major(at.st_dev), minor(at.st_dev));
    std::ifstream mounts("/proc/self/mountinfo");
    for (std::string line; std::getline(mounts, line);) {
        const size_t type = line.find(" - ");
        if (line.find(device) > type || type == std::string::npos) continue;
        std::istringstream rest(line.substr(type + 3));
        std::string name, source;
        rest >> name >> source;
        return fmt::format("{}, {}", name, source);
    }
    return "unknown";
}

/// Limits the largest size to the space on disk, in memory and on the device. Returns the limiting
/// resource, or an empty text.
std::string fit(Options &options, const Device &device) {
    cl_ulong most = 0;
    check(clGetDeviceInfo(device.id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof most, &most, nullptr),
          "clGetDeviceInfo");
    std::string shortage;
    const auto limit = [&](size_t bytes, std::string_view what) {
        if (options.max <= bytes) return;
        options.max = bytes;
        shortage = fmt::format("{} ({} has no space for more)", size_name(bytes), what);
    };
    limit(available_disk(options.folder) / 10 * 9 / file_count, "the folder");
    // two copies on the host, one on the device, the page cache, and a reserve
    limit(available_memory() / (4 + file_count), "memory");
    limit(most, "the device");
    if (options.max < std::max(options.min, smallest))
        die("no size to measure: the largest is {}",
            shortage.empty() ? size_name(options.max) : shortage);
    options.stream = std::min(options.stream, options.max);
    return shortage;
}

}  // namespace

int main(int argc, char **argv) {
    Options options = parse(argc, argv);
    const Device device(device_type(options.device));
    const std::string shortage = fit(options, device);
    const Files files(options.folder, options.max);
    write_all(files.alone, std::string(Dropper::try_bytes, 'x').data(), Dropper::try_bytes, 0);
    Dropper dropper(files.alone);

    Report report{"file", options.label};
    report.collect_facts(device);
    report.facts.emplace_back("command", fmt::format("{}", fmt::join(argv, argv + argc, " ")));
    const char *direct = std::getenv("CLDIST_DIRECT_IO");
    report.facts.emplace_back("CLDIST_DIRECT_IO", direct ? direct : "not set");
    report.facts.emplace_back("folder",
                              fmt::format("{} ({})", options.folder, file_system(files.alone)));
    report.facts.emplace_back(
        "caches dropped by",
        fmt::format("{}{}", dropper.how(),
                    dropper.works() ? "" : ": skipped, the pages stayed in the cache"));
    if (!shortage.empty()) report.facts.emplace_back("largest size", shortage);
    fmt::print("## file: between file and device, {}\n\n", options.label);
    report.print_facts();
    print_methods(options);

    int wrong = 0;
    Bench bench(options, device, dropper, files);
    for (const State state : {State::cached, State::dropped}) {
        if (!options.only.empty() && (options.only == "cached") != (state == State::cached))
            continue;
        if (state == State::dropped && !dropper.works()) continue;
        for (const Direction direction : {Direction::in, Direction::out}) {
            for (const bool stream : {false, true}) {
                print_head(options, {direction, state, stream, 0, 0});
                for (size_t size = smallest; size <= largest; size *= 4) {
                    if (size < options.min || size > (stream ? options.stream : options.max))
                        continue;
                    const Row row = bench.measure(
                        {direction, state, stream, size, stream ? options.stream / size : 1});
                    print_rows(options, row, report);
                    for (const auto &seconds : row.seconds) wrong += seconds.empty();
                }
                fmt::print("\n");
            }
        }
    }
    if (!options.json.empty()) report.write_json(options.json);
    return wrong ? 1 : 0;
}
