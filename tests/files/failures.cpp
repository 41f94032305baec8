/// Commands whose file fails or ends early: their errors, and the bytes that must not change.

#include <csignal>
#include <limits>

#include <sys/resource.h>
#include <sys/socket.h>

#include "file_commands.hpp"

using namespace cldist_test;

namespace {

constexpr std::size_t guard = 4096;

struct wanted {
    cl_int code;
    int error;  ///< errno, if the code is CL_FILE_ERROR
    std::size_t moved;
};

enum class form { non_blocking, blocking_with_event, blocking };
constexpr form all_forms[] = {form::non_blocking, form::blocking_with_event, form::blocking};

/// A buffer range of `size` bytes between two guards. Commands under test use the range.
struct failure_bench {
    explicit failure_bench(std::size_t size_in)
        : size(size_in), queue(cl.in_order_queue()), buffer(cl.filled(size + 2 * guard, 5)) {}

    /// Checks that the command fails as wanted. A read must change only the bytes that it moved,
    /// which must be pattern(2) from byte `from` on.
    void expect(command which, form how, file_call c, const wanted &w, std::size_t from = 0) const {
        CAPTURE(static_cast<int>(how));
        c.queue = queue;
        c.buffer = buffer;
        c.offset = guard;
        c.size = size;
        c.blocking = how == form::non_blocking ? CL_FALSE : CL_TRUE;
        event_handle event;
        errno = 0;
        const cl_int code = issue(which, c, how == form::blocking ? nullptr : event.out());
        const int error = errno;
        if (how == form::non_blocking) {
            CL_OK(code);
        } else {
            CHECK(code == w.code);
            if (w.code == CL_FILE_ERROR) {
                CHECK(error == w.error);
            }
        }
        if (how != form::blocking) {
            expect_file_failure(event, w.code, w.code == CL_FILE_ERROR ? w.error : 0, w.moved);
        }
        if (writes_file(which)) {
            cl.expect(buffer, 0, size + 2 * guard, 5);
            return;
        }
        cl.expect(buffer, 0, guard, 5);
        cl.expect(buffer, guard, w.moved, 2, from);
        cl.expect(buffer, guard + w.moved, size - w.moved + guard, 5, guard + w.moved);
        cl.fill(buffer, 0, size + 2 * guard, 5);
    }

    /// The first `moved` bytes of the range, which a write must have written to the file.
    [[nodiscard]] bytes range(std::size_t moved) const {
        const bytes all = pattern(5, guard + moved);
        return {all.begin() + guard, all.end()};
    }

    std::size_t size;
    opencl cl;
    queue_handle queue;
    buffer_handle buffer;
};

file_call on(std::FILE *stream) {
    file_call c{};
    c.stream = stream;
    return c;
}

file_call on(int fd, off_t at) {
    file_call c{};
    c.fd = fd;
    c.at = at;
    return c;
}

/// The result of fwrite for the same bytes. The command must have the same result.
wanted as_fwrite(std::FILE *twin, const bytes &data) {
    errno = 0;
    const std::size_t moved = std::fwrite(data.data(), 1, data.size(), twin);
    const int error = errno;
    REQUIRE(moved < data.size());
    return {CL_FILE_ERROR, error, moved};
}

/// Limits the size of files during its life.
class file_size_limit {
public:
    explicit file_size_limit(rlim_t bytes_allowed) {
        REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
        const rlimit limit{bytes_allowed, before_.rlim_max};
        // A write beyond the limit raises this signal in its thread, which may be the library's.
        handler_ = std::signal(SIGXFSZ, SIG_IGN);
        REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
    }
    file_size_limit(const file_size_limit &) = delete;
    file_size_limit &operator=(const file_size_limit &) = delete;
    ~file_size_limit() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }

private:
    rlimit before_{};
    void (*handler_)(int) = nullptr;
};

}  // namespace

