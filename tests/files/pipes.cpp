/// Pipes, FIFOs and sockets as streams.

#include <algorithm>
#include <thread>

#include <sys/socket.h>

#include "file_commands.hpp"

using namespace cldist_test;

namespace {

/// Two connected streams: bytes written to the first are read from the second.
struct channel {
    stream writing;
    stream reading;
};

channel a_pipe() {
    pipe_ends pipe;
    return {stream(pipe.writing->give(), "wb"), stream(pipe.reading->give(), "rb")};
}

channel a_socket() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    return {stream(ends[0], "wb"), stream(ends[1], "rb")};
}

channel a_fifo() {
    const std::string path = new_path();
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    // Opening one end waits until the other end is open, except for a stream in both directions.
    stream both(path, "r+b");
    stream reading(path, "rb");
    stream writing(path, "wb");
    ::unlink(path.c_str());
    return {std::move(writing), std::move(reading)};
}

constexpr std::size_t size = 1'000'000;  // more than the capacity of a pipe or socket

}  // namespace

MPI_CASE("commands of one process serve both ends of a pipe, of a FIFO and of a socket", 1) {
    const opencl cl;
    for (const queue_set &queues : cl.independent_queues(2)) {
        for (channel (*make)() : {a_pipe, a_fifo, a_socket}) {
            for (const bool reader_first : {true, false}) {
                CAPTURE(queues.kind);
                CAPTURE(reader_first);
                channel c = make();
                const buffer_handle source = cl.filled(size, 1);
                const buffer_handle target = cl.filled(size, 2);
                event_handle got;
                if (reader_first) {
                    got = read_stream(queues[1], target, 0, size, c.reading);
                }
                const event_handle put = write_stream(queues[0], source, 0, size, c.writing);
                if (!reader_first) {
                    got = read_stream(queues[1], target, 0, size, c.reading);
                }
                // The writer's stream may buffer the last bytes until it is closed.
                expect_moved(put, size);
                c.writing.close();
                expect_moved(got, size);
                cl.expect(target, 0, size, 1);
            }
        }
    }
}

MPI_CASE("a reader slower than the writing command gets every byte", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(size, 1);
    channel c = a_pipe();
    const event_handle put = write_stream(queue, buffer, 0, size, c.writing);
    bytes found;
    unsigned char part[5000];
    while (found.size() < size - sizeof part) {
        const std::size_t n = std::fread(part, 1, sizeof part, c.reading);
        REQUIRE(n == sizeof part);
        found.insert(found.end(), part, part + n);
        std::this_thread::yield();
        if (found.size() < size / 2) {
            CHECK(status_of(put) > CL_COMPLETE);
        }
    }
    expect_moved(put, size);
    c.writing.close();
    for (std::size_t n = 0; (n = std::fread(part, 1, sizeof part, c.reading)) != 0;) {
        found.insert(found.end(), part, part + n);
    }
    expect_same(found, pattern(1, size));
}

MPI_CASE("a reading command waits for a slow writer", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(size, 2);
    pipe_ends pipe;
    const stream reading(pipe.reading->give(), "rb");
    const event_handle got = read_stream(queue, buffer, 0, size, reading);
    const bytes sent = pattern(1, size);
    for (std::size_t done = 0; done < size;) {
        CHECK(status_of(got) > CL_COMPLETE);
        const ssize_t n =
            ::write(*pipe.writing, sent.data() + done, std::min<std::size_t>(3333, size - done));
        REQUIRE(n > 0);
        done += static_cast<std::size_t>(n);
    }
    expect_moved(got, size);
    cl.expect(buffer, 0, size, 1);
}

