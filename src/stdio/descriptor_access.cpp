#include "stdio/descriptor_access.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <system_error>

#include <fmt/format.h>

#include "base/config.hpp"
#include "base/log.hpp"
#include "stdio/file_failure.hpp"
#include "stdio/file_name.hpp"
#include "stdio/file_signals.hpp"

namespace cldist {
namespace {

// On any file system, direct I/O accepts file offsets and addresses that are multiples of this.
constexpr std::size_t alignment = 4096;

// Opens the file of a descriptor again, with direct I/O. It opens only regular files and block
// devices. Opening a pipe may block until its other end is opened, and opening a terminal or tape
// may change it.
class DirectDescriptor {
public:
    DirectDescriptor() = default;
    DirectDescriptor(const DirectDescriptor &) = delete;
    DirectDescriptor &operator=(const DirectDescriptor &) = delete;
    ~DirectDescriptor() { close(); }

    void open(int original) {
        const int flags = fcntl(original, F_GETFL);
        struct stat status {};
        // Calls on the original descriptor then report the error.
        if (flags < 0 || (flags & O_PATH) != 0 || fstat(original, &status) != 0) return;
        if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode)) return;
        constexpr int kept = O_ACCMODE | O_SYNC | O_DSYNC | O_NOATIME;
        descriptor_ = ::open(path_of(original).c_str(), (flags & kept) | O_DIRECT | O_CLOEXEC);
        if (descriptor_ < 0) warn(original, errno);
        appends_ = (flags & O_APPEND) != 0;
    }
    void close() {
        if (descriptor_ >= 0) ::close(descriptor_);
        descriptor_ = -1;
    }
    [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
    [[nodiscard]] int get() const { return descriptor_; }
    /// Returns true if the original's writes go to the end of the file.
    [[nodiscard]] bool appends() const { return appends_; }

    static void warn(int original, int error) {
        static std::once_flag once;
        std::call_once(once, [&] {
            log_warning(
                "CLDIST_DIRECT_IO: {} uses the page cache: {} (logged once; other files may use "
                "it, too)",
                name_of_descriptor(original), std::generic_category().message(error));
        });
    }

private:
    int descriptor_ = -1;
    bool appends_ = false;
};

class DescriptorAccess final : public FileAccess {
public:
    DescriptorAccess(int descriptor, off_t start)
        : descriptor_(descriptor),
          start_(start),
          wants_direct_io_(config().direct_io == Switch::on) {}

    [[nodiscard]] std::string name() const override { return name_of_descriptor(descriptor_); }
    [[nodiscard]] bool parallel_reads() const override { return true; }
    [[nodiscard]] std::size_t granularity() const override {
        return wants_direct_io_ ? alignment : 1;
    }
    [[nodiscard]] std::size_t first_block() const override {
        return wants_direct_io_
                   ? (alignment - static_cast<std::size_t>(start_) % alignment) % alignment
                   : 0;
    }
    [[nodiscard]] std::size_t memory_alignment() const override { return granularity(); }
    [[nodiscard]] bool direct_io() const override { return used_; }

    Status begin() override {
        if (wants_direct_io_) direct_.open(descriptor_);
        return {};
    }
    void end() override { direct_.close(); }

    // Several threads read cached bytes at the same time. Uncached bytes arrive fastest if one
    // thread at a time requests them in order, because the system reads ahead.
    FileResult read(std::size_t offset, std::byte *to, std::size_t size) override {
        const std::size_t cached = wants_direct_io_ ? 0 : read_cached(offset, to, size);
        if (cached == size) return {size, {}};
        std::unique_lock one_at_a_time(uncached_, std::defer_lock);
        if (knows_cached_) one_at_a_time.lock();
        FileResult rest =
            move("pread", offset + cached, to + cached, size - cached, direct_.is_open(), pread);
        rest.bytes += cached;
        return rest;
    }
    FileResult write(std::size_t offset, const std::byte *from, std::size_t size) override {
        const FileSignalsHeld held;
        return move("pwrite", offset, from, size, direct_.is_open() && !direct_.appends(), pwrite);
    }

private:
    // Beyond the largest offset the result is negative, and the system refuses it.
    [[nodiscard]] off_t position_of(std::size_t offset) const {
        return static_cast<off_t>(static_cast<std::size_t>(start_) + offset);
    }

    // Reads the cached bytes at the start of the range, if the file system supports this query.
    std::size_t read_cached(std::size_t offset, std::byte *to, std::size_t size) {
        const iovec memory{to, size};
        const ssize_t count = preadv2(descriptor_, &memory, 1, position_of(offset), RWF_NOWAIT);
        if (count < 0 && errno == EOPNOTSUPP) knows_cached_ = false;
        return count > 0 ? static_cast<std::size_t>(count) : 0;
    }

    // One call moves at most 2 GiB and may be interrupted.
    template <typename Byte, typename Call>
    FileResult move(const char *name_of_call, std::size_t offset, Byte *host, std::size_t size,
                    bool may_be_direct, Call &&call) {
        std::size_t moved = 0;
        while (moved < size) {
            const off_t position = position_of(offset + moved);
            const std::size_t direct =
                may_be_direct ? direct_size(position, host + moved, size - moved) : 0;
            const ssize_t count = direct != 0
                                      ? call(direct_.get(), host + moved, direct, position)
                                      : call(descriptor_, host + moved, size - moved, position);
            if (count == 0) return {moved, end_of_file(name(), offset + moved)};
            if (count > 0) {
                moved += static_cast<std::size_t>(count);
                if (direct != 0) used_ = true;
            } else if (direct != 0 && errno == EINVAL) {
                // Some file systems refuse direct I/O only now.
                DirectDescriptor::warn(descriptor_, errno);
                refused_ = true;
            } else if (errno != EINTR) {
                return {moved, file_failure(errno, name_of_call, name(), offset + moved)};
            }
        }
        return {moved, {}};
    }

    // Returns how many bytes can bypass the cache: all whole pages if file position and memory are
    // page-aligned, otherwise 0.
    [[nodiscard]] std::size_t direct_size(off_t position, const std::byte *host,
                                          std::size_t size) const {
        const bool aligned =
            position % alignment == 0 && reinterpret_cast<std::uintptr_t>(host) % alignment == 0;
        return !refused_ && aligned ? size / alignment * alignment : 0;
    }

    const int descriptor_;
    const off_t start_;
    const bool wants_direct_io_;
    DirectDescriptor direct_;
    std::atomic<bool> refused_ = false;
    std::atomic<bool> used_ = false;
    std::atomic<bool> knows_cached_ = !wants_direct_io_;
    std::mutex uncached_;
};

}  // namespace

std::shared_ptr<FileAccess> make_descriptor_access(int descriptor, off_t start) {
    return std::make_shared<DescriptorAccess>(descriptor, start);
}

}  // namespace cldist
