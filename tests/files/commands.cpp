/// The guarantees of a file command, its event and its wait list.

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "file_commands.hpp"

using namespace cldist_test;

namespace {

/// A file with a stream and a descriptor, a buffer and a queue.
struct bench {
    bench()
        : queue(cl.in_order_queue()),
          buffer(cl.filled(100'000, 1)),
          file(pattern(2, 100'000)),
          opened(file.path(), "r+b"),
          fd(file.path(), O_RDWR) {}

    [[nodiscard]] file_call good(std::size_t size = 100'000) const {
        return {queue, buffer, 0, size, opened, fd};
    }
    /// Checks that neither file nor buffer has changed.
    void expect_untouched() const {
        CHECK(std::ftell(opened) == 0);
        CHECK(std::fflush(opened) == 0);
        expect_same(file.content(), pattern(2, 100'000));
        cl.expect(buffer, 0, 100'000, 1);
    }

    opencl cl;
    queue_handle queue;
    buffer_handle buffer;
    temporary_file file;
    stream opened;
    descriptor fd;
};

/// A thread that makes one call.
class caller {
public:
    explicit caller(std::function<cl_int()> call)
        : thread_([this, call = std::move(call)] {
              id_ = ::gettid();
              code_ = call();
              returned_ = true;
          }) {}

    /// Returns when the call sleeps or has returned, so a call that wrongly does not wait has
    /// returned. The time limit is for drivers whose waiting threads never sleep (NVIDIA's).
    void let_it_go_as_far_as_it_goes() const {
        const auto latest = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
        for (int asleep = 0; asleep < 20 && !returned_ && std::chrono::steady_clock::now() < latest;
             std::this_thread::yield()) {
            asleep = id_ != 0 && sleeps() ? asleep + 1 : 0;
        }
    }
    [[nodiscard]] bool returned() const { return returned_; }
    cl_int code() {
        thread_.join();
        return code_;
    }

private:
    [[nodiscard]] bool sleeps() const {
        std::ifstream file("/proc/self/task/" + std::to_string(id_) + "/stat");
        std::string stat;
        std::getline(file, stat);
        const std::size_t name_end = stat.rfind(')');
        return name_end != std::string::npos && stat.compare(name_end, 3, ") S") == 0;
    }

    std::atomic<pid_t> id_ = 0;
    std::atomic<bool> returned_ = false;
    cl_int code_ = 1;
    std::jthread thread_;  // the thread uses the other members, so it is the last one
};

}  // namespace

MPI_CASE("a file command accesses nothing before its wait list is complete", 1) {
    for (const command which : all_commands) {
        const bench b;
        const event_handle gate = b.cl.user_event();
        const cl_event wait = gate;
        file_call c = b.good();
        c.number = 1;
        c.events = &wait;
        event_handle event;
        CL_OK(issue(which, c, event.out()));
        CHECK(status_of(event) > CL_COMPLETE);
        CHECK(transfer_status(event) == CL_QUEUED);
        b.expect_untouched();
        CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
        expect_moved(event, 100'000);
    }
}

MPI_CASE("a file command whose wait list fails accesses nothing", 1) {
    for (const command which : all_commands) {
        const bench b;
        const event_handle gate = b.cl.user_event();
        const cl_event wait = gate;
        file_call c = b.good();
        c.number = 1;
        c.events = &wait;
        event_handle event;
        CL_OK(issue(which, c, event.out()));
        CL_OK(clSetUserEventStatus(gate, -77));
        expect_file_failure(event, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, 0, 0);
        b.expect_untouched();
    }
}

// PoCL 3.1 aborts if a command fails while the command before it in the queue is about to end.
MPI_CASE("commands that fail immediately fail a thousand times in a row", 1) {
    const opencl cl;
    const buffer_handle buffer = cl.filled(64, 1);
    const descriptor folder("/", O_RDONLY | O_DIRECTORY);
    for (const queue_set &queues : cl.independent_queues(1)) {
        CAPTURE(queues.kind);
        for (int i = 0; i < 1000; ++i) {
            const event_handle gate = cl.user_event();
            const cl_event wait = gate;
            event_handle event;
            CL_OK(issue(command::file_read,
                        {queues[0], buffer, 0, 64, nullptr, folder, 0, CL_FALSE, 1, &wait},
                        event.out()));
            CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
            while (status_of(event) > CL_COMPLETE) std::this_thread::yield();
            REQUIRE(status_of(event) < 0);
        }
    }
    cl.expect(buffer, 0, 64, 1);
}

MPI_CASE(
    "a blocking file command whose wait list fails during the wait accesses nothing and returns "
    "the error",
    1) {
    for (const command which : all_commands) {
        for (const bool with_event : {false, true}) {
            const bench b;
            const event_handle gate = b.cl.user_event();
            const cl_event wait = gate;
            file_call c = b.good();
            c.blocking = CL_TRUE;
            c.number = 1;
            c.events = &wait;
            event_handle event;
            caller call([&] { return issue(which, c, with_event ? event.out() : nullptr); });
            call.let_it_go_as_far_as_it_goes();
            CHECK(!call.returned());
            CL_OK(clSetUserEventStatus(gate, -77));
            CHECK(call.code() == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
            b.expect_untouched();
        }
    }
}

MPI_CASE(
    "a blocking file command comes after earlier commands of its queue, with and without an event",
    1) {
    for (const command which : all_commands) {
        for (const bool with_event : {false, true}) {
            const bench b;
            const event_handle gate = b.cl.user_event();
            const cl_event wait = gate;
            CL_OK(clEnqueueBarrierWithWaitList(b.queue, 1, &wait, nullptr));
            file_call c = b.good();
            c.blocking = CL_TRUE;
            event_handle event;
            caller call([&] { return issue(which, c, with_event ? event.out() : nullptr); });
            call.let_it_go_as_far_as_it_goes();
            CHECK(!call.returned());
            expect_same(b.file.content(), pattern(2, 100'000));
            const bytes fresh = pattern(3, 100'000);
            CHECK(::pwrite(b.fd, fresh.data(), fresh.size(), 0) == 100'000);
            CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
            CL_OK(call.code());
            if (writes_file(which)) {
                REQUIRE(std::fflush(b.opened) == 0);
                expect_same(b.file.content(), pattern(1, 100'000));
            } else {
                b.cl.expect(b.buffer, 0, 100'000, 3);
            }
        }
    }
}

MPI_CASE("a blocking command that waits for its queue does not lock its stream", 1) {
    const bench b;
    const event_handle gate = b.cl.user_event();
    const cl_event wait = gate;
    CL_OK(clEnqueueBarrierWithWaitList(b.queue, 1, &wait, nullptr));
    file_call c = b.good(10);
    c.blocking = CL_TRUE;
    caller call([&] { return issue(command::stream_write, c, nullptr); });
    call.let_it_go_as_far_as_it_goes();
    const queue_handle queue = b.cl.in_order_queue();
    const event_handle event = write_stream(queue, b.buffer, 500, 500, b.opened);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (status_of(event) > CL_COMPLETE && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::yield();
    }
    CHECK(status_of(event) == CL_COMPLETE);
    CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
    expect_moved(event, 500);
    CL_OK(call.code());
    CHECK(std::ftell(b.opened) == 510);
}

MPI_CASE("a successful file command does not change errno", 1) {
    constexpr int before = 4711;
    for (const command which : all_commands) {
        for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
            for (const bool with_event : {false, true}) {
                const bench b;
                file_call c = b.good();
                c.blocking = blocking;
                event_handle event;
                errno = before;
                const cl_int code = issue(which, c, with_event ? event.out() : nullptr);
                CHECK(errno == before);
                CL_OK(code);
                CL_OK(clFinish(b.queue));
            }
        }
    }
}

MPI_CASE("a file command of no bytes completes and accesses nothing", 1) {
    for (const command which : all_commands) {
        for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
            const bench b;
            file_call c = b.good(0);
            c.offset = 100'000;
            c.at = 500;
            c.blocking = blocking;
            event_handle event;
            CL_OK(issue(which, c, event.out()));
            expect_moved(event, 0);
            CL_OK(issue(which, c, nullptr));
            CL_OK(clFinish(b.queue));
            b.expect_untouched();
        }
    }
}

MPI_CASE("a file command works without an event, and clFinish waits for it", 1) {
    for (const command which : all_commands) {
        const bench b;
        CL_OK(issue(which, b.good(), nullptr));
        finish(b.queue);
        if (writes_file(which)) {
            REQUIRE(std::fflush(b.opened) == 0);
            expect_same(b.file.content(), pattern(1, 100'000));
        } else {
            b.cl.expect(b.buffer, 0, 100'000, 2);
        }
    }
}

MPI_CASE("a file command comes after the previous kernel on its queue, and before the next kernel",
         1) {
    const bench b;
    const kernel_handle kernel = b.cl.kernel("add_one");
    const std::size_t work = 1000;
    const cl_mem buffer = b.buffer;
    CL_OK(clSetKernelArg(kernel, 0, sizeof(buffer), &buffer));
    const auto run_kernel = [&] {
        CL_OK(clEnqueueNDRangeKernel(b.queue, kernel, 1, nullptr, &work, nullptr, 0, nullptr,
                                     nullptr));
    };
    b.cl.write(b.buffer, 0, bytes(1000, 1));
    const temporary_file first;
    const temporary_file second;
    const stream out(first.path(), "wb");
    const descriptor out_fd(second.path(), O_RDWR);
    run_kernel();
    CL_OK(issue(command::stream_write, {b.queue, b.buffer, 0, 1000, out}, nullptr));
    run_kernel();
    CL_OK(issue(command::file_write, {b.queue, b.buffer, 0, 1000, nullptr, out_fd}, nullptr));
    CL_OK(issue(command::file_read, {b.queue, b.buffer, 0, 1000, nullptr, b.fd}, nullptr));
    run_kernel();
    finish(b.queue);
    REQUIRE(std::fflush(out) == 0);
    expect_same(first.content(), bytes(1000, 2));
    expect_same(second.content(), bytes(1000, 3));
    bytes wanted = pattern(2, 1000);
    for (unsigned char &byte : wanted) {
        ++byte;
    }
    expect_same(b.cl.read(b.buffer, 0, 1000), wanted);
}

MPI_CASE("the event of a file command reports queue, context, profile, path and stages", 1) {
    for (const command which : all_commands) {
        for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
            const bench b;
            file_call c = b.good();
            c.blocking = blocking;
            event_handle event;
            CL_OK(issue(which, c, event.out()));
            expect_moved(event, 100'000);
            cl_command_queue queue = nullptr;
            CL_OK(clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof(queue), &queue, nullptr));
            CHECK(queue == b.queue.get());
            cl_context context = nullptr;
            CL_OK(clGetEventInfo(event, CL_EVENT_CONTEXT, sizeof(context), &context, nullptr));
            CHECK(context == b.cl.context.get());

            const std::string path = transfer_text(event, CL_TRANSFER_PATH);
            CHECK((path == "mapped" || path == "staged" || path == "chunked"));
            const auto block = transfer_info<std::size_t>(event, CL_TRANSFER_BLOCK_SIZE);
            CHECK(block >= 1);
            CHECK(transfer_info<cl_uint>(event, CL_TRANSFER_DEPTH) >= 1);
            CHECK(transfer_info<int>(event, CL_TRANSFER_SOURCE) == MPI_PROC_NULL);
            CHECK(transfer_info<int>(event, CL_TRANSFER_DESTINATION) == MPI_PROC_NULL);
            CHECK(transfer_info<int>(event, CL_TRANSFER_MPI_ERROR) == MPI_SUCCESS);
            bool waited = false;
            cl_uint blocks = 0;
            for (const cl_transfer_stage &stage : transfer_stages(event)) {
                CHECK(stage.start <= stage.end);
                CHECK(stage.stage != CL_STAGE_MESSAGE);
                CHECK(stage.stage != CL_STAGE_MATCH);
                waited = waited || stage.stage == CL_STAGE_WAIT;
                if (stage.stage == CL_STAGE_FILE) {
                    blocks = stage.blocks;
                }
            }
            CHECK(waited);
            CHECK(blocks == (100'000 + block - 1) / block);

            cl_ulong last = 0;
            for (const cl_profiling_info name :
                 {CL_PROFILING_COMMAND_QUEUED, CL_PROFILING_COMMAND_SUBMIT,
                  CL_PROFILING_COMMAND_START, CL_PROFILING_COMMAND_END}) {
                cl_ulong time = 0;
                const cl_int result =
                    clGetEventProfilingInfo(event, name, sizeof(time), &time, nullptr);
                if (result == CL_PROFILING_INFO_NOT_AVAILABLE) {
                    skip_case("the platform has no profiling of barriers");
                }
                CL_OK(result);
                CAPTURE(name);
                if (!b.cl.is_cpu() && time < last) {
                    skip_case("the platform's barriers end before they start");
                }
                CHECK(time >= last);
                last = time;
            }
        }
    }
}

MPI_CASE("a failed file command does not affect its queue's profile and other queues' commands",
         1) {
    const bench b;
    file_call c = b.good();
    c.at = 50'000;
    event_handle failing;
    CL_OK(issue(command::file_read, c, failing.out()));
    expect_file_failure(failing, CL_END_OF_FILE, 0, 50'000);
    const queue_handle other = b.cl.in_order_queue();
    expect_moved(read_file(other, b.buffer, 0, 100'000, b.fd, 0), 100'000);
    b.cl.expect(b.buffer, 0, 100'000, 2);
}

MPI_CASE("buffer, queue and context may be released while a file command is in flight", 1) {
    pipe_ends pipe;
    const stream reading(pipe.reading->give(), "rb");
    event_handle event;
    {
        const opencl cl;
        const queue_handle queue = cl.in_order_queue();
        const buffer_handle buffer = cl.filled(1000, 1);
        event = read_stream(queue, buffer, 0, 1000, reading);
    }
    const bytes sent = pattern(2, 1000);
    REQUIRE(::write(*pipe.writing, sent.data(), sent.size()) == 1000);
    expect_moved(event, 1000);
}

MPI_CASE("only a sub-buffer's own bytes are written to and read from files", 1) {
    const bench b;
    const std::size_t unit = std::max<std::size_t>(sub_buffer_alignment(b.cl.device), 64);
    const buffer_handle part = b.cl.sub_buffer(b.buffer, 2 * unit, 3 * unit);
    const temporary_file target;
    const descriptor out(target.path(), O_RDWR);
    expect_moved(write_file(b.queue, part, 5, 2 * unit, out, 0), 2 * unit);
    const bytes all = pattern(1, 100'000);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(2 * unit + 5);
    expect_same(target.content(), bytes(begin, begin + static_cast<std::ptrdiff_t>(2 * unit)));
    expect_moved(read_stream(b.queue, part, 7, 2 * unit, b.opened), 2 * unit);
    b.cl.expect(b.buffer, 0, 2 * unit + 7, 1);
    b.cl.expect(b.buffer, 2 * unit + 7, 2 * unit, 2);
    b.cl.expect(b.buffer, 4 * unit + 7, 100'000 - 4 * unit - 7, 1, 4 * unit + 7);
}

MPI_CASE("a message waits for a file command, and a file command for a message", 1) {
    skip_without_mpi(mpi);
    const bench b;
    const queue_handle sending = b.cl.in_order_queue();
    const queue_handle receiving = b.cl.in_order_queue();
    const queue_handle writing = b.cl.in_order_queue();
    const buffer_handle target = b.cl.filled(100'000, 9);
    const temporary_file copy;
    const descriptor out(copy.path(), O_RDWR);
    const event_handle got = read_file(b.queue, b.buffer, 0, 100'000, b.fd, 0);
    const event_handle received = receive(receiving, target, 0, 100'000, mpi.rank, 3, mpi.comm);
    const event_handle sent = send(sending, b.buffer, 0, 100'000, mpi.rank, 3, mpi.comm, {got});
    const event_handle put = write_file(writing, target, 0, 100'000, out, 0, {received});
    expect_moved(put, 100'000);
    expect_complete(sent);
    expect_same(copy.content(), pattern(2, 100'000));
}

MPI_CASE("file commands do not delay messages that wait for events", 1) {
    skip_without_mpi(mpi);
    const bench b;
    const queue_handle sending = b.cl.in_order_queue();
    const queue_handle receiving = b.cl.in_order_queue();
    const buffer_handle target = b.cl.buffer(100);
    constexpr int count = 100;
    const auto seconds = [&] {
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < count; ++i) {
            const event_handle received = receive(receiving, target, 0, 100, mpi.rank, 3, mpi.comm);
            const event_handle sent = send(sending, b.buffer, 0, 100, mpi.rank, 3, mpi.comm);
            expect_complete(received);
            expect_complete(sent);
        }
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    expect_moved(read_file(b.queue, b.buffer, 0, 100'000, b.fd, 0), 100'000);
    // The progress threads of messages and of files are both running. A start that is noticed only
    // by polling takes 20 ms.
    CHECK(seconds() / count < 0.010);
}
