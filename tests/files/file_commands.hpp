/// Short forms of file commands, and owned files, streams and descriptors.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transfers.hpp"

namespace cldist_test {

enum class command { stream_write, stream_read, file_write, file_read };

inline constexpr command all_commands[] = {command::stream_write, command::stream_read,
                                           command::file_write, command::file_read};

/// Whether the command writes to the file, and so reads the buffer.
inline bool writes_file(command which) {
    return which == command::stream_write || which == command::file_write;
}
inline bool uses_stream(command which) {
    return which == command::stream_write || which == command::stream_read;
}

/// The arguments of a call; `stream` or `fd` and `at` are used.
struct file_call {
    cl_command_queue queue = nullptr;
    cl_mem buffer = nullptr;
    std::size_t offset = 0;
    std::size_t size = 0;
    std::FILE *stream = nullptr;
    int fd = -1;
    off_t at = 0;
    cl_bool blocking = CL_FALSE;
    cl_uint number = 0;
    const cl_event *events = nullptr;
};

inline cl_int issue(command which, const file_call &c, cl_event *event) {
    switch (which) {
        case command::stream_write:
            return clEnqueueReadBufferToStdioFile(c.queue, c.buffer, c.blocking, c.offset, c.size,
                                                  c.stream, c.number, c.events, event);
        case command::stream_read:
            return clEnqueueWriteBufferFromStdioFile(c.queue, c.buffer, c.blocking, c.offset,
                                                     c.size, c.stream, c.number, c.events, event);
        case command::file_write:
            return clEnqueueReadBufferToFile(c.queue, c.buffer, c.blocking, c.offset, c.size, c.fd,
                                             c.at, c.number, c.events, event);
        case command::file_read:
            return clEnqueueWriteBufferFromFile(c.queue, c.buffer, c.blocking, c.offset, c.size,
                                                c.fd, c.at, c.number, c.events, event);
    }
    return CL_SUCCESS;
}

// Each of these functions requires success and returns the command's event.

inline event_handle stream_command(command which, cl_command_queue queue, cl_mem buffer,
                                   std::size_t offset, std::size_t size, std::FILE *stream,
                                   wait_list events = {}) {
    event_handle event;
    CL_OK(issue(which,
                {queue, buffer, offset, size, stream, -1, 0, CL_FALSE,
                 static_cast<cl_uint>(events.size()), data_of(events)},
                event.out()));
    return event;
}

inline event_handle write_stream(cl_command_queue queue, cl_mem buffer, std::size_t offset,
                                 std::size_t size, std::FILE *stream, wait_list events = {}) {
    return stream_command(command::stream_write, queue, buffer, offset, size, stream, events);
}

inline event_handle read_stream(cl_command_queue queue, cl_mem buffer, std::size_t offset,
                                std::size_t size, std::FILE *stream, wait_list events = {}) {
    return stream_command(command::stream_read, queue, buffer, offset, size, stream, events);
}

inline event_handle file_command(command which, cl_command_queue queue, cl_mem buffer,
                                 std::size_t offset, std::size_t size, int fd, off_t at,
                                 wait_list events = {}) {
    event_handle event;
    CL_OK(issue(which,
                {queue, buffer, offset, size, nullptr, fd, at, CL_FALSE,
                 static_cast<cl_uint>(events.size()), data_of(events)},
                event.out()));
    return event;
}

inline event_handle write_file(cl_command_queue queue, cl_mem buffer, std::size_t offset,
                               std::size_t size, int fd, off_t at, wait_list events = {}) {
    return file_command(command::file_write, queue, buffer, offset, size, fd, at, events);
}

inline event_handle read_file(cl_command_queue queue, cl_mem buffer, std::size_t offset,
                              std::size_t size, int fd, off_t at, wait_list events = {}) {
    return file_command(command::file_read, queue, buffer, offset, size, fd, at, events);
}

/// Waits for a file command that must succeed and must have moved `size` bytes.
inline void expect_moved(cl_event event, std::size_t size) {
    expect_complete(event);
    CHECK(transfer_info<std::size_t>(event, CL_TRANSFER_BYTES) == size);
    CHECK(transfer_info<int>(event, CL_TRANSFER_ERRNO) == 0);
}

/// Waits for a file command that must fail with these values; `error` is errno.
inline void expect_file_failure(cl_event event, cl_int code, int error, std::size_t bytes_moved) {
    expect_failure(event, code);
    CHECK(transfer_info<int>(event, CL_TRANSFER_ERRNO) == error);
    CHECK(transfer_info<std::size_t>(event, CL_TRANSFER_BYTES) == bytes_moved);
}

/// A folder that is removed when the process ends.
inline const std::filesystem::path &test_folder() {
    struct folder {
        folder() {
            std::string name = std::filesystem::temp_directory_path() / "cldist-test-XXXXXX";
            REQUIRE(::mkdtemp(name.data()) != nullptr);
            path = name;
        }
        folder(const folder &) = delete;
        folder &operator=(const folder &) = delete;
        ~folder() {
            std::error_code ignored;
            std::filesystem::remove_all(path, ignored);
        }
        std::filesystem::path path;
    };
    static const folder instance;
    return instance.path;
}

inline std::string new_path() {
    static int number = 0;
    return test_folder() / ("file" + std::to_string(number++));
}

inline bytes content_of(const std::string &path) {
    std::FILE *file = std::fopen(path.c_str(), "rb");
    REQUIRE(file != nullptr);
    bytes content;
    unsigned char part[65536];
    for (std::size_t n = 0; (n = std::fread(part, 1, sizeof part, file)) != 0;) {
        content.insert(content.end(), part, part + n);
    }
    REQUIRE(std::fclose(file) == 0);
    return content;
}

/// A file with these contents. The destructor removes it.
class temporary_file {
public:
    explicit temporary_file(const bytes &content = {}) : path_(new_path()) {
        std::FILE *file = std::fopen(path_.c_str(), "wb");
        REQUIRE(file != nullptr);
        if (!content.empty()) {
            REQUIRE(std::fwrite(content.data(), 1, content.size(), file) == content.size());
        }
        REQUIRE(std::fclose(file) == 0);
    }
    temporary_file(const temporary_file &) = delete;
    temporary_file &operator=(const temporary_file &) = delete;
    ~temporary_file() { ::unlink(path_.c_str()); }

