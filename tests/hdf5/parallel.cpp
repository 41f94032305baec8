/// Files that several processes share, with collective and independent transfer lists.

#include "datasets.hpp"

using namespace cldist_test;

namespace {

constexpr hsize_t rows_each = 6;
constexpr hsize_t columns = 3000;
constexpr std::size_t row_size = columns * sizeof(int);
constexpr std::size_t size_each = rows_each * row_size;

/// A file with the same name in all processes. The destructor removes it.
class common_file {
public:
    explicit common_file(const mpi_view &mpi_in) : mpi(mpi_in) {
        std::string own = kept.name();
        own.resize(4096);
        MPI_Bcast(own.data(), static_cast<int>(own.size()), MPI_CHAR, 0, mpi.comm);
        path = own.substr(0, own.find('\0'));
    }

    [[nodiscard]] hid create() const {
        return hid(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access()));
    }
    [[nodiscard]] hid open() const { return hid(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access())); }

private:
    [[nodiscard]] hid access() const {
        hid list(H5Pcreate(H5P_FILE_ACCESS));
        H5_OK(H5Pset_fapl_mpio(list, mpi.comm, MPI_INFO_NULL));
        return list;
    }

    const mpi_view &mpi;
    temporary_file kept;
    std::string path;
};

hid transfer_list(H5FD_mpio_xfer_t mode) {
    hid list(H5Pcreate(H5P_DATASET_XFER));
    H5_OK(H5Pset_dxpl_mpio(list, mode));
    return list;
}

extent whole_extent(const mpi_view &mpi) {
    return {rows_each * static_cast<hsize_t>(mpi.size), columns};
}

/// Every n-th row of n processes, from the row `rank` on.
hid own_rows(const mpi_view &mpi) {
    hid made = space(whole_extent(mpi));
    const hsize_t start[] = {static_cast<hsize_t>(mpi.rank), 0};
    const hsize_t stride[] = {static_cast<hsize_t>(mpi.size), columns};
    const hsize_t count[] = {rows_each, 1};
    const hsize_t block[] = {1, columns};
    H5_OK(H5Sselect_hyperslab(made, H5S_SELECT_SET, start, stride, count, block));
    return made;
}

/// The contents of a dataset in which each rank's own_rows() are pattern(first_seed + rank).
bytes woven(const mpi_view &mpi, std::uint64_t first_seed) {
    bytes all;
    std::vector<bytes> parts;
    for (int rank = 0; rank < mpi.size; ++rank) {
        parts.push_back(pattern(first_seed + static_cast<std::uint64_t>(rank), size_each));
    }
    for (std::size_t row = 0; row < rows_each; ++row) {
        for (const bytes &part : parts) {
            const auto from = part.begin() + static_cast<std::ptrdiff_t>(row * row_size);
            all.insert(all.end(), from, from + static_cast<std::ptrdiff_t>(row_size));
        }
    }
    return all;
}

hid chunks_of_all(const mpi_view &mpi, bool deflated) {
    hid creation(H5Pcreate(H5P_DATASET_CREATE));
    // Each chunk contains rows of all processes.
    const hsize_t chunk[] = {static_cast<hsize_t>(mpi.size), 1000};
    H5_OK(H5Pset_chunk(creation, 2, chunk));
    if (deflated) {
        H5_OK(H5Pset_deflate(creation, 3));
    }
    return creation;
}

std::uint64_t seed_of(const mpi_view &mpi, std::uint64_t first) {
    return first + static_cast<std::uint64_t>(mpi.rank);
}

}  // namespace

