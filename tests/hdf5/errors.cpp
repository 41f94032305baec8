/// Arguments that dataset commands refuse, and the effects of failed commands.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>

#include "datasets.hpp"

using namespace cldist_test;

namespace {

constexpr hsize_t rows = 200;
constexpr hsize_t columns = 50;
constexpr std::size_t size = rows * columns * sizeof(int);

/// The arguments of a call. Initially all are valid.
struct call {
    cl_command_queue queue;
    cl_mem buffer;
    std::size_t offset = 0;
    dataset_access dataset{};
    cl_bool blocking = CL_FALSE;
    cl_uint number = 0;
    const cl_event *events = nullptr;
};

struct bench {
    bench()
        : queue(cl.in_order_queue()),
          buffer(cl.filled(size, 1)),
          file(kept.create()),
          dataset(make_dataset(file, "x", H5T_NATIVE_INT, {rows, columns})) {
        write_selected(dataset, H5T_NATIVE_INT, H5S_ALL, pattern(2, size));
    }

    [[nodiscard]] call good() const {
        call c{};
        c.queue = queue;
        c.buffer = buffer;
        c.dataset = {dataset, H5T_NATIVE_INT};
        return c;
    }

    static cl_int issue(bool writes, const call &c, cl_event *event) {
        const auto function =
            writes ? clEnqueueReadBufferToHDF5Dataset : clEnqueueWriteBufferFromHDF5Dataset;
        return function(c.queue, c.buffer, c.blocking, c.offset, c.dataset.dataset, c.dataset.type,
                        c.dataset.selection, c.dataset.list, c.number, c.events, event);
    }

    /// Checks that reads and writes, blocking or not, fail with `code` without side effects.
    void refuse(const call &bad, cl_int code,
                std::initializer_list<bool> ways = {false, true}) const {
        for (const bool writes : ways) {
            for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
                CAPTURE(writes);
                CAPTURE(blocking);
                call c = bad;
                c.blocking = blocking;
                cl_event event = nullptr;
                CHECK(issue(writes, c, &event) == code);
                CHECK(event == nullptr);
            }
        }
    }

    void expect_untouched() const {
        CHECK(content(dataset) == pattern(2, size));
        cl.expect(buffer, 0, size, 1);
    }

    opencl cl;
    queue_handle queue;
    buffer_handle buffer;
    temporary_file kept;
    hid file;
    hid dataset;
};

hid part(hsize_t first, hsize_t count, hsize_t all = rows) {
    hid made = space({all, columns});
    const hsize_t start[] = {first, 0};
    const hsize_t counts[] = {count, columns};
    H5_OK(H5Sselect_hyperslab(made, H5S_SELECT_SET, start, nullptr, counts, nullptr));
    return made;
}

/// Captures standard error during its life.
class captured_errors {
public:
    captured_errors() : before(::dup(2)), file(std::tmpfile()) {
        std::fflush(stderr);
        ::dup2(::fileno(file), 2);
    }
    captured_errors(const captured_errors &) = delete;
    captured_errors &operator=(const captured_errors &) = delete;
    ~captured_errors() {
        restore();
        ::close(before);
        std::fclose(file);
    }
    std::string text() {
        restore();
        std::rewind(file);
        std::string all;
        for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) {
            all.push_back(static_cast<char>(c));
        }
        return all;
    }

private:
    void restore() const {
        std::fflush(stderr);
        ::dup2(before, 2);
    }
    int before;
    std::FILE *file;
};

/// A dataset in 20 chunks of 10 rows, compressed (deflate) and with checksums.
hid filtered(hid_t file, const char *name) {
    const hid creation(H5Pcreate(H5P_DATASET_CREATE));
    const hsize_t chunk[] = {10, columns};
    H5_OK(H5Pset_chunk(creation, 2, chunk));
    H5_OK(H5Pset_deflate(creation, 6));
    H5_OK(H5Pset_fletcher32(creation));
    hid made = make_dataset(file, name, H5T_NATIVE_INT, {rows, columns}, creation);
    write_selected(made, H5T_NATIVE_INT, H5S_ALL, pattern(6, size));
    return made;
}

