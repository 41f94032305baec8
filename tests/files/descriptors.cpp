/// Commands on a descriptor behave like pread and pwrite.

#include <algorithm>
#include <random>

#include "file_commands.hpp"

using namespace cldist_test;

MPI_CASE("files of any size are written and read exactly at their offset", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    for (const std::size_t size :
         {1UL, 4096UL, 65'535UL, 65'536UL, 65'537UL, 1'000'003UL, 5UL * MiB + 1}) {
        CAPTURE(size);
        for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
            const temporary_file file(pattern(1, size + 300));
            const descriptor fd(file.path(), O_RDWR);
            const buffer_handle source = cl.filled(size + 100, 2);
            const buffer_handle target = cl.filled(size + 100, 3);
            file_call put{queue, source, 50, size, nullptr, fd, 111, blocking};
            event_handle event;
            CL_OK(issue(command::file_write, put, event.out()));
            expect_moved(event, size);
            file_call get{queue, target, 25, size, nullptr, fd, 111, blocking};
            CL_OK(issue(command::file_read, get, event.out()));
            expect_moved(event, size);
            cl.expect(target, 0, 25, 3);
            cl.expect(target, 25, size, 2, 50);
            cl.expect(target, 25 + size, 75, 3, 25 + size);
            bytes wanted = pattern(1, size + 300);
            const bytes written = pattern(2, size + 100);
            std::copy_n(written.begin() + 50, size, wanted.begin() + 111);
            expect_same(file.content(), wanted);
            CHECK(::lseek(fd, 0, SEEK_CUR) == 0);
        }
    }
}

MPI_CASE("the position of a descriptor is neither used nor changed", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const temporary_file file(pattern(1, 1000));
    const descriptor fd(file.path(), O_RDWR);
    const buffer_handle buffer = cl.filled(500, 2);
    REQUIRE(::lseek(fd, 777, SEEK_SET) == 777);
    expect_moved(read_file(queue, buffer, 0, 500, fd, 100), 500);
    expect_moved(write_file(queue, buffer, 0, 500, fd, 2000), 500);
    CHECK(::lseek(fd, 0, SEEK_CUR) == 777);
    bytes wanted = pattern(1, 1000);
    cl.expect(buffer, 0, 500, 1, 100);
    wanted.resize(2000);
    const bytes whole = pattern(1, 600);
    wanted.insert(wanted.end(), whole.begin() + 100, whole.end());
    expect_same(file.content(), wanted);
}

MPI_CASE("writes to a file opened with O_APPEND go to its end, whatever the offset", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    constexpr std::size_t old_size = 8192;
    for (const std::size_t size : {100UL, 65'536UL, 4UL * MiB + 100}) {
        CAPTURE(size);
        const buffer_handle buffer = cl.filled(size, 2);
        for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
            const temporary_file file(pattern(1, old_size));
            const descriptor fd(file.path(), O_RDWR | O_APPEND);
            event_handle event;
            CL_OK(issue(command::file_write, {queue, buffer, 0, size, nullptr, fd, 0, blocking},
                        event.out()));
            expect_moved(event, size);
            bytes wanted = pattern(1, old_size);
            const bytes appended = pattern(2, size);
            wanted.insert(wanted.end(), appended.begin(), appended.end());
            expect_same(file.content(), wanted);
            // Reads still use their offset.
            const buffer_handle target = cl.filled(size, 3);
            expect_moved(read_file(queue, target, 0, size, fd, old_size), size);
            cl.expect(target, 0, size, 2);
        }
    }
}

MPI_CASE("many reads and writes in flight on one descriptor each use their own offset", 1) {
    const opencl cl;
    constexpr std::size_t count = 200;
    constexpr std::size_t piece = 30'000;
    const std::uint64_t seed = 7;
    std::mt19937_64 random(seed);
    for (const queue_set &queues : cl.independent_queues(8)) {
        CAPTURE(queues.kind);
        const temporary_file file;
        const descriptor fd(file.path(), O_RDWR);
        const buffer_handle source = cl.filled(count * piece, 1);
        const buffer_handle target = cl.filled(count * piece, 2);
        std::vector<std::size_t> places(count);
        for (std::size_t i = 0; i < count; ++i) {
            places[i] = i;
        }
        std::shuffle(places.begin(), places.end(), random);
        std::vector<event_handle> events;
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t from = i * piece;
            const auto at = static_cast<off_t>(places[i] * piece);
            events.push_back(write_file(queues[i % 8], source, from, piece, fd, at));
            events.push_back(
                read_file(queues[(i + 3) % 8], target, from, piece, fd, at, {events.back()}));
        }
        for (const event_handle &event : events) {
            expect_moved(event, piece);
        }
        cl.expect(target, 0, count * piece, 1);
        const bytes content = file.content();
        const bytes data = pattern(1, count * piece);
        bool same = content.size() == data.size();
        for (std::size_t i = 0; same && i < count; ++i) {
            same = std::equal(data.begin() + static_cast<std::ptrdiff_t>(i * piece),
                              data.begin() + static_cast<std::ptrdiff_t>((i + 1) * piece),
                              content.begin() + static_cast<std::ptrdiff_t>(places[i] * piece));
        }
        CHECK(same);
    }
}

