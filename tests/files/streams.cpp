/// Commands leave a stream in the same state as fread and fwrite. Each step runs as a command on
/// one stream and as a call on a second stream, its twin. Then both are compared.

#include <algorithm>
#include <random>

#include "file_commands.hpp"

using namespace cldist_test;

namespace {

constexpr std::size_t stream_buffer_size = 400'000;

enum class action { write, read, seek, unread, put, get, flush, clear };

struct step {
    action what;
    long number = 0;  ///< bytes, or an offset
};

struct scenario {
    const char *name;
    const char *mode;
    std::size_t content;  ///< initial size of the file in bytes
    int buffering;
    std::size_t stream_buffer;
    std::vector<step> steps;
};

/// A stream and its twin.
class twins {
public:
    twins(const opencl &cl, const scenario &s)
        : cl_(cl),
          queue_(cl.in_order_queue()),
          buffer_(cl.filled(stream_buffer_size, 5)),
          file_(pattern(2, s.content)),
          twin_file_(pattern(2, s.content)),
          stream_(file_.path(), s.mode),
          twin_(twin_file_.path(), s.mode) {
        std::setvbuf(stream_, nullptr, s.buffering, s.stream_buffer);
        std::setvbuf(twin_, nullptr, s.buffering, s.stream_buffer);
    }

    void take(const step &s, cl_bool blocking) {
        const auto number = static_cast<std::size_t>(s.number);
        switch (s.what) {
            case action::write: return write(number, blocking);
            case action::read: return read(number, blocking);
            case action::seek:
                return both([&](std::FILE *f) { return std::fseek(f, s.number, SEEK_SET); });
            case action::unread:
                return both(
                    [&](std::FILE *f) { return std::ungetc(static_cast<int>(s.number), f); });
            case action::put:
                return both([&](std::FILE *f) { return std::fprintf(f, "%ld\n", s.number); });
            case action::get: return both([&](std::FILE *f) { return std::getc(f); });
            case action::flush: return both([&](std::FILE *f) { return std::fflush(f); });
            case action::clear:
                return both([&](std::FILE *f) {
                    std::clearerr(f);
                    return 0;
                });
        }
    }

    void compare() {
        CHECK(std::ftell(stream_) == std::ftell(twin_));
        CHECK((std::feof(stream_) != 0) == (std::feof(twin_) != 0));
        CHECK((std::ferror(stream_) != 0) == (std::ferror(twin_) != 0));
        // Compares without a flush, so both streams must also have buffered the same bytes.
        expect_same(file_.content(), twin_file_.content());
    }

    void end() {
        CHECK(std::fflush(stream_) == std::fflush(twin_));
        compare();
    }

private:
    template <typename Call>
    void both(Call &&call) {
        const int mine = call(stream_);
        const int his = call(twin_);
        CHECK(mine == his);
    }

    void write(std::size_t size, cl_bool blocking) {
        const bytes data = cl_.read(buffer_, 0, std::max<std::size_t>(size, 1));
        const std::size_t moved = std::fwrite(data.data(), 1, size, twin_);
        settle(command::stream_write, size, moved, blocking);
    }

    void read(std::size_t size, cl_bool blocking) {
        bytes memory = cl_.read(buffer_, 0, stream_buffer_size);
        const std::size_t moved = std::fread(memory.data(), 1, size, twin_);
        settle(command::stream_read, size, moved, blocking);
        expect_same(cl_.read(buffer_, 0, stream_buffer_size), memory);
    }

    void settle(command which, std::size_t size, std::size_t moved, cl_bool blocking) {
        file_call c{};
        c.queue = queue_;
        c.buffer = buffer_;
        c.size = size;
        c.stream = stream_;
        c.blocking = blocking;
        event_handle event;
        const cl_int code = issue(which, c, event.out());
        if (moved == size) {
            CL_OK(code);
            expect_moved(event, moved);
            return;
        }
        const cl_int wanted = std::ferror(twin_) != 0 ? CL_FILE_ERROR : CL_END_OF_FILE;
        if (blocking == CL_TRUE) {
            CHECK(code == wanted);
        }
        expect_failure(event, wanted);
        CHECK(transfer_info<std::size_t>(event, CL_TRANSFER_BYTES) == moved);
        // After a failure some queues accept no more commands.
        queue_ = cl_.in_order_queue();
        kept_.push_back(std::move(event));
    }

    const opencl &cl_;
    queue_handle queue_;
    buffer_handle buffer_;
    temporary_file file_;
    temporary_file twin_file_;
    stream stream_;
    stream twin_;
    std::vector<event_handle> kept_;
};

void compare_with_twin(const opencl &cl, const scenario &s) {
    for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
        CAPTURE(s.name);
        CAPTURE(blocking);
        twins both(cl, s);
        for (std::size_t i = 0; i < s.steps.size(); ++i) {
            CAPTURE(i);
            both.take(s.steps[i], blocking);
            both.compare();
        }
        both.end();
    }
}