MPI_CASE("a read after a write on one stream of a socket gets the answer to what was written", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(1000, 1);
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    const stream both(ends[0], "r+b");
    const std::jthread peer([end = ends[1]] {
        // Without a request, the peer closes the connection, so that the case does not hang.
        const timeval patience{10, 0};
        ::setsockopt(end, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        bytes request(1000);
        const bytes answer = pattern(2, 1000);
        if (::recv(end, request.data(), 1000, MSG_WAITALL) == 1000 && request == pattern(1, 1000)) {
            ::send(end, answer.data(), 1000, MSG_NOSIGNAL);
        }
        ::close(end);
    });
    expect_moved(write_stream(queue, buffer, 0, 1000, both), 1000);
    expect_moved(read_stream(queue, buffer, 0, 1000, both), 1000);
    cl.expect(buffer, 0, 1000, 2);
}

MPI_CASE("a call returns before its FIFO has data, and other queues, files and messages continue",
         1) {
    const opencl cl;
    for (const queue_set &queues : cl.independent_queues(4)) {
        CAPTURE(queues.kind);
        const buffer_handle buffer = cl.filled(1000, 2);
        const buffer_handle other = cl.filled(1000, 1);
        channel c = a_fifo();
        const event_handle pending = read_stream(queues[0], buffer, 0, 1000, c.reading);
        await_start(pending);

        const temporary_file file;
        const stream opened(file.path(), "wb");
        const descriptor fd(file.path(), O_RDWR);
        expect_moved(write_stream(queues[1], other, 0, 1000, opened), 1000);
        expect_moved(write_file(queues[2], other, 0, 1000, fd, 5000), 1000);
        expect_moved(read_file(queues[2], other, 0, 1000, fd, 5000), 1000);
        CL_OK(clEnqueueReadBufferToStdioFile(queues[3], other, CL_TRUE, 0, 1000, opened, 0, nullptr,
                                             nullptr));
        if (mpi.comm != MPI_COMM_NULL) {
            const queue_handle sending = cl.in_order_queue();
            const queue_handle receiving = cl.in_order_queue();
            const buffer_handle target = cl.buffer(1000);
            const event_handle received =
                receive(receiving, target, 0, 1000, mpi.rank, 1, mpi.comm);
            const event_handle sent = send(sending, other, 0, 1000, mpi.rank, 1, mpi.comm);
            expect_complete(sent);
            expect_complete(received);
        }
        CHECK(status_of(pending) > CL_COMPLETE);
        CHECK(transfer_status(pending) == CL_RUNNING);
        cl.expect(other, 0, 1000, 1);

        const bytes sent = pattern(7, 1000);
        REQUIRE(std::fwrite(sent.data(), 1, sent.size(), c.writing) == sent.size());
        c.writing.close();
        expect_moved(pending, 1000);
        cl.expect(buffer, 0, 1000, 7);
    }
}

MPI_CASE("reads that wait for pipes do not block each other or other files' commands", 1) {
    const opencl cl;
    constexpr std::size_t count = 40;  // more than the library's threads for descriptors
    const buffer_handle buffer = cl.filled(count * 1000, 2);
    std::vector<channel> pipes;
    std::vector<queue_handle> queues;
    std::vector<event_handle> events;
    for (std::size_t i = 0; i < count; ++i) {
        pipes.push_back(a_pipe());
        queues.push_back(cl.in_order_queue());
        events.push_back(read_stream(queues[i], buffer, i * 1000, 1000, pipes[i].reading));
    }
    const temporary_file file(pattern(3, 500'000));
    const descriptor fd(file.path(), O_RDONLY);
    const buffer_handle other = cl.buffer(500'000);
    expect_moved(read_file(cl.in_order_queue(), other, 0, 500'000, fd, 0), 500'000);
    for (std::size_t i = count; i-- > 0;) {
        const bytes sent = pattern(100 + i, 1000);
        REQUIRE(std::fwrite(sent.data(), 1, sent.size(), pipes[i].writing) == sent.size());
        REQUIRE(std::fflush(pipes[i].writing) == 0);
        expect_moved(events[i], 1000);
        cl.expect(buffer, i * 1000, 1000, 100 + i);
    }
}