/// Inverts a byte in the middle of the stored chunk that begins with `row`.
void damage(const temporary_file &kept, hsize_t row) {
    haddr_t address = HADDR_UNDEF;
    hsize_t bytes_there = 0;
    {
        const hid file = kept.open(H5F_ACC_RDONLY);
        const hid dataset(H5Dopen2(file, "filtered", H5P_DEFAULT));
        const hsize_t at[] = {row, 0};
        unsigned mask = 0;
        H5_OK(H5Dget_chunk_info_by_coord(dataset, at, &mask, &address, &bytes_there));
    }
    REQUIRE(address != HADDR_UNDEF);
    const int fd = ::open(kept.name(), O_RDWR);
    unsigned char byte = 0;
    const auto position = static_cast<off_t>(address + bytes_there / 2);
    REQUIRE(::pread(fd, &byte, 1, position) == 1);
    byte = static_cast<unsigned char>(~byte);
    REQUIRE(::pwrite(fd, &byte, 1, position) == 1);
    ::close(fd);
}

}  // namespace

MPI_CASE("invalid arguments are refused", 1) {
    const bench b;
    call c = b.good();
    c.queue = nullptr;
    b.refuse(c, CL_INVALID_COMMAND_QUEUE);
    c = b.good();
    c.buffer = nullptr;
    b.refuse(c, CL_INVALID_MEM_OBJECT);
    c = b.good();
    c.number = 1;
    b.refuse(c, CL_INVALID_EVENT_WAIT_LIST);
    for (const hid_t id :
         {static_cast<hid_t>(-1), static_cast<hid_t>(b.file), static_cast<hid_t>(H5T_NATIVE_INT)}) {
        c = b.good();
        c.dataset.dataset = id;
        b.refuse(c, CL_INVALID_VALUE);
    }
    for (const hid_t id : {static_cast<hid_t>(-1), static_cast<hid_t>(b.dataset)}) {
        c = b.good();
        c.dataset.type = id;
        b.refuse(c, CL_INVALID_VALUE);
        c = b.good();
        c.dataset.selection = id;
        b.refuse(c, CL_INVALID_VALUE);
        c = b.good();
        c.dataset.list = id;
        b.refuse(c, CL_INVALID_VALUE);
    }
    const hid creation(H5Pcreate(H5P_DATASET_CREATE));
    c = b.good();
    c.dataset.list = creation;
    b.refuse(c, CL_INVALID_VALUE);
    b.expect_untouched();
}

MPI_CASE("a buffer, event or queue of another context is refused", 1) {
    const bench b;
    const opencl other(opencl::of::its_own);
    const queue_handle queue = other.in_order_queue();
    const buffer_handle foreign = other.buffer(size);
    const buffer_handle part = other.sub_buffer(foreign, 0, size);
    const event_handle own_event = b.cl.user_event();
    const event_handle foreign_event = other.user_event();
    const cl_event list[] = {own_event, foreign_event};
    call c = b.good();
    c.queue = queue;
    b.refuse(c, CL_INVALID_CONTEXT);
    for (cl_mem buffer : {foreign.get(), part.get()}) {
        c = b.good();
        c.buffer = buffer;
        b.refuse(c, CL_INVALID_CONTEXT);
    }
    c = b.good();
    c.number = 2;
    c.events = list;
    b.refuse(c, CL_INVALID_CONTEXT);
    CL_OK(clSetUserEventStatus(own_event, CL_COMPLETE));
    CL_OK(clSetUserEventStatus(foreign_event, CL_COMPLETE));
    b.expect_untouched();
}

MPI_CASE(
    "queue, buffer and wait list are checked before the dataset, and the size of the selection "
    "after it",
    1) {
    const bench b;
    const opencl other(opencl::of::its_own);
    const buffer_handle foreign = other.buffer(size);
    const hid text(H5Tcopy(H5T_C_S1));
    call bad = b.good();
    bad.dataset.type = text;
    call c = bad;
    c.buffer = foreign;
    b.refuse(c, CL_INVALID_CONTEXT);
    c = bad;
    c.number = 1;
    b.refuse(c, CL_INVALID_EVENT_WAIT_LIST);
    c.dataset.type = H5T_NATIVE_INT;
    c.offset = 4;
    b.refuse(c, CL_INVALID_EVENT_WAIT_LIST);
    b.expect_untouched();
}

