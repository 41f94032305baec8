#include "stdio/stream_access.hpp"

#include <cerrno>

#include <fmt/format.h>

#include "stdio/file_failure.hpp"
#include "stdio/file_signals.hpp"

namespace cldist {
namespace {

class StreamAccess final : public FileAccess {
public:
    explicit StreamAccess(std::FILE *stream) : stream_(stream), lane_(FileLane::of(stream)) {}

    [[nodiscard]] std::string name() const override { return fmt::format("stream {}", fmt::ptr(stream_)); }
    [[nodiscard]] std::shared_ptr<FileLane> lane() const override { return lane_; }

    Status begin() override {
        flockfile(stream_);
        return {};
    }
    void end() override { funlockfile(stream_); }

    FileResult read(std::size_t offset, std::byte *to, std::size_t size) override {
        const FileSignalsHeld held;  // reading may first write what the stream still holds
        errno = 0;
        const std::size_t moved = std::fread(to, 1, size, stream_);
        const int error = errno;
        if (moved == size) return {moved, {}};
        // The indicators may be older than this call.
        const bool failed = std::ferror(stream_) != 0 && (error != 0 || std::feof(stream_) == 0);
        return {moved,
                failed ? file_failure(error, "fread", name(), offset + moved) : end_of_file(name(), offset + moved)};
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

std::shared_ptr<FileAccess> make_stream_access(std::FILE *stream) { return std::make_shared<StreamAccess>(stream); }

}  // namespace cldist
