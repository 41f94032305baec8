/// When dataset commands run, and how programs share HDF5 with them.

#include <atomic>
#include <fstream>
#include <thread>

#include "datasets.hpp"

using namespace cldist_test;

namespace {

constexpr std::size_t size = 256 * KiB;
constexpr hsize_t count = size / sizeof(int);

/// A device, and a file with a dataset of integers.
struct bench {
    bench()
        : queue(cl.in_order_queue()),
          file(kept.create()),
          dataset(make_dataset(file, "x", H5T_NATIVE_INT, {count})) {
        write_selected(dataset, H5T_NATIVE_INT, H5S_ALL, pattern(1, size));
    }
    [[nodiscard]] dataset_access whole() const { return {dataset, H5T_NATIVE_INT}; }

    opencl cl;
    queue_handle queue;
    temporary_file kept;
    hid file;
    hid dataset;
};

void run_kernel(cl_command_queue queue, cl_kernel kernel, cl_mem buffer, wait_list events,
                event_handle &event) {
    const std::size_t items = size;
    CL_OK(clSetKernelArg(kernel, 0, sizeof(buffer), &buffer));
    CL_OK(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &items, nullptr,
                                 static_cast<cl_uint>(events.size()), data_of(events),
                                 event.out()));
}

bytes plus_one(bytes data) {
    for (unsigned char &byte : data) {
        ++byte;
    }
    return data;
}

}  // namespace

MPI_CASE("a dataset is accessed only after the wait list is complete", 1) {
    const bench b;
    const event_handle gate = b.cl.user_event();
    const buffer_handle data = b.cl.filled(size, 2);
    const event_handle written = to_dataset(b.queue, data, 0, b.whole(), {gate});
    {
        const hdf5_lock lock;
        CHECK(content(b.dataset) == pattern(1, size));
    }
    CHECK(status_of(written) > CL_COMPLETE);
    CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
    expect_complete(written);
    CHECK(content(b.dataset) == pattern(2, size));
}

MPI_CASE("queues and events order kernels and dataset commands", 1) {
    const bench b;
    const queue_handle other = b.cl.in_order_queue();
    const kernel_handle kernel = b.cl.kernel("add_one");
    const buffer_handle data = b.cl.buffer(size);
    from_dataset(b.queue, data, 0, b.whole());
    event_handle computed;
    run_kernel(b.queue, kernel, data, {}, computed);
    CL_OK(clFlush(b.queue));
    const event_handle written = to_dataset(other, data, 0, b.whole(), {computed});
    const event_handle read_again = from_dataset(b.queue, data, 0, b.whole(), {written});
    event_handle last;
    run_kernel(b.queue, kernel, data, {}, last);
    finish(b.queue);
    finish(other);
    CHECK(content(b.dataset) == plus_one(pattern(1, size)));
    CHECK(b.cl.read(data, 0, size) == plus_one(plus_one(pattern(1, size))));
}

MPI_CASE("blocking commands return when the bytes have arrived, with and without an event", 1) {
    const bench b;
    for (const bool with_event : {false, true}) {
        CAPTURE(with_event);
        const buffer_handle data = b.cl.filled(size, with_event ? 3 : 4);
        const buffer_handle target = b.cl.buffer(size);
        event_handle event;
        CL_OK(clEnqueueReadBufferToHDF5Dataset(b.queue, data, CL_TRUE, 0, b.dataset, H5T_NATIVE_INT,
                                               H5S_ALL, H5P_DEFAULT, 0, nullptr,
                                               with_event ? event.out() : nullptr));
        CHECK(content(b.dataset) == pattern(with_event ? 3 : 4, size));
        CL_OK(clEnqueueWriteBufferFromHDF5Dataset(b.queue, target, CL_TRUE, 0, b.dataset,
                                                  H5T_NATIVE_INT, H5S_ALL, H5P_DEFAULT, 0, nullptr,
                                                  with_event ? event.out() : nullptr));
        if (with_event) {
            CHECK(status_of(event) == CL_COMPLETE);
        }
        b.cl.expect(target, 0, size, with_event ? 3 : 4);
    }
}

MPI_CASE("commands on two files and on several queues all complete", 1) {
    const opencl cl;
    for (const queue_set &queues : cl.independent_queues(4)) {
        CAPTURE(queues.kind);
        const bench one;
        const bench two;
        // The buffers and queues belong to one context, `cl`.
        std::vector<buffer_handle> buffers;
        std::vector<event_handle> events;
        for (std::size_t i = 0; i < 4; ++i) {
            const bench &b = i % 2 == 0 ? one : two;
            buffers.push_back(cl.filled(size, 20 + i));
            events.push_back(to_dataset(queues[i], buffers.back(), 0, b.whole()));
            event_handle &written = events.back();
            buffers.push_back(cl.buffer(size));
            events.push_back(from_dataset(queues[i], buffers.back(), 0, b.whole(), {written}));
        }
        for (const event_handle &event : events) {
            expect_complete(event);
        }
        // Two commands wrote each dataset, in an unknown order.
        for (std::size_t i = 0; i < 2; ++i) {
            const bytes found = content((i == 0 ? one : two).dataset);
            CHECK((found == pattern(20 + i, size) || found == pattern(22 + i, size)));
        }
    }
}

