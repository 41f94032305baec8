/// The order of commands on one stream, which never interleave; many files and commands at once.

#include <algorithm>
#include <atomic>
#include <deque>
#include <fstream>
#include <random>
#include <thread>

#include "file_commands.hpp"

using namespace cldist_test;

namespace {

constexpr std::size_t record_size = 10'000;

/// A buffer of `count` records; every byte of record i is i + 1.
buffer_handle records(const opencl &cl, std::size_t count, std::size_t size = record_size) {
    bytes data;
    for (std::size_t i = 0; i < count; ++i) {
        data.insert(data.end(), size, static_cast<unsigned char>(i + 1));
    }
    buffer_handle buffer = cl.buffer(data.size());
    cl.write(buffer, 0, data);
    return buffer;
}

/// The numbers of the records in a file, in order; 0 for a record of different bytes.
std::vector<int> numbers_in(const bytes &content, std::size_t size = record_size) {
    std::vector<int> numbers;
    for (std::size_t at = 0; at < content.size(); at += size) {
        const auto begin = content.begin() + static_cast<std::ptrdiff_t>(at);
        const auto end =
            content.begin() + static_cast<std::ptrdiff_t>(std::min(at + size, content.size()));
        const bool whole = end - begin == static_cast<std::ptrdiff_t>(size) &&
                           std::count(begin, end, *begin) == end - begin;
        numbers.push_back(whole ? *begin : 0);
    }
    return numbers;
}

std::vector<int> up_to(std::size_t count) {
    std::vector<int> numbers;
    for (std::size_t i = 1; i <= count; ++i) {
        numbers.push_back(static_cast<int>(i));
    }
    return numbers;
}

}  // namespace

MPI_CASE(
    "writes to one stream keep the order of their in-order queue, or of the calls if they have no "
    "wait lists",
    1) {
    const opencl cl;
    constexpr std::size_t count = 40;
    const buffer_handle buffer = records(cl, count);
    for (const queue_set &queues : cl.independent_queues(1)) {
        CAPTURE(queues.kind);
        const temporary_file file;
        {
            const stream opened(file.path(), "wb");
            std::vector<event_handle> events;
            for (std::size_t i = 0; i < count; ++i) {
                // Some writes block; they keep the order, too.
                file_call c{};
                c.queue = queues[0];
                c.buffer = buffer;
                c.offset = i * record_size;
                c.size = record_size;
                c.stream = opened;
                c.blocking = i % 5 == 4 ? CL_TRUE : CL_FALSE;
                CL_OK(issue(command::stream_write, c, events.emplace_back().out()));
            }
            for (const event_handle &event : events) {
                expect_moved(event, record_size);
            }
        }
        CHECK(numbers_in(file.content()) == up_to(count));
    }
}

MPI_CASE("reads of one stream keep the order of their queue", 1) {
    const opencl cl;
    constexpr std::size_t count = 40;
    bytes content;
    for (std::size_t i = 0; i < count; ++i) {
        content.insert(content.end(), record_size, static_cast<unsigned char>(i + 1));
    }
    const temporary_file file(content);
    for (const queue_set &queues : cl.independent_queues(1)) {
        CAPTURE(queues.kind);
        const buffer_handle buffer = cl.buffer(count * record_size);
        const stream opened(file.path(), "rb");
        std::vector<event_handle> events;
        for (std::size_t i = 0; i < count; ++i) {
            events.push_back(read_stream(queues[0], buffer, i * record_size, record_size, opened));
        }
        for (const event_handle &event : events) {
            expect_moved(event, record_size);
        }
        expect_same(cl.read(buffer, 0, count * record_size), content);
    }
}