MPI_CASE(
    "a file that ends early gives its bytes, then CL_END_OF_FILE, and the rest of the buffer is "
    "unchanged",
    1) {
    const failure_bench bench(300'000);
    for (const std::size_t there : {0UL, 1UL, 4095UL, 70'000UL, 131'072UL, 299'999UL}) {
        CAPTURE(there);
        const temporary_file file(pattern(2, there + 100));
        for (const form how : all_forms) {
            const descriptor fd(file.path(), O_RDONLY);
            bench.expect(command::file_read, how, on(fd, 100), {CL_END_OF_FILE, 0, there}, 100);
            const stream opened(file.path(), "rb");
            REQUIRE(std::fseek(opened, 100, SEEK_SET) == 0);
            bench.expect(command::stream_read, how, on(opened), {CL_END_OF_FILE, 0, there}, 100);
            CHECK(std::feof(opened) != 0);
            CHECK(std::ferror(opened) == 0);
            CHECK(std::ftell(opened) == static_cast<long>(there + 100));
        }
        expect_same(file.content(), pattern(2, there + 100));
    }
}

MPI_CASE("a read that begins behind the end of the file moves nothing", 1) {
    const failure_bench bench(1000);
    const temporary_file file(pattern(2, 100));
    const descriptor fd(file.path(), O_RDONLY);
    for (const form how : all_forms) {
        bench.expect(command::file_read, how, on(fd, 5000), {CL_END_OF_FILE, 0, 0});
    }
}

MPI_CASE("a full disk ends a write with ENOSPC", 1) {
    if (::access("/dev/full", W_OK) != 0) {
        skip_case("the system has no /dev/full");
    }
    const failure_bench bench(300'000);
    for (const form how : all_forms) {
        const descriptor fd("/dev/full", O_WRONLY);
        bench.expect(command::file_write, how, on(fd, 0), {CL_FILE_ERROR, ENOSPC, 0});
        for (const bool buffered : {true, false}) {
            const stream opened("/dev/full", "wb");
            const stream twin("/dev/full", "wb");
            if (!buffered) {
                std::setvbuf(opened, nullptr, _IONBF, 0);
                std::setvbuf(twin, nullptr, _IONBF, 0);
            }
            const wanted w = as_fwrite(twin, bench.range(bench.size));
            CHECK(w.error == ENOSPC);
            bench.expect(command::stream_write, how, on(opened), w);
            CHECK(std::ferror(opened) != 0);
            CHECK(std::feof(opened) == 0);
        }
    }
}

MPI_CASE(
    "a write into a buffered stream succeeds although the disk is full, like fwrite; fflush "
    "reports the error",
    1) {
    if (::access("/dev/full", W_OK) != 0) {
        skip_case("the system has no /dev/full");
    }
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(100, 1);
    const stream opened("/dev/full", "wb");
    expect_moved(write_stream(queue, buffer, 0, 100, opened), 100);
    CHECK(std::fflush(opened) == EOF);
    CHECK(errno == ENOSPC);
}

MPI_CASE("a write beyond the size limit writes up to the limit and ends with EFBIG", 1) {
    const failure_bench bench(300'000);
    constexpr std::size_t limit = 200'000;
    for (const form how : all_forms) {
        const temporary_file file;
        const file_size_limit in_force(limit);
        const descriptor fd(file.path(), O_RDWR);
        bench.expect(command::file_write, how, on(fd, 1000), {CL_FILE_ERROR, EFBIG, limit - 1000});
        bytes content(1000);
        const bytes moved = bench.range(limit - 1000);
        content.insert(content.end(), moved.begin(), moved.end());
        expect_same(file.content(), content);
    }
    for (const form how : all_forms) {
        const temporary_file file;
        const temporary_file other;
        const file_size_limit in_force(limit);
        const stream opened(file.path(), "wb");
        const stream twin(other.path(), "wb");
        std::setvbuf(opened, nullptr, _IONBF, 0);
        std::setvbuf(twin, nullptr, _IONBF, 0);
        const wanted w = as_fwrite(twin, bench.range(bench.size));
        CHECK(w.error == EFBIG);
        CHECK(w.moved == limit);
        bench.expect(command::stream_write, how, on(opened), w);
        expect_same(file.content(), bench.range(limit));
        CHECK(std::ferror(opened) != 0);
    }
}

MPI_CASE("a file opened for the other direction is EBADF and unchanged", 1) {
    const failure_bench bench(100'000);
    const temporary_file file(pattern(2, 200'000));
    for (const form how : all_forms) {
        const descriptor reading(file.path(), O_RDONLY);
        const descriptor writing(file.path(), O_WRONLY);
        bench.expect(command::file_write, how, on(reading, 0), {CL_FILE_ERROR, EBADF, 0});
        bench.expect(command::file_read, how, on(writing, 0), {CL_FILE_ERROR, EBADF, 0});
        const stream in(file.path(), "rb");
        const stream out(file.path(), "ab");
        bench.expect(command::stream_write, how, on(in), {CL_FILE_ERROR, EBADF, 0});
        CHECK(std::ferror(in) != 0);
        bench.expect(command::stream_read, how, on(out), {CL_FILE_ERROR, EBADF, 0});
        CHECK(std::ferror(out) != 0);
        CHECK(std::feof(out) == 0);
    }
    expect_same(file.content(), pattern(2, 200'000));
}

MPI_CASE("a read of a write-only pipe or socket stream is EBADF, without waiting for bytes", 1) {
    const failure_bench bench(1000);
    for (const form how : all_forms) {
        pipe_ends pipe;
        const stream to_pipe(pipe.writing->give(), "wb");
        bench.expect(command::stream_read, how, on(to_pipe), {CL_FILE_ERROR, EBADF, 0});
        int ends[2];
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
        const descriptor far(ends[0]);
        const stream to_socket(ends[1], "wb");
        bench.expect(command::stream_read, how, on(to_socket), {CL_FILE_ERROR, EBADF, 0});
    }
}

MPI_CASE("a terminal whose stream has reached its end is not read again", 1) {
    const failure_bench bench(1000);
    const descriptor far(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    REQUIRE(::grantpt(far) == 0);
    REQUIRE(::unlockpt(far) == 0);
    char path[100];
    REQUIRE(::ptsname_r(far, path, sizeof path) == 0);
    const stream terminal(::open(path, O_RDWR | O_NOCTTY | O_CLOEXEC), "rb");
    const char end_of_input = 4;
    REQUIRE(::write(far, &end_of_input, 1) == 1);
    REQUIRE(std::fgetc(terminal) == EOF);
    REQUIRE(std::feof(terminal) != 0);
    for (const form how : all_forms) {
        bench.expect(command::stream_read, how, on(terminal), {CL_END_OF_FILE, 0, 0});
    }
}

MPI_CASE("the message of a failure contains the path", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.buffer(100);
    const temporary_file file(pattern(2, 50));
    const descriptor fd(file.path(), O_RDONLY);
    const stream opened(file.path(), "rb");
    for (const command which : {command::file_read, command::stream_read}) {
        event_handle event;
        CL_OK(issue(which, {queue, buffer, 0, 100, opened, fd}, event.out()));
        expect_file_failure(event, CL_END_OF_FILE, 0, 50);
        const std::string message = transfer_text(event, CL_TRANSFER_ERROR_MESSAGE);
        CAPTURE(message);
        CHECK(message.find("(" + file.path() + ") ended after 50 bytes") != std::string::npos);
    }
}

MPI_CASE(
    "a stream that fails without errno is EIO, and the message reports that there is no reason",
    1) {
    const failure_bench bench(1000);
    struct source {
        bytes left = pattern(2, 100);
        static ssize_t read(void *self, char *to, std::size_t size) {
            bytes &left = static_cast<source *>(self)->left;
            if (left.empty()) {
                return -1;
            }
            const std::size_t count = std::min(size, left.size());
            std::copy_n(left.begin(), count, to);
            left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(count));
            return static_cast<ssize_t>(count);
        }
        static ssize_t write(void *, const char *, std::size_t) { return 0; }
    };
    for (const form how : all_forms) {
        source from;
        const stream failing(
            ::fopencookie(&from, "r+b", {&source::read, &source::write, nullptr, nullptr}));
        bench.expect(command::stream_read, how, on(failing), {CL_FILE_ERROR, EIO, 100});
        const stream twin(::fopencookie(&from, "wb", {nullptr, &source::write, nullptr, nullptr}));
        const stream refusing(
            ::fopencookie(&from, "wb", {nullptr, &source::write, nullptr, nullptr}));
        std::setvbuf(twin, nullptr, _IONBF, 0);
        std::setvbuf(refusing, nullptr, _IONBF, 0);
        wanted w = as_fwrite(twin, bench.range(bench.size));
        CHECK(w.error == 0);
        w.error = EIO;
        bench.expect(command::stream_write, how, on(refusing), w);
    }
    source from{{}};
    const stream failing(::fopencookie(&from, "rb", {&source::read, nullptr, nullptr, nullptr}));
    event_handle event;
    CL_OK(
        issue(command::stream_read, {bench.queue, bench.buffer, 0, 100, failing, -1}, event.out()));
    expect_file_failure(event, CL_FILE_ERROR, EIO, 0);
    const std::string message = transfer_text(event, CL_TRANSFER_ERROR_MESSAGE);
    CAPTURE(message);
    CHECK(message.find("failed after 0 bytes: no reason is known, because errno is 0") !=
          std::string::npos);
}

MPI_CASE(
    "a closed descriptor or an O_PATH descriptor is EBADF, a directory EISDIR, a pipe or FIFO "
    "ESPIPE",
    1) {
    const failure_bench bench(100'000);
    const pipe_ends pipe;
    const descriptor folder(test_folder(), O_RDONLY | O_DIRECTORY);
    const temporary_file file(pattern(2, 200'000));
    const descriptor name_only(file.path(), O_PATH);
    const std::string fifo_path = new_path();
    REQUIRE(::mkfifo(fifo_path.c_str(), 0600) == 0);
    // The FIFO has no writer, so the library would block if it opened the FIFO again.
    const descriptor fifo(fifo_path, O_RDONLY | O_NONBLOCK);
    int closed = ::dup(folder);
    ::close(closed);
    for (const form how : all_forms) {
        bench.expect(command::file_read, how, on(fifo, 0), {CL_FILE_ERROR, ESPIPE, 0});
        for (const command which : {command::file_write, command::file_read}) {
            bench.expect(which, how, on(closed, 0), {CL_FILE_ERROR, EBADF, 0});
            bench.expect(which, how, on(name_only, 0), {CL_FILE_ERROR, EBADF, 0});
            bench.expect(which, how, on(writes_file(which) ? *pipe.writing : *pipe.reading, 0),
                         {CL_FILE_ERROR, ESPIPE, 0});
        }
        bench.expect(command::file_read, how, on(folder, 0), {CL_FILE_ERROR, EISDIR, 0});
    }
}

MPI_CASE("a stream whose descriptor was closed directly is EBADF", 1) {
    const failure_bench bench(100'000);
    const temporary_file file(pattern(2, 200'000));
    for (const form how : all_forms) {
        for (const command which : {command::stream_write, command::stream_read}) {
            const stream opened(file.path(), "r+b");
            ::close(::fileno(opened));
            bench.expect(which, how, on(opened), {CL_FILE_ERROR, EBADF, 0});
        }
    }
}

MPI_CASE("an offset beyond the largest file size is refused by the system", 1) {
    const failure_bench bench(300'000);
    const temporary_file file(pattern(2, 1000));
    const descriptor fd(file.path(), O_RDWR);
    constexpr off_t last = std::numeric_limits<off_t>::max();
    for (const off_t at : {last, last - 10, last - 200'000}) {
        bytes memory(10);
        errno = 0;
        const bool refuses_reads = ::pread(fd, memory.data(), memory.size(), at) < 0;
        const int read_error = errno;
        for (const form how : all_forms) {
            if (refuses_reads) {
                bench.expect(command::file_read, how, on(fd, at), {CL_FILE_ERROR, read_error, 0});
            }
            event_handle event;
            file_call c = on(fd, at);
            c.queue = bench.queue;
            c.buffer = bench.buffer;
            c.size = bench.size;
            CL_OK(issue(command::file_write, c, event.out()));
            expect_failure(event, CL_FILE_ERROR);
            CHECK(transfer_info<std::size_t>(event, CL_TRANSFER_BYTES) == 0);
        }
    }
    expect_same(file.content(), pattern(2, 1000));
}

MPI_CASE(
    "a pipe without reader is EPIPE without SIGPIPE, and the signal's handler and mask do not "
    "change",
    1) {
    const failure_bench bench(300'000);
    struct sigaction before {};
    REQUIRE(::sigaction(SIGPIPE, nullptr, &before) == 0);
    const bool kills = before.sa_handler == SIG_DFL;
    REQUIRE(kills);
    for (const form how : all_forms) {
        pipe_ends pipe;
        stream opened(pipe.writing->give(), "wb");
        pipe.reading->close();
        bench.expect(command::stream_write, how, on(opened), {CL_FILE_ERROR, EPIPE, 0});
        CHECK(std::ferror(opened) != 0);
        sigset_t pending;
        sigset_t mask;
        REQUIRE(::sigpending(&pending) == 0);
        REQUIRE(::pthread_sigmask(SIG_SETMASK, nullptr, &mask) == 0);
        CHECK(::sigismember(&pending, SIGPIPE) == 0);
        CHECK(::sigismember(&mask, SIGPIPE) == 0);
        // Closing the stream writes its buffered bytes, which raises SIGPIPE in the program.
        std::signal(SIGPIPE, SIG_IGN);
        opened.close();
        std::signal(SIGPIPE, SIG_DFL);
    }
}

MPI_CASE(
    "a read that must first write the stream's buffer to a socket without reader causes no SIGPIPE",
    1) {
    const failure_bench bench(1000);
    for (const form how : all_forms) {
        int ends[2];
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
        stream opened(ends[0], "r+b");
        REQUIRE(std::fputs("held back", opened) >= 0);
        ::close(ends[1]);
        bench.expect(command::stream_read, how, on(opened), {CL_FILE_ERROR, EPIPE, 0});
        std::signal(SIGPIPE, SIG_IGN);
        opened.close();
        std::signal(SIGPIPE, SIG_DFL);
    }
}

MPI_CASE("a pipe whose writer closes early gives its bytes, then CL_END_OF_FILE", 1) {
    const failure_bench bench(10'000);
    for (const form how : all_forms) {
        pipe_ends pipe;
        const bytes sent = pattern(2, 3000);
        REQUIRE(::write(*pipe.writing, sent.data(), sent.size()) == 3000);
        pipe.writing->close();
        const stream opened(pipe.reading->give(), "rb");
        bench.expect(command::stream_read, how, on(opened), {CL_END_OF_FILE, 0, 3000});
        CHECK(std::feof(opened) != 0);
    }
}

MPI_CASE("after a failure, later commands on the same stream and descriptor work", 1) {
    const failure_bench bench(1000);
    const temporary_file file(pattern(2, 500));
    const stream opened(file.path(), "r+b");
    const descriptor fd(file.path(), O_RDWR);
    bench.expect(command::stream_read, form::non_blocking, on(opened), {CL_END_OF_FILE, 0, 500});
    bench.expect(command::file_read, form::non_blocking, on(fd, 0), {CL_END_OF_FILE, 0, 500});
    const queue_handle queue = bench.cl.in_order_queue();
    expect_moved(write_file(queue, bench.buffer, 0, 1000, fd, 500), 1000);
    std::clearerr(opened);
    expect_moved(read_stream(queue, bench.buffer, 2000, 1000, opened), 1000);
    bench.cl.expect(bench.buffer, 2000, 1000, 5);
}

MPI_CASE("commands that wait for a failed command fail and do not access their files", 1) {
    const failure_bench bench(1000);
    const temporary_file file(pattern(2, 500));
    const temporary_file other(pattern(3, 700));
    const descriptor fd(file.path(), O_RDONLY);
    const descriptor other_fd(other.path(), O_RDWR);
    const stream other_stream(other.path(), "r+b");
    const event_handle gate = bench.cl.user_event();
    const event_handle failing = read_file(bench.queue, bench.buffer, 0, 1000, fd, 0, {gate});
    const queue_handle queue = bench.cl.in_order_queue();
    const queue_handle second = bench.cl.in_order_queue();
    std::vector<event_handle> waiting;
    const auto enqueue = [&] {
        waiting.push_back(write_file(queue, bench.buffer, 0, 1000, other_fd, 0, {failing}));
        waiting.push_back(write_stream(second, bench.buffer, 0, 1000, other_stream, {failing}));
    };
    enqueue();
    CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
    expect_file_failure(failing, CL_END_OF_FILE, 0, 500);
    enqueue();  // now with an event that has already failed
    for (const event_handle &event : waiting) {
        expect_file_failure(event, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, 0, 0);
    }
    CHECK(std::ftell(other_stream) == 0);
    REQUIRE(std::fflush(other_stream) == 0);
    expect_same(other.content(), pattern(3, 700));
}

MPI_CASE("a command's status and cause are known as soon as a wait for it has failed", 1) {
    const failure_bench bench(1000);
    const temporary_file file(pattern(2, 500));
    const descriptor fd(file.path(), O_RDWR);
    const std::vector<queue_set> queues = bench.cl.independent_queues(1);
    for (int i = 0; i < 10; ++i) {
        const event_handle gate = bench.cl.user_event();
        const event_handle failing = read_file(bench.queue, bench.buffer, 0, 1000, fd, 0, {gate});
        const event_handle behind = read_file(bench.queue, bench.buffer, 0, 100, fd, 0);
        const event_handle listed =
            read_file(queues.back()[0], bench.buffer, 0, 100, fd, 0, {failing});
        CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
        for (const cl_event event : {cl_event{behind}, cl_event{listed}}) {
            CHECK(clWaitForEvents(1, &event) < 0);
            expect_file_failure(event, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, 0, 0);
        }
    }
}

MPI_CASE(
    "the message of a failure contains the file, the call, the bytes and the system's error text",
    1) {
    const failure_bench bench(1000);
    const temporary_file file(pattern(2, 500));
    const descriptor fd(file.path(), O_WRONLY);
    const event_handle event = read_file(bench.queue, bench.buffer, 0, 1000, fd, 0);
    expect_failed(event);
    const std::string text = transfer_text(event, CL_TRANSFER_ERROR_MESSAGE);
    CAPTURE(text);
    CHECK(text.find("descriptor " + std::to_string(static_cast<int>(fd))) != std::string::npos);
    CHECK(text.find("pread") != std::string::npos);
    CHECK(text.find("Bad file descriptor") != std::string::npos);
}
