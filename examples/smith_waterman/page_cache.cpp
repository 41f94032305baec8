#include "page_cache.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace smith_waterman {
namespace {

class Descriptor {
public:
    explicit Descriptor(const std::string &path)
        : path_(path), fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
        if (fd_ < 0) fail(errno);
    }
    Descriptor(const Descriptor &) = delete;
    Descriptor &operator=(const Descriptor &) = delete;
    ~Descriptor() { close(fd_); }

    int get() const { return fd_; }
    [[noreturn]] void fail(int error) const {
        throw std::runtime_error(fmt::format("{}: {}", path_, std::strerror(error)));
    }

private:
    std::string path_;
    int fd_;
};

/// The fraction of the file that is in the page cache.
double share_in_memory(const Descriptor &file) {
    const off_t size = lseek(file.get(), 0, SEEK_END);
    const auto page = std::size_t(sysconf(_SC_PAGESIZE));
    void *map = mmap(nullptr, std::size_t(size), PROT_READ, MAP_SHARED, file.get(), 0);
    if (map == MAP_FAILED) file.fail(errno);
    std::vector<unsigned char> pages((std::size_t(size) + page - 1) / page);
    const int error = mincore(map, std::size_t(size), pages.data()) == 0 ? 0 : errno;
    munmap(map, std::size_t(size));
    if (error) file.fail(error);
    const auto there =
        std::count_if(pages.begin(), pages.end(), [](unsigned char flags) { return flags & 1; });
    return double(there) / double(pages.size());
}

}  // namespace

void warm_page_cache(const std::string &path) {
    const Descriptor file(path);
    std::vector<char> block(1 << 20);
    ssize_t got;
    while ((got = read(file.get(), block.data(), block.size())) > 0) {
    }
    if (got < 0) file.fail(errno);
}

double drop_page_cache(const std::string &path) {
    const Descriptor file(path);
    // Dirty pages would stay in the cache.
    if (fsync(file.get()) != 0) file.fail(errno);
    if (const int error = posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED)) file.fail(error);
    return share_in_memory(file);
}

}  // namespace smith_waterman