MPI_CASE(
    "writes to one stream from several queues follow their events, whatever the order of the calls",
    1) {
    const opencl cl;
    constexpr std::size_t count = 24;
    const buffer_handle buffer = records(cl, count);
    for (const queue_set &queues : cl.independent_queues(count)) {
        CAPTURE(queues.kind);
        const temporary_file file;
        {
            const stream opened(file.path(), "wb");
            // Enqueues the writes from last to first, each with a gate, and opens the gates from
            // first to last.
            std::vector<event_handle> gates;
            std::vector<event_handle> events(count);
            for (std::size_t i = 0; i < count; ++i) {
                gates.push_back(cl.user_event());
            }
            for (std::size_t i = count; i-- > 0;) {
                events[i] = write_stream(queues[i], buffer, i * record_size, record_size, opened,
                                         {gates[i]});
            }
            for (std::size_t i = 0; i < count; ++i) {
                CL_OK(clSetUserEventStatus(gates[i], CL_COMPLETE));
                // A write has its place in the order as soon as it starts.
                await_start(events[i]);
            }
            for (const event_handle &event : events) {
                expect_moved(event, record_size);
            }
        }
        CHECK(numbers_in(file.content()) == up_to(count));
    }
}

MPI_CASE("unordered writes to one stream do not interleave", 1) {
    const opencl cl;
    constexpr std::size_t count = 24;
    constexpr std::size_t size = 200'000;
    const buffer_handle buffer = records(cl, count, size);
    for (const queue_set &queues : cl.independent_queues(count)) {
        CAPTURE(queues.kind);
        const temporary_file file;
        {
            const stream opened(file.path(), "wb");
            const event_handle gate = cl.user_event();
            std::vector<event_handle> events;
            for (std::size_t i = 0; i < count; ++i) {
                events.push_back(write_stream(queues[i], buffer, i * size, size, opened, {gate}));
            }
            CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
            for (const event_handle &event : events) {
                expect_moved(event, size);
            }
        }
        std::vector<int> numbers = numbers_in(file.content(), size);
        std::sort(numbers.begin(), numbers.end());
        CHECK(numbers == up_to(count));
    }
}

MPI_CASE("writes of several threads to one stream do not interleave, blocking or not", 1) {
    const opencl cl;
    constexpr std::size_t threads = 4;
    constexpr std::size_t count = 10;
    constexpr std::size_t size = 150'000;
    const buffer_handle buffer = records(cl, threads * count, size);
    const temporary_file file;
    {
        const stream opened(file.path(), "wb");
        std::atomic<int> failures{0};
        {
            std::vector<std::jthread> running;
            for (std::size_t t = 0; t < threads; ++t) {
                running.emplace_back([&, t, queue = cl.in_order_queue()] {
                    for (std::size_t i = 0; i < count; ++i) {
                        file_call c{};
                        c.queue = queue;
                        c.buffer = buffer;
                        c.offset = (t * count + i) * size;
                        c.size = size;
                        c.stream = opened;
                        c.blocking = (t + i) % 2 == 0 ? CL_TRUE : CL_FALSE;
                        failures += issue(command::stream_write, c, nullptr) == CL_SUCCESS ? 0 : 1;
                    }
                    failures += clFinish(queue) == CL_SUCCESS ? 0 : 1;
                });
            }
        }
        CHECK(failures == 0);
    }
    std::vector<int> numbers = numbers_in(file.content(), size);
    std::sort(numbers.begin(), numbers.end());
    CHECK(numbers == up_to(threads * count));
}

MPI_CASE(
    "a blocking write to a stream waits for earlier commands on the stream and returns when it is "
    "complete",
    1) {
    const opencl cl;
    pipe_ends pipe;
    constexpr std::size_t size = 300'000;  // more than the capacity of a pipe
    const buffer_handle buffer = records(cl, 2, size);
    const queue_handle first = cl.in_order_queue();
    const queue_handle second = cl.in_order_queue();
    stream opened(pipe.writing->give(), "wb");
    const event_handle pending = write_stream(first, buffer, 0, size, opened);
    await_start(pending);
    bytes found;
    cl_int code = 1;
    {
        const std::jthread blocked([&] {
            file_call c{};
            c.queue = second;
            c.buffer = buffer;
            c.offset = size;
            c.size = size;
            c.stream = opened;
            c.blocking = CL_TRUE;
            code = issue(command::stream_write, c, nullptr);
            opened.close();
        });
        unsigned char part[65536];
        for (ssize_t n = 0; (n = ::read(*pipe.reading, part, sizeof part)) > 0;) {
            found.insert(found.end(), part, part + n);
        }
    }
    CHECK(code == CL_SUCCESS);
    expect_moved(pending, size);
    CHECK(numbers_in(found, size) == up_to(2));
}