const std::vector<scenario> &scenarios() {
    using enum action;
    static const std::vector<scenario> all{
        {"write a new file",
         "wb",
         0,
         _IOFBF,
         4096,
         {{write, 100}, {write, 4096}, {write, 200'000}, {write, 1}}},
        {"write mixed with fprintf",
         "wb",
         0,
         _IOFBF,
         4096,
         {{put, 17}, {write, 5000}, {put, 18}, {write, 9}, {put, 19}}},
        {"a large stream buffer",
         "wb",
         0,
         _IOFBF,
         300'000,
         {{write, 200'000}, {put, 1}, {write, 200'000}}},
        {"a stream buffer of odd size",
         "wb",
         0,
         _IOFBF,
         1000,
         {{put, 1}, {write, 150'001}, {write, 999}}},
        {"an unbuffered stream",
         "wb",
         0,
         _IONBF,
         0,
         {{write, 1}, {write, 5000}, {write, 200'000}, {put, 3}}},
        {"a line-buffered stream",
         "wb",
         0,
         _IOLBF,
         4096,
         {{write, 3}, {put, 3}, {write, 5000}, {write, 200'000}}},
        {"append", "ab", 1000, _IOFBF, 4096, {{write, 100}, {seek, 10}, {write, 70'000}}},
        {"append and read",
         "a+b",
         1000,
         _IOFBF,
         4096,
         {{read, 100}, {seek, 0}, {write, 70'000}, {seek, 5}, {read, 9}}},
        {"read a file",
         "rb",
         300'000,
         _IOFBF,
         4096,
         {{read, 100}, {read, 4096}, {read, 200'000}, {read, 1}}},
        {"read beside getc",
         "rb",
         300'000,
         _IOFBF,
         4096,
         {{get}, {read, 5000}, {get}, {read, 150'000}, {get}}},
        {"read unbuffered", "rb", 300'000, _IONBF, 0, {{read, 100}, {get}, {read, 200'000}}},
        {"read with a large stream buffer",
         "rb",
         300'000,
         _IOFBF,
         300'000,
         {{read, 10}, {read, 150'000}, {get}}},
        {"read after ungetc",
         "rb",
         300'000,
         _IOFBF,
         4096,
         {{read, 50}, {unread, 'x'}, {read, 100'000}, {unread, 'y'}}},
        {"read past the end",
         "rb",
         1000,
         _IOFBF,
         4096,
         {{read, 700}, {read, 301}, {read, 10}, {clear}, {read, 10}}},
        {"read exactly to the end", "rb", 1000, _IOFBF, 4096, {{read, 1000}, {read, 1}}},
        {"read the bytes before the end",
         "rb",
         200'000,
         _IOFBF,
         4096,
         {{read, 70'000}, {read, 140'000}}},
        {"write then read what was written",
         "w+b",
         0,
         _IOFBF,
         4096,
         {{write, 90'000}, {seek, 7}, {read, 80'000}}},
        {"switch directions with a flush",
         "r+b",
         9000,
         _IOFBF,
         4096,
         {{write, 5000}, {flush}, {seek, 5000}, {read, 3000}, {seek, 100}, {write, 7}, {flush}}},
        {"read, seek, write in the middle",
         "r+b",
         200'000,
         _IOFBF,
         4096,
         {{read, 10}, {seek, 100}, {write, 100'000}, {seek, 99}, {read, 100'001}}},
        {"read after a write without a flush in between",
         "r+b",
         200'000,
         _IOFBF,
         4096,
         {{write, 10}, {read, 100'000}}},
        {"write to a read-only stream",
         "rb",
         1000,
         _IOFBF,
         4096,
         {{read, 10}, {write, 100}, {read, 10}}},
        {"read from a write-only stream",
         "wb",
         0,
         _IOFBF,
         4096,
         {{write, 10}, {read, 100}, {write, 10}}},
        {"commands of no bytes",
         "r+b",
         1000,
         _IOFBF,
         4096,
         {{read, 0}, {read, 10}, {seek, 10}, {write, 0}}},
    };
    return all;
}

}  // namespace

MPI_CASE("commands on a stream change position, indicators, buffer and file as fread and fwrite do",
         1) {
    const opencl cl;
    for (const scenario &s : scenarios()) {
        compare_with_twin(cl, s);
    }
}

MPI_CASE("random sequences of commands and calls leave a stream and its twin in the same state",
         1) {
    const opencl cl;
    const std::uint64_t seed = 20'240'607;
    std::mt19937_64 random(seed);
    for (int round = 0; round < 15; ++round) {
        CAPTURE(seed);
        CAPTURE(round);
        scenario s{
            "random", "w+b", 0, round % 3 == 0 ? _IONBF : _IOFBF, round % 2 == 0 ? 4096U : 777U,
            {}};
        for (int i = 0; i < 8; ++i) {
            const long size =
                std::uniform_int_distribution<long>(0, i % 2 == 0 ? 5000 : 150'000)(random);
            const bool writes = random() % 2 == 0;
            s.steps.push_back(
                {action::seek, std::uniform_int_distribution<long>(0, 100'000)(random)});
            s.steps.push_back({writes ? action::write : action::read, size});
        }
        compare_with_twin(cl, s);
    }
}

MPI_CASE("an error indicator set before a command does not change its result", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(1000, 1);
    const temporary_file file(pattern(2, 100));
    const stream opened(file.path(), "rb");
    REQUIRE(std::fputc('x', opened) == EOF);
    REQUIRE(std::ferror(opened) != 0);
    expect_moved(read_stream(queue, buffer, 0, 60, opened), 60);
    expect_file_failure(read_stream(queue, buffer, 0, 60, opened), CL_END_OF_FILE, 0, 40);
    CHECK(std::ferror(opened) != 0);
}

MPI_CASE("commands work on memory streams", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(100'000, 1);
    char *memory = nullptr;
    std::size_t size = 0;
    {
        const stream opened(::open_memstream(&memory, &size));
        expect_moved(write_stream(queue, buffer, 0, 100'000, opened), 100'000);
    }
    const bytes found(memory, memory + size);
    std::free(memory);
    expect_same(found, pattern(1, 100'000));
}