MPI_CASE("each process writes and reads its part of a dataset, collectively and independently", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const common_file common(mpi);
    const hid mine = own_rows(mpi);
    const buffer_handle data = cl.filled(size_each, seed_of(mpi, 10));
    for (const H5FD_mpio_xfer_t mode : {H5FD_MPIO_INDEPENDENT, H5FD_MPIO_COLLECTIVE}) {
        CAPTURE(mode);
        const hid list = transfer_list(mode);
        {
            const hid file = common.create();
            const hid chunks = chunks_of_all(mpi, false);
            const hid flat = make_dataset(file, "flat", H5T_NATIVE_INT, whole_extent(mpi));
            const hid cut = make_dataset(file, "cut", H5T_NATIVE_INT, whole_extent(mpi), chunks);
            expect_complete(to_dataset(queue, data, 0, {flat, H5T_NATIVE_INT, mine, list}));
            const event_handle event =
                to_dataset(queue, data, 0, {cut, H5T_NATIVE_INT, mine, list});
            expect_complete(event);
            CHECK(transfer_info<std::size_t>(event, CL_TRANSFER_BYTES) == size_each);
        }
        const hid file = common.open();
        for (const char *name : {"flat", "cut"}) {
            CAPTURE(name);
            const hid dataset(H5Dopen2(file, name, H5P_DEFAULT));
            const bool same = content(dataset) == woven(mpi, 10);
            CHECK(same);
            const buffer_handle target = cl.buffer(size_each);
            expect_complete(from_dataset(queue, target, 0, {dataset, H5T_NATIVE_INT, mine, list}));
            cl.expect(target, 0, size_each, seed_of(mpi, 10));
        }
    }
}

MPI_CASE("processes write a compressed dataset together", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const common_file common(mpi);
    const hid list = transfer_list(H5FD_MPIO_COLLECTIVE);
    const buffer_handle data = cl.filled(size_each, seed_of(mpi, 30));
    {
        const hid file = common.create();
        const hid chunks = chunks_of_all(mpi, true);
        const hid dataset =
            make_dataset(file, "deflated", H5T_NATIVE_INT, whole_extent(mpi), chunks);
        const hid mine = own_rows(mpi);
        expect_complete(to_dataset(queue, data, 0, {dataset, H5T_NATIVE_INT, mine, list}));
    }
    const hid file = common.open();
    const hid dataset(H5Dopen2(file, "deflated", H5P_DEFAULT));
    const bool same = content(dataset) == woven(mpi, 30);
    CHECK(same);
}

MPI_CASE(
    "a process that joins a collective command late does not block the other processes' programs",
    2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const common_file common(mpi);
    const hid list = transfer_list(H5FD_MPIO_COLLECTIVE);
    const buffer_handle data = cl.filled(size_each, seed_of(mpi, 50));
    const hid file = common.create();
    const hid dataset = make_dataset(file, "x", H5T_NATIVE_INT, whole_extent(mpi));
    const hid mine = own_rows(mpi);
    if (mpi.rank != 0) {
        await(mpi, 0);
    }
    const event_handle written = to_dataset(queue, data, 0, {dataset, H5T_NATIVE_INT, mine, list});
    if (mpi.rank == 0) {
        await_start(written);
        // Messages complete while the file command waits for the other processes.
        const queue_handle other = cl.in_order_queue();
        const buffer_handle small = cl.filled(1000, 1);
        event_handle received;
        const buffer_handle target = cl.buffer(1000);
        const queue_handle third = cl.in_order_queue();
        received = receive(third, target, 0, 1000, 0, 5, mpi.comm);
        expect_complete(send(other, small, 0, 1000, 0, 5, mpi.comm));
        expect_received(received, 1000, 0, 5);
        CHECK(status_of(written) > CL_COMPLETE);
        for (int rank = 1; rank < mpi.size; ++rank) {
            tell(mpi, rank);
        }
    }
    expect_complete(written);
    mpi.barrier();
    const bool same = content(dataset) == woven(mpi, 50);
    CHECK(same);
}

MPI_CASE("a process with an empty selection takes part in a collective command", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const common_file common(mpi);
    const hid list = transfer_list(H5FD_MPIO_COLLECTIVE);
    const buffer_handle data = cl.filled(size_each, 4);
    const hid file = common.create();
    const hid dataset = make_dataset(file, "x", H5T_NATIVE_INT, whole_extent(mpi));
    hid mine = own_rows(mpi);
    const bool last = mpi.rank == mpi.size - 1;
    if (!last) {
        H5_OK(H5Sselect_none(mine));
    }
    for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
        event_handle event;
        CL_OK(clEnqueueReadBufferToHDF5Dataset(queue, data, blocking, 0, dataset, H5T_NATIVE_INT,
                                               mine, list, 0, nullptr, event.out()));
        expect_complete(event);
        CHECK(transfer_info<std::size_t>(event, CL_TRANSFER_BYTES) == (last ? size_each : 0));
    }
    const buffer_handle target = cl.filled(size_each, 5);
    expect_complete(from_dataset(queue, target, 0, {dataset, H5T_NATIVE_INT, mine, list}));
    cl.expect(target, 0, size_each, last ? 4 : 5);
}

