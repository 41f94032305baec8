#include "stdio/stream_access.hpp"

#include <fcntl.h>
#include <poll.h>
#include <stdio_ext.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>

#include "pipeline/file_operation.hpp"
#include "stdio/file_failure.hpp"
#include "stdio/file_name.hpp"
#include "stdio/file_signals.hpp"

namespace cldist {
namespace {

// An event descriptor that becomes readable when the program ends. Negative if there is none.
int end_of_program() {
    static const int descriptor = [] {
        const int made = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (made >= 0) at_end_of_files([] { eventfd_write(end_of_program(), 1); });
        return made;
    }();
    return descriptor;
}

// The number of bytes in the stream's buffer. Only glibc provides it.
std::optional<std::size_t> bytes_held(std::FILE *stream) {
#ifdef __GLIBC__
    return std::max<std::ptrdiff_t>(stream->_IO_read_end - stream->_IO_read_ptr, 0);
#else
    static_cast<void>(stream);
    return std::nullopt;
#endif
}

// exit() locks all streams. In glibc 2.39 it therefore waits for a thread that is in fread. The
// bytes of pipes, sockets and terminals may never arrive. For these the transfer waits before
// fread, where the end of the program interrupts it. fread reads nothing if the stream is not open
// for reading or is at its end.
bool may_wait(std::FILE *stream) {
    if (__freadable(stream) == 0 || std::feof(stream) != 0) return false;
    struct stat status {};
    const int descriptor = fileno(stream);
    if (descriptor < 0 || fstat(descriptor, &status) != 0) return false;
    if (!S_ISFIFO(status.st_mode) && !S_ISSOCK(status.st_mode) && !S_ISCHR(status.st_mode))
        return false;
    return (fcntl(descriptor, F_GETFL) & O_NONBLOCK) == 0 && bytes_held(stream) &&
           end_of_program() >= 0;
}

// Waits until fread can return bytes, and returns how many it returns without blocking. Returns 0
// if the program ends.
std::size_t wait_for_bytes(std::FILE *stream, std::size_t wanted) {
    if (const std::size_t held = bytes_held(stream).value_or(0); held != 0)
        return std::min(wanted, held);
    std::array<pollfd, 2> polled{{{fileno(stream), POLLIN, 0}, {end_of_program(), POLLIN, 0}}};
    while (poll(polled.data(), polled.size(), -1) < 0 && errno == EINTR) continue;
    if (polled[0].revents == 0 && polled[1].revents != 0) return 0;
    int there = 0;
    // End of file, or an error.
    if (ioctl(fileno(stream), FIONREAD, &there) != 0 || there <= 0) return wanted;
    return std::min(wanted, static_cast<std::size_t>(there));
}

class StreamAccess final : public FileAccess {
public:
    explicit StreamAccess(std::FILE *stream) : stream_(stream), lane_(FileLane::of(stream)) {}

    [[nodiscard]] std::string name() const override { return name_of_stream(stream_); }
    [[nodiscard]] std::shared_ptr<FileLane> lane() const override { return lane_; }

    Status begin() override {
        flockfile(stream_);
        return {};
    }
    void end() override { funlockfile(stream_); }

    FileResult read(std::size_t offset, std::byte *to, std::size_t size) override {
        const FileSignalsHeld held;  // a read may first write the stream's buffer
        const bool waits = may_wait(stream_);
        // The peer may answer only after it has received bytes that are still in the buffer.
        if (waits && __fpending(stream_) != 0 && std::fflush(stream_) != 0)
            return {0, file_failure(errno, "fflush", name(), offset)};
        std::size_t moved = 0;
        int error = 0;
        while (moved < size) {
            const std::size_t wanted = waits ? wait_for_bytes(stream_, size - moved) : size - moved;
            if (wanted == 0)
                return {moved, Status::failure(CL_TRANSFER_ABANDONED,
                                               "the program ended before the bytes arrived")};
            errno = 0;
            const std::size_t got = std::fread(to + moved, 1, wanted, stream_);
            error = errno;
            moved += got;
            if (got < wanted) break;
        }
        if (moved == size) return {moved, {}};
        // The indicators may have been set before this call.
        const bool failed = std::ferror(stream_) != 0 && (error != 0 || std::feof(stream_) == 0);
        return {moved, failed ? file_failure(error, "fread", name(), offset + moved)
                              : end_of_file(name(), offset + moved)};
    }

    FileResult write(std::size_t offset, const std::byte *from, std::size_t size) override {
        const FileSignalsHeld held;
        errno = 0;
        const std::size_t moved = std::fwrite(from, 1, size, stream_);
        const int error = errno;
        if (moved == size) return {moved, {}};
        return {moved, file_failure(error, "fwrite", name(), offset + moved)};
    }

private:
    std::FILE *const stream_;
    const std::shared_ptr<FileLane> lane_;
};

}  // namespace

std::shared_ptr<FileAccess> make_stream_access(std::FILE *stream) {
    return std::make_shared<StreamAccess>(stream);
}

}  // namespace cldist
