#include "file_transfers.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <CL/cl_ext_dist.h>
#include <fmt/format.h>

#include "ceiling_points.hpp"
#include "ocl/query.hpp"

namespace cldist::tool {
namespace {

[[noreturn]] void refused(const char *what) {
    throw TuneError(fmt::format("{}: {}", what, std::strerror(errno)));
}

template <typename Byte, typename Call>
void move_all(Call call, const char *what, int descriptor, Byte *memory, std::size_t size) {
    for (std::size_t done = 0; done < size;) {
        const ssize_t moved =
            call(descriptor, memory + done, size - done, static_cast<off_t>(done));
        if (moved < 0 && errno == EINTR) continue;
        if (moved < 0) refused(what);
        if (moved == 0) throw TuneError(fmt::format("{}: the temporary file ends early", what));
        done += static_cast<std::size_t>(moved);
    }
}

}  // namespace

FileTransfers::FileTransfers(const DeviceEnd &end, const std::string &directory) : end_(end) {
    std::string name = directory + "/cldist-tune-XXXXXX";
    descriptor_ = mkostemp(name.data(), O_CLOEXEC);
    if (descriptor_ < 0)
        throw TuneError(
            fmt::format("cannot create a file in {}: {}; choose another folder with --directory",
                        directory, std::strerror(errno)));
    unlink(name.c_str());
    try {
        fill();
    } catch (const TuneError &error) {
        close(descriptor_);
        throw TuneError(fmt::format(
            "cannot write a file of {} in {}: {}; choose another folder with --directory",
            size_text(end_.largest()), directory, error.what()));
    }
}

FileTransfers::~FileTransfers() { close(descriptor_); }

void FileTransfers::fill() const {
    move_all(pwrite, "pwrite", descriptor_, end_.pattern().data(), end_.largest());
}

void FileTransfers::once(std::size_t size) const {
    cl_event event = nullptr;
    if (route_ == Route::from_file) {
        check(clEnqueueWriteBufferFromFile(end_.queue(), end_.in(), CL_FALSE, 0, size, descriptor_,
                                           0, 0, nullptr, &event),
              "clEnqueueWriteBufferFromFile");
    } else {
        check(clEnqueueReadBufferToFile(end_.queue(), end_.out(), CL_FALSE, 0, size, descriptor_, 0,
                                        0, nullptr, &event),
              "clEnqueueReadBufferToFile");
    }
    finish(event, "a file command");
}

double FileTransfers::seconds(const Way &way, std::size_t size, unsigned count) {
    end_.take_way(route_, way);
    once(size);  // allocates the page-locked memory of this way
    const double start = now_seconds();
    for (unsigned i = 0; i < count; ++i) once(size);
    return (now_seconds() - start) / count;
}

bool FileTransfers::arrives(const Way &way, std::size_t size) {
    end_.take_way(route_, way);
    if (route_ == Route::from_file) {
        end_.clear_in(size);
        once(size);
        return end_.pattern_is_in(size);
    }
    std::vector<std::byte> found(size, std::byte{0xa5});
    move_all(pwrite, "pwrite", descriptor_, found.data(), size);
    once(size);
    move_all(pread, "pread", descriptor_, found.data(), size);
    return std::memcmp(found.data(), end_.pattern().data(), size) == 0;
}

std::vector<Curve::Point> FileTransfers::plain(Route route) const {
    std::vector<std::byte> memory(std::min(std::size_t{16} << 20U, end_.largest()));
    std::copy_n(end_.pattern().begin(), memory.size(), memory.begin());
    return ceiling_points(64U << 10U, memory.size(), [&](std::size_t size) {
        const double start = now_seconds();
        if (route == Route::from_file)
            move_all(pread, "pread", descriptor_, memory.data(), size);
        else
            move_all(pwrite, "pwrite", descriptor_, memory.data(), size);
        return now_seconds() - start;
    });
}

}  // namespace cldist::tool