    [[nodiscard]] const std::string &path() const { return path_; }
    [[nodiscard]] bytes content() const { return content_of(path_); }
    [[nodiscard]] off_t size() const {
        struct stat status {};
        REQUIRE(::stat(path_.c_str(), &status) == 0);
        return status.st_size;
    }

private:
    std::string path_;
};

/// Owns an open stream.
class stream {
public:
    stream(const std::string &path, const char *mode) : stream(std::fopen(path.c_str(), mode)) {}
    stream(int fd, const char *mode) : stream(::fdopen(fd, mode)) {}
    explicit stream(std::FILE *file) : file_(file) { REQUIRE(file_ != nullptr); }
    stream(stream &&other) noexcept : file_(std::exchange(other.file_, nullptr)) {}
    stream(const stream &) = delete;
    stream &operator=(const stream &) = delete;
    ~stream() {
        if (file_ != nullptr) {
            std::fclose(file_);
        }
    }

    operator std::FILE *() const { return file_; }  // NOLINT: passed to C calls
    void close() {
        if (file_ != nullptr) {
            std::fclose(std::exchange(file_, nullptr));
        }
    }

private:
    std::FILE *file_;
};

/// Owns an open descriptor.
class descriptor {
public:
    descriptor(const std::string &path, int flags)
        : descriptor(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
    explicit descriptor(int fd) : fd_(fd) { REQUIRE(fd_ >= 0); }
    descriptor(descriptor &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    descriptor(const descriptor &) = delete;
    descriptor &operator=(const descriptor &) = delete;
    ~descriptor() { close(); }

    operator int() const { return fd_; }  // NOLINT: passed to C calls
    void close() {
        if (fd_ >= 0) {
            ::close(std::exchange(fd_, -1));
        }
    }
    /// Passes the descriptor to a new owner, which must close it.
    int give() { return std::exchange(fd_, -1); }

private:
    int fd_;
};

/// The two ends of a pipe.
struct pipe_ends {
    pipe_ends() {
        int fds[2];
        REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
        reading = std::make_unique<descriptor>(fds[0]);
        writing = std::make_unique<descriptor>(fds[1]);
    }
    std::unique_ptr<descriptor> reading;
    std::unique_ptr<descriptor> writing;
};

inline bytes first_of(const bytes &content, std::size_t size) {
    return {content.begin(), content.begin() + static_cast<std::ptrdiff_t>(size)};
}

/// Compares the bytes, and prints only where they first differ.
inline void expect_same(const bytes &found, const bytes &wanted) {
    CHECK(found.size() == wanted.size());
    const auto [one, other] =
        std::mismatch(found.begin(), found.end(), wanted.begin(), wanted.end());
    const bool same = one == found.end() && other == wanted.end();
    CHECK_MESSAGE(same, "byte ", one - found.begin(), " of ", wanted.size(),
                  " is the first difference");
}

}  // namespace cldist_test