MPI_CASE(
    "a process whose wait list failed takes part with an empty selection, and the other processes "
    "complete",
    2) {
    const opencl cl;
    const common_file common(mpi);
    const hid list = transfer_list(H5FD_MPIO_COLLECTIVE);
    const hid file = common.create();
    const hid dataset = make_dataset(file, "x", H5T_NATIVE_INT, whole_extent(mpi));
    const hid mine = own_rows(mpi);
    const buffer_handle data = cl.filled(size_each, seed_of(mpi, 60));
    const buffer_handle zeros = cl.buffer(size_each);
    cl.write(zeros, 0, bytes(size_each));
    {
        const queue_handle queue = cl.in_order_queue();
        expect_complete(to_dataset(queue, zeros, 0, {dataset, H5T_NATIVE_INT, mine, list}));
    }
    const bool fails = mpi.rank == 0;
    // After a command that fails immediately, the next one is enqueued before the progress thread
    // has seen the failure.
    const queue_handle queues[] = {cl.in_order_queue(), cl.in_order_queue()};
    event_handle event;
    for (unsigned n = 0; n < 20; ++n) {
        const bool writes = n % 2 == 0;
        CAPTURE(n);
        const queue_handle &queue = queues[n / 3 % 2];
        const event_handle gate = cl.user_event();
        event = writes
                    ? to_dataset(queue, data, 0, {dataset, H5T_NATIVE_INT, mine, list}, {gate})
                    : from_dataset(queue, zeros, 0, {dataset, H5T_NATIVE_INT, mine, list}, {gate});
        CL_OK(clSetUserEventStatus(gate, fails ? -5 : CL_COMPLETE));
        if (fails) {
            expect_failed(event);
        } else {
            expect_complete(event);
        }
    }
    if (!fails) {
        cl.expect(zeros, 0, size_each, seed_of(mpi, 60));
    }
    // Events of failed commands may complete early. Wait until the last command has released HDF5.
    await_part(event);
    expect_complete(
        from_dataset(cl.in_order_queue(), zeros, 0, {dataset, H5T_NATIVE_INT, mine, list}));
    mpi.barrier();
    const bytes found = selected(dataset, H5T_NATIVE_INT, mine);
    const bool right = found == (fails ? bytes(size_each) : pattern(seed_of(mpi, 60), size_each));
    CHECK(right);
    mpi.barrier();
}

MPI_CASE(
    "many collective commands on two files complete, even if their datasets are closed immediately",
    2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const common_file one(mpi);
    const common_file two(mpi);
    const hid list = transfer_list(H5FD_MPIO_COLLECTIVE);
    const hid mine = own_rows(mpi);
    constexpr std::uint64_t rounds = 10;
    std::vector<buffer_handle> buffers;
    std::vector<event_handle> events;
    std::vector<hid> files;  // closed after the commands have ended, because closing is collective
    {
        std::vector<hid> datasets;
        for (const common_file *common : {&one, &two}) {
            files.push_back(common->create());
            for (std::uint64_t n = 0; n < rounds; ++n) {
                datasets.push_back(make_dataset(files.back(), ("x" + std::to_string(n)).c_str(),
                                                H5T_NATIVE_INT, whole_extent(mpi)));
            }
        }
        for (std::uint64_t n = 0; n < rounds; ++n) {
            for (std::uint64_t i = 0; i < 2; ++i) {
                const std::uint64_t seed = seed_of(mpi, 100 * (2 * n + i + 1));
                buffers.push_back(cl.filled(size_each, seed));
                events.push_back(
                    to_dataset(queue, buffers.back(), 0,
                               {datasets[i * rounds + n], H5T_NATIVE_INT, mine, list}));
            }
        }
        const hdf5_lock lock;
        datasets.clear();
    }
    for (const event_handle &event : events) {
        expect_complete(event);
    }
    files.clear();
    for (std::uint64_t i = 0; i < 2; ++i) {
        const hid file = (i == 0 ? one : two).open();
        for (std::uint64_t n = 0; n < rounds; ++n) {
            const hid dataset(H5Dopen2(file, ("x" + std::to_string(n)).c_str(), H5P_DEFAULT));
            const bool same = content(dataset) == woven(mpi, 100 * (2 * n + i + 1));
            CHECK(same);
        }
    }
}