MPI_CASE("a hole is read as zeros", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const temporary_file file;
    const descriptor fd(file.path(), O_RDWR);
    constexpr std::size_t size = 3 * MiB;
    REQUIRE(::ftruncate(fd, size) == 0);
    REQUIRE(::pwrite(fd, "x", 1, MiB) == 1);
    const buffer_handle buffer = cl.filled(size, 1);
    expect_moved(read_file(queue, buffer, 0, size, fd, 0), size);
    bytes wanted(size);
    wanted[MiB] = 'x';
    expect_same(cl.read(buffer, 0, size), wanted);
}

MPI_CASE("a write far behind the end of a file leaves a hole before it", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const temporary_file file(pattern(1, 10));
    const descriptor fd(file.path(), O_RDWR);
    const buffer_handle buffer = cl.filled(100'000, 2);
    expect_moved(write_file(queue, buffer, 0, 100'000, fd, 1'000'000), 100'000);
    bytes wanted = pattern(1, 10);
    wanted.resize(1'000'000);
    const bytes data = pattern(2, 100'000);
    wanted.insert(wanted.end(), data.begin(), data.end());
    expect_same(file.content(), wanted);
}

MPI_CASE("offsets over 4 GiB in a file are exact", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const temporary_file file;
    const descriptor fd(file.path(), O_RDWR);
    constexpr off_t far = (off_t{5} << 30) + 12'345;
    constexpr std::size_t size = 700'000;
    if (::ftruncate(fd, far + static_cast<off_t>(size)) != 0) {
        skip_case("the file system has no files of 5 GiB");
    }
    const buffer_handle buffer = cl.filled(size, 1);
    const buffer_handle target = cl.filled(size, 2);
    // Near the powers of two at which narrower integers would overflow.
    for (const off_t at : {off_t{0x7fff'0000}, off_t{0xffff'0000}, off_t{0x1'0000'0001}, far}) {
        CAPTURE(at);
        expect_moved(write_file(queue, buffer, 0, size, fd, at), size);
        bytes found(size);
        REQUIRE(::pread(fd, found.data(), size, at) == static_cast<ssize_t>(size));
        expect_same(found, pattern(1, size));
        cl.fill(target, 0, size, 2);
        expect_moved(read_file(queue, target, 0, size, fd, at), size);
        cl.expect(target, 0, size, 1);
        // Empties the file, which becomes one hole again.
        REQUIRE(::ftruncate(fd, 0) == 0);
        REQUIRE(::ftruncate(fd, far + static_cast<off_t>(size)) == 0);
    }
}

MPI_CASE("a transfer of more than 4 GiB moves every byte, of a stream and of a descriptor", 1) {
    // The file is a hole except at its ends; the buffer needs real memory.
    constexpr std::size_t size = (std::size_t{4} << 30) + 4097;
    const opencl cl;
    need_memory(cl, size);
    const long pages = ::sysconf(_SC_AVPHYS_PAGES);
    if (std::getenv("CLDIST_TEST_LARGE") == nullptr) {
        skip_case("moves 4 GiB of memory: CLDIST_TEST_LARGE is not set");
    }
    if (static_cast<std::size_t>(pages) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) <
        2 * size) {
        skip_case("the system has less than " + std::to_string(2 * size >> 20) +
                  " MiB of free memory");
    }
    const temporary_file file;
    const descriptor fd(file.path(), O_RDWR);
    REQUIRE(::ftruncate(fd, static_cast<off_t>(size)) == 0);
    const bytes mark = pattern(1, 5000);
    const std::size_t places[] = {0, std::size_t{4} << 30, size - mark.size()};
    for (const std::size_t at : places) {
        REQUIRE(::pwrite(fd, mark.data(), mark.size(), static_cast<off_t>(at)) >= 0);
    }
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.buffer(size);
    const stream opened(file.path(), "rb");
    for (const bool streams : {false, true}) {
        const event_handle got = streams ? read_stream(queue, buffer, 0, size, opened)
                                         : read_file(queue, buffer, 0, size, fd, 0);
        const cl_int status = wait_for(got, std::chrono::seconds(50));
        CHECK(status == CL_COMPLETE);
        CHECK(transfer_info<std::size_t>(got, CL_TRANSFER_BYTES) == size);
        cl.expect(buffer, 0, 4097, 1);
        cl.expect(buffer, size - mark.size(), mark.size(), 1);
    }
}
