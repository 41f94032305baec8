/// Argument errors of commands for MPI files. initialisation.cpp tests errors before MPI_Init.

#include <functional>

#include "mpi_files.hpp"

using namespace cldist_test;

namespace {

constexpr std::size_t bench_size = 4096;

enum class command { write, read, write_all, read_all };
constexpr command all[] = {command::write, command::read, command::write_all, command::read_all};

bool writes(command which) { return which == command::write || which == command::write_all; }

/// The arguments of a call. Initially all are valid.
struct file_call {
    cl_command_queue queue;
    cl_mem buffer;
    std::size_t offset = 0;
    std::size_t size = 64;
    MPI_File file;
    MPI_Offset at = 0;
    cl_uint number = 0;
    const cl_event *events = nullptr;
};

cl_int issue(command which, const file_call &c, cl_event *event) {
    const auto function = which == command::write       ? clEnqueueReadBufferToMPIFile
                          : which == command::read      ? clEnqueueWriteBufferFromMPIFile
                          : which == command::write_all ? clEnqueueReadBufferToMPIFileAll
                                                        : clEnqueueWriteBufferFromMPIFileAll;
    return function(c.queue, c.buffer, CL_FALSE, c.offset, c.size, c.file, c.at, c.number, c.events,
                    event);
}

/// A file of 4096 bytes, a queue and a buffer. The checked commands must not change the file.
struct file_bench {
    explicit file_bench(const mpi_view &mpi, int mode = MPI_MODE_CREATE | MPI_MODE_RDWR)
        : folder(mpi), queue(cl.in_order_queue()), buffer(cl.filled(bench_size, 1)) {
        {
            const mpi_file made(MPI_COMM_SELF, folder.file("file"));
            REQUIRE(MPI_File_set_size(made, bench_size) == MPI_SUCCESS);
        }
        file = std::make_unique<mpi_file>(MPI_COMM_SELF, folder.file("file"), mode);
    }

    file_call good() const {
        file_call c{};
        c.queue = queue;
        c.buffer = buffer;
        c.file = *file;
        return c;
    }

    void expect(command which, cl_int code, const std::function<void(file_call &)> &spoil) const {
        CAPTURE(static_cast<int>(which));
        file_call c = good();
        spoil(c);
        cl_event event = nullptr;
        const cl_int found = issue(which, c, &event);
        CHECK(found == code);
        CHECK(event == nullptr);
    }
    void expect_all(cl_int code, const std::function<void(file_call &)> &spoil) const {
        for (const command which : all) {
            expect(which, code, spoil);
        }
    }

    opencl cl;
    shared_folder folder;
    queue_handle queue;
    buffer_handle buffer;
    std::unique_ptr<mpi_file> file;
};

}  // namespace

MPI_CASE("file commands with an invalid queue, buffer or wait list return OpenCL's errors", 1) {
    const file_bench bench(mpi);
    bench.expect_all(CL_INVALID_COMMAND_QUEUE, [](file_call &c) { c.queue = nullptr; });
    bench.expect_all(CL_INVALID_MEM_OBJECT, [](file_call &c) { c.buffer = nullptr; });
    bench.expect_all(CL_INVALID_VALUE, [](file_call &c) { c.offset = bench_size - 63; });
    bench.expect_all(CL_INVALID_EVENT_WAIT_LIST, [](file_call &c) { c.number = 1; });
}

MPI_CASE("file commands with a buffer, event or queue of another context are CL_INVALID_CONTEXT",
         1) {
    const file_bench bench(mpi);
    const opencl other(opencl::of::its_own);
    const queue_handle queue = other.in_order_queue();
    const buffer_handle foreign = other.buffer(bench_size);
    const buffer_handle part = other.sub_buffer(foreign, 0, 64);
    const event_handle own_event = bench.cl.user_event();
    const event_handle foreign_event = other.user_event();
    const cl_event list[] = {own_event, foreign_event};
    bench.expect_all(CL_INVALID_CONTEXT, [&](file_call &c) { c.queue = queue; });
    bench.expect_all(CL_INVALID_CONTEXT, [&](file_call &c) { c.buffer = foreign; });
    bench.expect_all(CL_INVALID_CONTEXT, [&](file_call &c) { c.buffer = part; });
    bench.expect_all(CL_INVALID_CONTEXT, [&](file_call &c) {
        c.number = 2;
        c.events = list;
    });
    CL_OK(clSetUserEventStatus(own_event, CL_COMPLETE));
    CL_OK(clSetUserEventStatus(foreign_event, CL_COMPLETE));
}

MPI_CASE("file commands on MPI_FILE_NULL are CL_INVALID_VALUE", 1) {
    const file_bench bench(mpi);
    bench.expect_all(CL_INVALID_VALUE, [](file_call &c) { c.file = MPI_FILE_NULL; });
}

MPI_CASE("a negative offset in an MPI file is CL_INVALID_VALUE", 1) {
    const file_bench bench(mpi);
    bench.expect_all(CL_INVALID_VALUE, [](file_call &c) { c.at = -1; });
}

MPI_CASE("a size that is not a multiple of the etype's is CL_INVALID_VALUE", 1) {
    const file_bench bench(mpi);
    REQUIRE(MPI_File_set_view(*bench.file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL) ==
            MPI_SUCCESS);
    bench.expect_all(CL_INVALID_VALUE, [](file_call &c) { c.size = 63; });
    for (const command which : all) {
        event_handle event;
        CL_OK(issue(which, bench.good(), event.out()));
        expect_moved(event, 64);
    }
}

MPI_CASE("a view with a data representation other than native is CL_INVALID_OPERATION", 1) {
    const file_bench bench(mpi);
    // Some MPI libraries support only the native representation.
    if (MPI_File_set_view(*bench.file, 0, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL) !=
        MPI_SUCCESS) {
        skip_case("this MPI library supports only the native data representation");
    }
    bench.expect_all(CL_INVALID_OPERATION, [](file_call &) {});
}

MPI_CASE("an MPI file opened for the other direction is CL_INVALID_OPERATION", 1) {
    for (const int mode : {MPI_MODE_RDONLY, MPI_MODE_WRONLY}) {
        CAPTURE(mode);
        const file_bench bench(mpi, mode);
        for (const command which : all) {
            if (writes(which) == (mode == MPI_MODE_RDONLY)) {
                bench.expect(which, CL_INVALID_OPERATION, [](file_call &) {});
                continue;
            }
            event_handle event;
            CL_OK(issue(which, bench.good(), event.out()));
            expect_moved(event, 64);
        }
    }
}

MPI_CASE("an MPI file opened with MPI_MODE_SEQUENTIAL is CL_INVALID_OPERATION", 1) {
    const file_bench bench(mpi, MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL);
    bench.expect_all(CL_INVALID_OPERATION, [](file_call &) {});
}