MPI_CASE("types that can't be converted or that contain pointers are refused", 1) {
    const bench b;
    const hid text(H5Tcopy(H5T_C_S1));
    call c = b.good();
    c.dataset.type = text;
    b.refuse(c, CL_INVALID_VALUE);

    hid string(H5Tcopy(H5T_C_S1));
    H5_OK(H5Tset_size(string, H5T_VARIABLE));
    const hid list(H5Tvlen_create(H5T_NATIVE_INT));
    const hsize_t two = 2;
    const hid lists(H5Tarray_create2(list, 1, &two));
    const hid member(H5Tcreate(H5T_COMPOUND, sizeof(void *)));
    H5_OK(H5Tinsert(member, "s", 0, string));
    int number = 0;
    for (const hid_t type : {static_cast<hid_t>(string), static_cast<hid_t>(list),
                             static_cast<hid_t>(lists), static_cast<hid_t>(member)}) {
        CAPTURE(number);
        const hid dataset =
            make_dataset(b.file, ("pointers" + std::to_string(number++)).c_str(), type, {3});
        c = b.good();
        c.dataset = {dataset, type};
        b.refuse(c, CL_INVALID_VALUE);
    }
    b.expect_untouched();
}

MPI_CASE("selections that don't fit the dataset are refused", 1) {
    const bench b;
    const hid flat = space({rows * columns});
    const hid larger = part(0, rows, rows + 1);
    const hid beyond = [] {
        hid made = part(1, rows - 1);
        const hssize_t offset[] = {2, 0};
        H5_OK(H5Soffset_simple(made, offset));
        return made;
    }();
    const hid unlimited = [] {
        hid made = space({rows, columns});
        const hsize_t start[] = {0, 0};
        const hsize_t count[] = {H5S_UNLIMITED, 1};
        const hsize_t block[] = {1, columns};
        H5_OK(H5Sselect_hyperslab(made, H5S_SELECT_SET, start, nullptr, count, block));
        return made;
    }();
    int number = 0;
    for (const hid *selection : {&flat, &larger, &beyond, &unlimited}) {
        CAPTURE(number++);
        call c = b.good();
        c.dataset.selection = *selection;
        b.refuse(c, CL_INVALID_VALUE);
    }
    b.expect_untouched();
}

MPI_CASE("a buffer that is too small for the selection is refused, and the file can be closed", 1) {
    bench b;
    call c = b.good();
    c.offset = 4;
    b.refuse(c, CL_INVALID_VALUE);
    c.dataset.type = H5T_NATIVE_DOUBLE;
    c.offset = 0;
    b.refuse(c, CL_INVALID_VALUE);
    b.expect_untouched();
    b.dataset.close();
    b.file.close();
    CHECK(H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL) == 0);
}

MPI_CASE("a file opened for reading can be read but not written", 1) {
    bench b;
    b.dataset.close();
    b.file.close();
    b.file = b.kept.open(H5F_ACC_RDONLY);
    b.dataset = hid(H5Dopen2(b.file, "x", H5P_DEFAULT));
    b.refuse(b.good(), CL_INVALID_VALUE, {true});
    b.expect_untouched();
    expect_complete(from_dataset(b.queue, b.buffer, 0, {b.dataset, H5T_NATIVE_INT}));
    b.cl.expect(b.buffer, 0, size, 2);
}

