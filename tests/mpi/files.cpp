
#include <fstream>
#include <iterator>
#include <thread>

#include "mpi_files.hpp"

using namespace cldist_test;

namespace {

constexpr calls both[] = {calls::independent, calls::collective};

bytes content(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    REQUIRE(in.good());
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

MPI_Offset at(std::size_t position) { return static_cast<MPI_Offset>(position); }

std::size_t of(int number) { return static_cast<std::size_t>(number); }

/// Sets a view in which each of n ranks sees every n-th record of 100 bytes, in units of 4 bytes.
class records_in_turn {
public:
    records_in_turn(const mpi_view &mpi, MPI_File file) {
        MPI_Datatype record = MPI_DATATYPE_NULL;
        MPI_Type_contiguous(25, MPI_INT, &record);
        MPI_Type_create_resized(record, 0, 100 * mpi.size, &type);
        MPI_Type_commit(&type);
        MPI_Type_free(&record);
        REQUIRE(MPI_File_set_view(file, 100 * mpi.rank, MPI_INT, type, "native", MPI_INFO_NULL) ==
                MPI_SUCCESS);
    }
    ~records_in_turn() { MPI_Type_free(&type); }
    records_in_turn(const records_in_turn &) = delete;
    records_in_turn &operator=(const records_in_turn &) = delete;

private:
    MPI_Datatype type = MPI_DATATYPE_NULL;
};

void fail_gate(cl_event gate) { CL_OK(clSetUserEventStatus(gate, -77)); }

}  // namespace

MPI_CASE("data that ranks write to an MPI file can be read by other ranks", 2) {
    const opencl cl;
    const shared_folder folder(mpi);
    const queue_handle queue = cl.in_order_queue();
    const std::size_t next = of((mpi.rank + 1) % mpi.size);
    int number = 0;
    for (const calls how : both) {
        for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
            for (const std::size_t size : {1UL, 1000UL, 3 * MiB + 5, 20 * MiB}) {
                CAPTURE(how == calls::collective);
                CAPTURE(blocking);
                CAPTURE(size);
                need_memory(cl, size + 10);
                const std::string path = folder.file(std::to_string(number++));
                const mpi_file file(mpi.comm, path);
                const buffer_handle buffer = cl.filled(size + 10, of(mpi.rank));
                expect_moved(write_file(how, queue, buffer, 7, size, file,
                                        at(3 + of(mpi.rank) * size), {}, blocking),
                             size);
                file.share(mpi);
                cl.fill(buffer, 0, size + 10, 77);
                expect_moved(
                    read_file(how, queue, buffer, 7, size, file, at(3 + next * size), {}, blocking),
                    size);
                cl.expect(buffer, 0, 7, 77);
                cl.expect(buffer, 7, size, next, 7);
                cl.expect(buffer, size + 7, 3, 77, size + 7);
                CHECK(std::filesystem::file_size(path) == 3 + of(mpi.size) * size);
                mpi.barrier();
            }
        }
    }
}

MPI_CASE("bytes go through the view of an MPI file, and offsets count its etypes", 2) {
    const opencl cl;
    const shared_folder folder(mpi);
    const queue_handle queue = cl.in_order_queue();
    constexpr std::size_t size = 100 * 25000;
    for (const calls how : both) {
        CAPTURE(how == calls::collective);
        const std::string path =
            folder.file(how == calls::collective ? "collective" : "independent");
        const mpi_file file(mpi.comm, path);
        const records_in_turn view(mpi, file);
        const buffer_handle buffer = cl.filled(size, of(mpi.rank));
        // Offset 25 skips the first record of each rank.
        expect_moved(write_file(how, queue, buffer, 0, size, file, 25), size);
        file.share(mpi);
        if (mpi.rank == 0) {
            const bytes found = content(path);
            REQUIRE(found.size() == 100 * of(mpi.size) + of(mpi.size) * size);
            std::size_t wrong = 0;
            for (std::size_t rank = 0; rank < of(mpi.size); ++rank) {
                const bytes part = pattern(rank, size);
                for (std::size_t i = 0; i < size; ++i) {
                    const std::size_t record = (i / 100 + 1) * of(mpi.size) + rank;
                    wrong += found[record * 100 + i % 100] == part[i] ? 0 : 1;
                }
            }
            CHECK(wrong == 0);
        }
        cl.fill(buffer, 0, size, 77);
        expect_moved(read_file(how, queue, buffer, 0, size / 2, file, at(25 + size / 8)), size / 2);
        cl.expect(buffer, 0, size / 2, of(mpi.rank), size / 2);
        cl.expect(buffer, size / 2, size / 2, 77, size / 2);
        mpi.barrier();
    }
}