MPI_CASE(
    "a blocking read of a stream waits for earlier commands on the stream and returns when it is "
    "complete",
    1) {
    const opencl cl;
    pipe_ends pipe;
    const buffer_handle buffer = cl.filled(200'000, 5);
    const queue_handle first = cl.in_order_queue();
    const queue_handle second = cl.in_order_queue();
    const stream opened(pipe.reading->give(), "rb");
    const event_handle pending = read_stream(first, buffer, 0, 100'000, opened);
    await_start(pending);
    const bytes sent = pattern(2, 200'000);
    {
        const std::jthread writer([&] {
            for (std::size_t done = 0; done < sent.size();) {
                const ssize_t n = ::write(*pipe.writing, sent.data() + done, sent.size() - done);
                if (n <= 0) return;
                done += static_cast<std::size_t>(n);
            }
        });
        file_call c{};
        c.queue = second;
        c.buffer = buffer;
        c.offset = 100'000;
        c.size = 100'000;
        c.stream = opened;
        c.blocking = CL_TRUE;
        CL_OK(issue(command::stream_read, c, nullptr));
    }
    expect_moved(pending, 100'000);
    cl.expect(buffer, 0, 200'000, 2);
}

MPI_CASE(
    "other threads' calls on a stream come before or after a command's bytes, never between them",
    1) {
    const opencl cl;
    constexpr std::size_t size = 400'000;
    constexpr int count = 12;
    bytes data(size, 'c');
    data.back() = '\n';
    const buffer_handle buffer = cl.buffer(size);
    cl.write(buffer, 0, data);
    const queue_handle queue = cl.in_order_queue();
    const temporary_file file;
    int printed = 0;
    {
        const stream opened(file.path(), "wb");
        std::atomic<bool> stop{false};
        std::jthread printer([&] {
            while (!stop) {
                std::fprintf(opened, "line %d of the other thread\n", printed++);
                std::this_thread::yield();
            }
        });
        std::vector<event_handle> events;
        for (int i = 0; i < count; ++i) {
            events.push_back(write_stream(queue, buffer, 0, size, opened));
        }
        for (const event_handle &event : events) {
            expect_moved(event, size);
        }
        stop = true;
    }
    std::ifstream lines(file.path());
    int whole = 0;
    int next = 0;
    int torn = 0;
    for (std::string line; std::getline(lines, line);) {
        if (line == "line " + std::to_string(next) + " of the other thread") {
            ++next;
        } else if (line.size() == size - 1 && line.find_first_not_of('c') == std::string::npos) {
            ++whole;
        } else {
            ++torn;
        }
    }
    CHECK(whole == count);
    CHECK(next == printed);
    CHECK(torn == 0);
}

MPI_CASE("a command on a stream that the program has locked begins after the unlock", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(1000, 1);
    const temporary_file file;
    const stream opened(file.path(), "wb");
    ::flockfile(opened);
    const event_handle event = write_stream(queue, buffer, 0, 1000, opened);
    await_start(event);
    std::fputs("first", opened);
    CHECK(std::ftell(opened) == 5);
    ::funlockfile(opened);
    expect_moved(event, 1000);
    CHECK(std::ftell(opened) == 1005);
}

MPI_CASE("a thread that has locked a stream may call a blocking command on it", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(1000, 1);
    const temporary_file file;
    const stream opened(file.path(), "wb");
    ::flockfile(opened);
    CL_OK(clEnqueueReadBufferToStdioFile(queue, buffer, CL_TRUE, 0, 1000, opened, 0, nullptr,
                                         nullptr));
    ::funlockfile(opened);
    CHECK(std::ftell(opened) == 1000);
}

MPI_CASE(
    "ten files, accessed as streams and descriptors at once in random pieces, contain all their "
    "bytes",
    1) {
    const opencl cl;
    constexpr std::size_t files = 10;
    constexpr std::size_t total = 3'000'000;
    const std::uint64_t seed = 42;
    struct one {
        explicit one(std::size_t number)
            : source(pattern(100 + number, total)),
              in(source.path(), "rb"),
              out(target.path(), "wb"),
              in_fd(source.path(), O_RDONLY),
              out_fd(target.path(), O_WRONLY),
              streams(number % 2 == 0) {}
        temporary_file source;
        temporary_file target;
        stream in;
        stream out;
        descriptor in_fd;
        descriptor out_fd;
        bool streams;
        buffer_handle buffer;
        std::size_t done = 0;
        cl_event put = nullptr;  ///< the last write
    };
    for (const queue_set &queues : cl.independent_queues(files)) {
        CAPTURE(queues.kind);
        CAPTURE(seed);
        std::mt19937_64 random(seed);
        std::deque<one> all;
        std::vector<event_handle> events;
        for (std::size_t i = 0; i < files; ++i) {
            all.emplace_back(i).buffer = cl.buffer(total);
        }
        for (bool left = true; left;) {
            left = false;
            for (std::size_t i = 0; i < files; ++i) {
                one &f = all[i];
                if (f.done == total) continue;
                left = true;
                const std::size_t size = std::min<std::size_t>(
                    total - f.done, std::uniform_int_distribution<std::size_t>(1, 700'000)(random));
                const auto at = static_cast<off_t>(f.done);
                event_handle got = f.streams
                                       ? read_stream(queues[i], f.buffer, f.done, size, f.in)
                                       : read_file(queues[i], f.buffer, f.done, size, f.in_fd, at);
                event_handle put;
                file_call c{queues[i], f.buffer, f.done, size, f.out, f.out_fd, at};
                // The queue may be out-of-order, so the wait list orders the writes.
                const cl_event after[] = {got, f.put};
                c.number = f.put != nullptr ? 2 : 1;
                c.events = after;
                CL_OK(issue(f.streams ? command::stream_write : command::file_write, c, put.out()));
                f.put = put;
                events.push_back(std::move(got));
                events.push_back(std::move(put));
                f.done += size;
            }
        }
        for (const event_handle &event : events) {
            expect_complete(event);
        }
        for (std::size_t i = 0; i < files; ++i) {
            CAPTURE(i);
            all[i].out.close();
            expect_same(all[i].target.content(), pattern(100 + i, total));
            cl.expect(all[i].buffer, 0, total, 100 + i);
        }
    }
}

MPI_CASE("ten thousand commands in flight on one stream, and on one descriptor, all end", 1) {
    const opencl cl;
    constexpr std::size_t piece = 100;
    for (const std::size_t count : {1000UL, 10'000UL}) {
        const bytes content = pattern(3, count * piece);
        for (const command which : all_commands) {
            const buffer_handle buffer = cl.buffer(content.size());
            cl.write(buffer, 0, writes_file(which) ? content : bytes(content.size()));
            const queue_handle queue = cl.out_of_order_queue();
            const temporary_file file(writes_file(which) ? bytes() : content);
            std::chrono::duration<double, std::micro> time{};
            {
                const stream opened(file.path(), writes_file(which) ? "wb" : "rb");
                const descriptor fd(file.path(), O_RDWR);
                // The stream's lock, or a user event, delays the commands until all are in flight.
                const event_handle gate = cl.user_event();
                const cl_event wait = gate;
                ::flockfile(opened);
                for (std::size_t i = 0; i < count; ++i) {
                    file_call c{
                        queue, buffer, i * piece, piece, opened, fd, static_cast<off_t>(i * piece)};
                    c.number = uses_stream(which) ? 0 : 1;
                    c.events = uses_stream(which) ? nullptr : &wait;
                    CL_OK(issue(which, c, nullptr));
                }
                const auto begin = std::chrono::steady_clock::now();
                ::funlockfile(opened);
                CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
                finish(queue, std::chrono::seconds(50));
                time = std::chrono::steady_clock::now() - begin;
            }
            const char *const names[] = {"writes to a stream", "reads of a stream",
                                         "writes to a descriptor", "reads of a descriptor"};
            std::printf("       %6zu %s in flight: %.1f us each\n", count,
                        names[static_cast<int>(which)], time.count() / static_cast<double>(count));
            expect_same(writes_file(which) ? file.content() : cl.read(buffer, 0, content.size()),
                        content);
        }
    }
}