MPI_CASE("a damaged chunk is an error with HDF5's message, and other chunks can be read", 1) {
    const bench b;
    const temporary_file kept;
    {
        const hid file = kept.create();
        filtered(file, "filtered");
    }
    damage(kept, 100);
    const hid file = kept.open(H5F_ACC_RDONLY);
    const hid dataset(H5Dopen2(file, "filtered", H5P_DEFAULT));
    const buffer_handle good = b.cl.buffer(size);
    const queue_handle other = b.cl.in_order_queue();
    captured_errors errors;
    const event_handle bad = from_dataset(b.queue, b.buffer, 0, {dataset, H5T_NATIVE_INT});
    const event_handle well = from_dataset(other, good, 0, {b.dataset, H5T_NATIVE_INT});
    expect_failure(bad, CL_HDF5_ERROR);
    expect_complete(well);
    const std::string message = transfer_text(bad, CL_TRANSFER_ERROR_MESSAGE);
    CAPTURE(message);
    CHECK(message.find("H5Dread") != std::string::npos);
    CHECK(message.find("filter") != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
    b.cl.expect(good, 0, size, 2);
    // The chunks before and after the damaged one can still be read.
    for (const hsize_t first : {0, 110}) {
        const hid some = part(first, 90);
        const event_handle event = from_dataset(other, good, 0, {dataset, H5T_NATIVE_INT, some});
        expect_complete(event);
        b.cl.expect(good, 0, 90 * columns * sizeof(int), 6, first * columns * sizeof(int));
    }
    // A blocking call returns the code, with and without an event.
    CHECK(clEnqueueWriteBufferFromHDF5Dataset(other, good, CL_TRUE, 0, dataset, H5T_NATIVE_INT,
                                              H5S_ALL, H5P_DEFAULT, 0, nullptr,
                                              nullptr) == CL_HDF5_ERROR);
    const std::string printed = errors.text();
    CAPTURE(printed);
    CHECK(printed.find("HDF5-DIAG") == std::string::npos);
    // The program's own HDF5 calls still print their errors.
    captured_errors own;
    CHECK(H5Dopen2(file, "no such dataset", H5P_DEFAULT) < 0);
    CHECK(own.text().find("HDF5-DIAG") != std::string::npos);
}

MPI_CASE("missing bytes of a truncated file are an error", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const temporary_file kept;
    constexpr hsize_t many = 4 * MiB;
    {
        const hid file = kept.create();
        const hid large = make_dataset(file, "large", H5T_NATIVE_INT, {many});
        const buffer_handle data = cl.filled(many * sizeof(int), 1);
        expect_complete(to_dataset(queue, data, 0, {large, H5T_NATIVE_INT}));
        filtered(file, "filtered");
    }
    const hid file = kept.open(H5F_ACC_RDONLY);
    const hid large(H5Dopen2(file, "large", H5P_DEFAULT));
    const hid small(H5Dopen2(file, "filtered", H5P_DEFAULT));
    REQUIRE(::truncate(kept.name(), many) == 0);
    const buffer_handle buffer = cl.buffer(many * sizeof(int));
    // HDF5 returns zeros for the missing bytes of contiguous data. Only reads that bypass HDF5
    // report the error.
    if (std::getenv("CLDIST_IO_THREADS") != nullptr) {
        const event_handle direct = from_dataset(queue, buffer, 0, {large, H5T_NATIVE_INT});
        expect_failure(direct, CL_HDF5_ERROR);
        CHECK(transfer_text(direct, CL_TRANSFER_ERROR_MESSAGE).find("ends at byte") !=
              std::string::npos);
    }
    const queue_handle other = cl.in_order_queue();
    const event_handle chunks = from_dataset(other, buffer, 0, {small, H5T_NATIVE_INT});
    expect_failure(chunks, CL_HDF5_ERROR);
}

MPI_CASE("a command whose wait list fails accesses nothing and releases the file", 1) {
    bench b;
    for (const bool writes : {false, true}) {
        CAPTURE(writes);
        const queue_handle queue = b.cl.in_order_queue();
        const event_handle gate = b.cl.user_event();
        const event_handle event =
            writes ? to_dataset(queue, b.buffer, 0, {b.dataset, H5T_NATIVE_INT}, {gate})
                   : from_dataset(queue, b.buffer, 0, {b.dataset, H5T_NATIVE_INT}, {gate});
        CL_OK(clSetUserEventStatus(gate, -5));
        expect_failed(event);
    }
    {
        const hdf5_lock lock;
        b.expect_untouched();
        b.dataset.close();
        b.file.close();
    }
    poll_until("the file to be closed", [] {
        const hdf5_lock lock;
        return H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL) == 0;
    });
}

MPI_CASE("a missing filter is an error of the command", 1) {
    const bench b;
    // Writes the data with a filter that is unregistered before the read.
    constexpr H5Z_filter_t number = 300;
    const H5Z_class2_t filter{H5Z_CLASS_T_VERS,
                              number,
                              1,
                              1,
                              "as it is",
                              nullptr,
                              nullptr,
                              [](unsigned, std::size_t, const unsigned *, std::size_t length,
                                 std::size_t *, void **) { return length; }};
    H5_OK(H5Zregister(&filter));
    {
        const hid creation(H5Pcreate(H5P_DATASET_CREATE));
        const hsize_t chunk = 10;
        H5_OK(H5Pset_chunk(creation, 1, &chunk));
        H5_OK(H5Pset_filter(creation, number, 0, 0, nullptr));
        const hid dataset = make_dataset(b.file, "theirs", H5T_NATIVE_INT, {100}, creation);
        write_selected(dataset, H5T_NATIVE_INT, H5S_ALL, pattern(1, 400));
        H5_OK(H5Fflush(b.file, H5F_SCOPE_LOCAL));
    }
    H5_OK(H5Zunregister(number));
    const hid dataset(H5Dopen2(b.file, "theirs", H5P_DEFAULT));
    const event_handle event = from_dataset(b.queue, b.buffer, 0, {dataset, H5T_NATIVE_INT});
    expect_failure(event, CL_HDF5_ERROR);
    const std::string message = transfer_text(event, CL_TRANSFER_ERROR_MESSAGE);
    CAPTURE(message);
    CHECK(message.find("filter") != std::string::npos);
}