MPI_CASE("ranks of a collective file command may have ranges of different sizes, even empty ones",
         2) {
    const opencl cl;
    const shared_folder folder(mpi);
    const queue_handle queue = cl.in_order_queue();
    for (const bool reversed : {false, true}) {
        CAPTURE(reversed);
        const auto size_of = [&](int rank) {
            return 700003 * of(reversed ? mpi.size - 1 - rank : rank);
        };
        std::size_t start = 0;
        for (int rank = 0; rank < mpi.rank; ++rank) {
            start += size_of(rank);
        }
        const std::size_t size = size_of(mpi.rank);
        const std::string path = folder.file(reversed ? "reversed" : "rising");
        const mpi_file file(mpi.comm, path);
        const buffer_handle buffer = cl.filled(size + 1, of(mpi.rank));
        expect_moved(write_file(calls::collective, queue, buffer, 1, size, file, at(start)), size);
        file.share(mpi);
        cl.fill(buffer, 0, size + 1, 77);
        expect_moved(read_file(calls::collective, queue, buffer, 1, size, file, at(start)), size);
        cl.expect(buffer, 0, 1, 77);
        cl.expect(buffer, 1, size, of(mpi.rank), 1);
        // Collective commands with empty ranges in all ranks.
        expect_moved(write_file(calls::collective, queue, buffer, 0, 0, file, 0), 0);
        expect_moved(read_file(calls::collective, queue, buffer, 0, 0, file, 0), 0);
        CHECK(std::filesystem::file_size(path) == 700003 * of(mpi.size) * of(mpi.size - 1) / 2);
        mpi.barrier();
    }
}

MPI_CASE("an independent command of no bytes does not change the file", 1) {
    const opencl cl;
    const shared_folder folder(mpi);
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(100, 1);
    const mpi_file file(mpi.comm, folder.file("empty"));
    expect_moved(write_file(calls::independent, queue, buffer, 100, 0, file, 50), 0);
    expect_moved(read_file(calls::independent, queue, buffer, 100, 0, file, 50), 0);
    CHECK(std::filesystem::file_size(folder.file("empty")) == 0);
    mpi.barrier();
}

MPI_CASE("a file command starts when its wait list is complete, not before", 1) {
    const opencl cl;
    const shared_folder folder(mpi);
    const queue_handle queue = cl.in_order_queue();
    const std::size_t size = 2 * MiB;
    for (const calls how : both) {
        CAPTURE(how == calls::collective);
        const std::string path =
            folder.file(how == calls::collective ? "collective" : "independent");
        const mpi_file file(mpi.comm, path);
        const buffer_handle buffer = cl.filled(size, 1);
        const event_handle gate = cl.user_event();
        const event_handle written =
            write_file(how, queue, buffer, 0, size, file, at(of(mpi.rank) * size), {gate});
        mpi.barrier();
        CHECK(transfer_status(written) > CL_RUNNING);
        CHECK(std::filesystem::file_size(path) == 0);
        cl.fill(buffer, 0, size, 2 + of(mpi.rank));
        mpi.barrier();
        CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
        expect_moved(written, size);
        file.share(mpi);
        const bytes found = content(path);
        REQUIRE(found.size() == of(mpi.size) * size);
        const bytes wanted = pattern(2 + of(mpi.rank), size);
        CHECK(std::equal(wanted.begin(), wanted.end(), found.begin() + at(of(mpi.rank) * size)));
        mpi.barrier();
    }
}