MPI_CASE("the event reports the transfer's details", 1) {
    const bench b;
    const buffer_handle data = b.cl.buffer(size);
    const event_handle event = from_dataset(b.queue, data, 0, b.whole());
    expect_complete(event);
    CHECK(transfer_info<std::size_t>(event, CL_TRANSFER_BYTES) == size);
    CHECK(transfer_text(event, CL_TRANSFER_PATH) != "");
    bool file_stage = false;
    for (const cl_transfer_stage &stage : transfer_stages(event)) {
        file_stage = file_stage || stage.stage == CL_STAGE_FILE;
    }
    CHECK(file_stage);
}

MPI_CASE("ids may be closed immediately, and the file is closed when the event is complete", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const temporary_file kept;
    for (int round = 0; round < 20; ++round) {
        CAPTURE(round);
        const event_handle gate = cl.user_event();
        const buffer_handle data = cl.filled(size, 40);
        event_handle written;
        {
            hid file = kept.create();
            hid dataset = make_dataset(file, "x", H5T_NATIVE_INT, {count});
            hid part = space({count});
            hid type(H5Tcopy(H5T_NATIVE_INT));
            hid list(H5Pcreate(H5P_DATASET_XFER));
            written = to_dataset(queue, data, 0, {dataset, type, part, list}, {gate});
            const hdf5_lock lock;
            H5_OK(H5Sselect_none(part));  // the command has its own copy
            for (hid *id : {&list, &type, &part, &dataset, &file}) {
                id->close();
            }
        }
        CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
        expect_complete(written);
        // In the next round, HDF5 could not truncate a file that is still open.
        CHECK(H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL) == 0);
        const hid file = kept.open(H5F_ACC_RDONLY);
        const hid dataset(H5Dopen2(file, "x", H5P_DEFAULT));
        CHECK(content(dataset) == pattern(40, size));
    }
}

MPI_CASE("the program and commands in flight share HDF5 by its lock", 1) {
    const bench b;
    const temporary_file other;
    const hid file = other.create();
    std::vector<event_handle> events;
    std::vector<buffer_handle> buffers;
    std::atomic<int> wrong{0};
    std::vector<std::jthread> threads;
    for (int n = 0; n < 2; ++n) {
        threads.emplace_back([&, n] {
            for (int round = 0; round < 200; ++round) {
                clDistLockHDF5();
                clDistLockHDF5();  // the lock is recursive
                const std::string name = "d" + std::to_string(n) + "-" + std::to_string(round);
                const hsize_t dimension = 500;
                const hid_t whole = H5Screate_simple(1, &dimension, nullptr);
                const hid_t made = H5Dcreate2(file, name.c_str(), H5T_NATIVE_INT, whole,
                                              H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
                const std::vector<int> out(500, n);
                std::vector<int> in(500, -1);
                H5Dwrite(made, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, out.data());
                H5Dread(made, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, in.data());
                wrong += in != out;
                H5Dclose(made);
                H5Sclose(whole);
                clDistUnlockHDF5();
                clDistUnlockHDF5();
            }
        });
    }
    constexpr std::size_t pairs = 20;
    for (std::size_t i = 0; i < pairs; ++i) {
        buffers.push_back(b.cl.filled(size, i));
        events.push_back(to_dataset(b.queue, buffers.back(), 0, b.whole()));
        buffers.push_back(b.cl.buffer(size));
        events.push_back(from_dataset(b.queue, buffers.back(), 0, b.whole()));
    }
    for (const event_handle &event : events) {
        expect_complete(event);
    }
    for (std::size_t i = 0; i < pairs; ++i) {
        b.cl.expect(buffers[2 * i + 1], 0, size, i);
    }
    threads.clear();
    CHECK(wrong == 0);
}

MPI_CASE(
    "a thread that holds the lock releases it during a blocking command, so that earlier commands "
    "can run",
    1) {
    const bench b;
    const queue_handle other = b.cl.in_order_queue();
    const buffer_handle first = b.cl.filled(size, 5);
    const buffer_handle second = b.cl.buffer(size);
    const event_handle gate = b.cl.user_event();
    const hdf5_lock lock;
    const hdf5_lock again;
    const event_handle written = to_dataset(other, first, 0, b.whole(), {gate});
    CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
    const cl_event waits = written.get();
    CL_OK(clEnqueueWriteBufferFromHDF5Dataset(b.queue, second, CL_TRUE, 0, b.dataset,
                                              H5T_NATIVE_INT, H5S_ALL, H5P_DEFAULT, 1, &waits,
                                              nullptr));
    b.cl.expect(second, 0, size, 5);
    hbool_t safe = false;
    H5_OK(H5is_library_threadsafe(&safe));
    // After the command the thread holds the lock again as often as before: twice.
    CHECK(clDistUnlockHDF5() == CL_SUCCESS);
    CHECK(clDistUnlockHDF5() == CL_SUCCESS);
    CHECK(clDistUnlockHDF5() == (safe ? CL_SUCCESS : CL_INVALID_OPERATION));
}

MPI_CASE("a thread can't release another thread's lock", 1) {
    hbool_t safe = false;
    H5_OK(H5is_library_threadsafe(&safe));
    const hdf5_lock lock;
    cl_int result = CL_SUCCESS;
    std::jthread([&] { result = clDistUnlockHDF5(); }).join();
    CHECK(result == (safe ? CL_SUCCESS : CL_INVALID_OPERATION));
}