MPI_CASE("many commands on two files are in flight together with messages", 2) {
    const opencl cl;
    const shared_folder folder(mpi);
    const queue_handle files = cl.in_order_queue();
    const queue_handle messages = cl.in_order_queue();
    constexpr std::size_t size = 300001;
    constexpr std::size_t rounds = 12;
    const mpi_file one(mpi.comm, folder.file("one"));
    const mpi_file two(mpi.comm, folder.file("two"));
    const records_in_turn view(mpi, two);
    const buffer_handle buffer = cl.filled(rounds * size, of(mpi.rank));
    const buffer_handle back = cl.filled(rounds * size, 77);
    const buffer_handle traffic = cl.filled(2 * MiB, of(mpi.rank));
    const int right = (mpi.rank + 1) % mpi.size;
    const int left = (mpi.rank + mpi.size - 1) % mpi.size;
    std::vector<event_handle> events;
    for (std::size_t i = 0; i < rounds; ++i) {
        const calls how = i % 3 == 0 ? calls::independent : calls::collective;
        const MPI_Offset place = at((i * of(mpi.size) + of(mpi.rank)) * size);
        events.push_back(write_file(how, files, buffer, i * size, size, one, place));
        events.push_back(
            write_file(how, files, buffer, i * size, size / 4 * 4, two, at(i * (size / 4))));
        events.push_back(read_file(how, files, back, i * size, size, one, place));
        event_handle exchanged;
        CL_OK(clEnqueueSendrecvBuffer(messages, traffic, CL_FALSE, 0, MiB, right, 3, traffic, MiB,
                                      MiB, left, 3, mpi.comm, 0, nullptr, exchanged.out()));
        events.push_back(std::move(exchanged));
    }
    for (const event_handle &event : events) {
        expect_complete(event);
    }
    cl.expect(back, 0, rounds * size, of(mpi.rank));
    cl.expect(traffic, MiB, MiB, of(left));
    cl.fill(back, 0, rounds * size, 77);
    two.share(mpi);
    for (std::size_t i = 0; i < rounds; ++i) {
        expect_moved(read_file(calls::collective, files, back, i * size, size / 4 * 4, two,
                               at(i * (size / 4))),
                     size / 4 * 4);
        cl.expect(back, i * size, size / 4 * 4, of(mpi.rank), i * size);
    }
    mpi.barrier();
}

MPI_CASE("calls and messages continue while a collective file command waits for another process",
         2) {
    const opencl cl;
    const shared_folder folder(mpi);
    const queue_handle files = cl.in_order_queue();
    const queue_handle messages = cl.in_order_queue();
    constexpr std::size_t size = 400000;
    for (const bool writes : {true, false}) {
        CAPTURE(writes);
        const mpi_file file(mpi.comm, folder.file("file"));
        const mpi_file other(mpi.comm, folder.file("other"));
        const records_in_turn view(mpi, file);
        const buffer_handle buffer = cl.filled(size, of(mpi.rank));
        std::vector<event_handle> events;
        const auto enqueue = [&] {
            for (const MPI_File which : {MPI_File(file), MPI_File(other), MPI_File(file)}) {
                const MPI_Offset place = which == MPI_File(file) ? 0 : at(of(mpi.rank) * size);
                events.push_back(
                    writes ? write_file(calls::collective, files, buffer, 0, size, which, place)
                           : read_file(calls::collective, files, buffer, 0, size, which, place));
            }
        };
        if (mpi.rank == 0) {
            enqueue();
            await_start(events.front());
            enqueue();
            for (int rank = 1; rank < mpi.size; ++rank) {
                expect_complete(send(messages, buffer, 0, size, rank, 1, mpi.comm));
            }
        } else {
            const buffer_handle received = cl.buffer(size);
            expect_received(receive(messages, received, 0, size, 0, 1, mpi.comm), size, 0, 1);
            enqueue();
            enqueue();
        }
        for (const event_handle &event : events) {
            expect_moved(event, size);
        }
        cl.expect(buffer, 0, size, of(mpi.rank));
        mpi.barrier();
    }
}

MPI_CASE("a collective file command whose wait list failed in one process ends in all", 2) {
    const opencl cl;
    const shared_folder folder(mpi);
    constexpr std::size_t size = 500000;
    const std::string path = folder.file("file");
    const mpi_file file(mpi.comm, path);
    const records_in_turn view(mpi, file);
    const buffer_handle zeros = cl.filled(size, 50);
    {
        const queue_handle queue = cl.in_order_queue();
        expect_moved(write_file(calls::collective, queue, zeros, 0, size, file, 0), size);
    }
    for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
        for (const bool before : {false, true}) {
            for (int victim = 0; victim < 2; ++victim) {
                CAPTURE(blocking);
                CAPTURE(before);
                CAPTURE(victim);
                const queue_handle queue = cl.in_order_queue();
                const queue_handle next_queue = cl.in_order_queue();
                const buffer_handle buffer = cl.filled(size, 60 + of(mpi.rank));
                const event_handle gate = cl.user_event();
                const bool fails = mpi.rank == victim;
                if (fails && before) {
                    fail_gate(gate);
                }
                if (fails && blocking == CL_TRUE) {
                    // Sleeps until the call waits, which OpenCL does not report: PoCL 3.1 may hang
                    // or abort if the event fails while commands that wait for it are enqueued.
                    std::thread failing([&] {
                        if (!before) {
                            std::this_thread::sleep_for(std::chrono::milliseconds(300));
                            clSetUserEventStatus(gate, -77);
                        }
                    });
                    const cl_event waits = gate;
                    const cl_int code = clEnqueueReadBufferToMPIFileAll(
                        queue, buffer, CL_TRUE, 0, size, file, 0, 1, &waits, nullptr);
                    failing.join();
                    CHECK(code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
                } else if (fails) {
                    const event_handle written =
                        write_file(calls::collective, queue, buffer, 0, size, file, 0, {gate});
                    if (!before) {
                        fail_gate(gate);
                    }
                    expect_failure(written, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
                    await_part(written);
                } else {
                    expect_moved(write_file(calls::collective, queue, buffer, 0, size, file, 0, {},
                                            blocking),
                                 size);
                }
                file.share(mpi);
                // The failed process's range is unchanged, and later commands match each other.
                expect_moved(read_file(calls::collective, next_queue, buffer, 0, size, file, 0),
                             size);
                cl.expect(buffer, 0, size, fails ? 50 : 60 + of(mpi.rank));
                expect_moved(write_file(calls::collective, next_queue, zeros, 0, size, file, 0),
                             size);
                mpi.barrier();
            }
        }
    }
}

MPI_CASE("commands after a failed one in an in-order queue still match those of other processes",
         2) {
    const opencl cl;
    const shared_folder folder(mpi);
    constexpr std::size_t size = 200000;
    const mpi_file file(mpi.comm, folder.file("file"));
    const records_in_turn view(mpi, file);
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(4 * size, of(mpi.rank));
    const event_handle gate = cl.user_event();
    std::vector<event_handle> events;
    for (std::size_t i = 0; i < 4; ++i) {
        events.push_back(i == 1 && mpi.rank == 0
                             ? write_file(calls::collective, queue, buffer, i * size, size, file,
                                          at(i * size / 4), {gate})
                             : write_file(calls::collective, queue, buffer, i * size, size, file,
                                          at(i * size / 4)));
    }
    if (mpi.rank == 0) {
        fail_gate(gate);
    }
    expect_moved(events[0], size);
    for (std::size_t i = 1; i < 4; ++i) {
        if (mpi.rank == 0 && i == 1) {
            expect_failure(events[i], CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
        } else if (mpi.rank == 0) {
            // After a failed command, only some platforms execute the rest of the queue.
            static_cast<void>(wait_for(events[i]));
        } else {
            expect_moved(events[i], size);
        }
        await_part(events[i]);
    }
    file.share(mpi);
    const queue_handle next = cl.in_order_queue();
    const buffer_handle back = cl.filled(size, 77);
    expect_moved(read_file(calls::collective, next, back, 0, size, file, 0), size);
    cl.expect(back, 0, size, of(mpi.rank));
    mpi.barrier();
}

MPI_CASE("a read from an MPI file stops at the end of the file", 2) {
    const opencl cl;
    const shared_folder folder(mpi);
    const queue_handle queue = cl.in_order_queue();
    constexpr std::size_t size = 3 * MiB;
    const mpi_file file(mpi.comm, folder.file("file"));
    const buffer_handle buffer = cl.filled(size, 5);
    if (mpi.rank == 0) {
        expect_moved(write_file(calls::independent, queue, buffer, 0, size, file, 0), size);
    }
    file.share(mpi);
    for (const calls how : both) {
        CAPTURE(how == calls::collective);
        for (const std::size_t missing : {1UL, 1000UL, size - 1, size}) {
            CAPTURE(missing);
            const queue_handle failing = cl.in_order_queue();
            const buffer_handle back = cl.filled(size, 6);
            // Rank 0 can read all bytes. The other ranks reach the end of the file.
            const std::size_t start = mpi.rank == 0 ? 0 : missing;
            const event_handle read = read_file(how, failing, back, 0, size, file, at(start));
            if (mpi.rank == 0) {
                expect_moved(read, size);
            } else {
                expect_end_of_file(read, size - missing);
            }
            cl.expect(back, 0, size - start, 5, start);
            if (how == calls::independent) {
                cl.expect(back, size - start, start, 6, size - start);
            }
            mpi.barrier();
        }
    }
}

MPI_CASE("through a view, too, a read stops after the last etype of the file", 2) {
    const opencl cl;
    const shared_folder folder(mpi);
    constexpr std::size_t size = 100 * 5000;
    const mpi_file file(mpi.comm, folder.file("file"));
    const buffer_handle buffer = cl.filled(size, of(mpi.rank));
    const records_in_turn view(mpi, file);
    {
        const queue_handle queue = cl.in_order_queue();
        expect_moved(write_file(calls::collective, queue, buffer, 0, size, file, 0), size);
    }
    file.share(mpi);
    // Truncates the last rank's last integer by 2 bytes.
    REQUIRE(MPI_File_set_size(file, at(of(mpi.size) * size - 2)) == MPI_SUCCESS);
    file.share(mpi);
    for (const calls how : both) {
        CAPTURE(how == calls::collective);
        const queue_handle queue = cl.in_order_queue();
        const buffer_handle back = cl.filled(size, 77);
        const std::size_t there = size / 2 - (mpi.rank == mpi.size - 1 ? 4 : 0);
        expect_end_of_file(read_file(how, queue, back, 0, size - 4, file, at(size / 8)), there);
        cl.expect(back, 0, there, of(mpi.rank), size / 2);
        // A collective read may change the range behind the end of the file.
        const std::size_t unchanged = how == calls::collective ? size - 4 : there;
        cl.expect(back, unchanged, size - unchanged, 77, unchanged);
        mpi.barrier();
    }
}

MPI_CASE("only the processes of the file's communicator take part", 3) {
    const opencl cl;
    const shared_folder folder(mpi);
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(mpi.comm, mpi.rank == 1 ? MPI_UNDEFINED : 0, -mpi.rank, &part);
    if (part != MPI_COMM_NULL) {
        constexpr std::size_t size = 100000;
        int rank = 0;
        MPI_Comm_rank(part, &rank);
        const mpi_file file(part, folder.file("file"));
        const queue_handle queue = cl.in_order_queue();
        const buffer_handle buffer = cl.filled(size, of(rank));
        expect_moved(
            write_file(calls::collective, queue, buffer, 0, size, file, at(of(rank) * size)), size);
        cl.fill(buffer, 0, size, 77);
        expect_moved(
            read_file(calls::collective, queue, buffer, 0, size, file, at(of(rank) * size)), size);
        cl.expect(buffer, 0, size, of(rank));
        MPI_Comm_free(&part);
    }
    mpi.barrier();
}

MPI_CASE("a command uses the view of the file that was opened last, even if its handle was reused",
         1) {
    const opencl cl;
    const shared_folder folder(mpi);
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(120, 3);
    for (int i = 0; i < 20; ++i) {
        CAPTURE(i);
        const mpi_file file(mpi.comm, folder.file("file"));
        if (i % 2 == 1) {
            REQUIRE(MPI_File_set_view(file, 0, MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL) ==
                    MPI_SUCCESS);
        }
        if (mpi.rank == 0) {
            cl_event event = nullptr;
            const cl_int code = clEnqueueReadBufferToMPIFile(queue, buffer, CL_FALSE, 0, 12, file,
                                                             0, 0, nullptr, &event);
            CHECK(code == (i % 2 == 1 ? CL_INVALID_VALUE : CL_SUCCESS));
            if (code == CL_SUCCESS) {
                const event_handle owned(event);
                expect_moved(event, 12);
            }
        }
        mpi.barrier();
    }
}

MPI_CASE("a full disk ends an independent write with MPI's error", 1) {
    if (!std::filesystem::exists("/dev/full")) {
        skip_case("there is no /dev/full");
    }
    const opencl cl;
    if (mpi.rank == 0) {
        const queue_handle queue = cl.in_order_queue();
        const buffer_handle buffer = cl.filled(MiB, 1);
        const mpi_file file(MPI_COMM_SELF, "/dev/full", MPI_MODE_WRONLY);
        const event_handle written = write_file(calls::independent, queue, buffer, 0, MiB, file, 0);
        expect_failure(written, CL_MPI_ERROR);
        CHECK(transfer_info<int>(written, CL_TRANSFER_MPI_ERROR) != MPI_SUCCESS);
        CHECK(transfer_info<std::size_t>(written, CL_TRANSFER_BYTES) == 0);
        CHECK(transfer_text(written, CL_TRANSFER_ERROR_MESSAGE).find("MPI_File_write_at") !=
              std::string::npos);
    }
}
