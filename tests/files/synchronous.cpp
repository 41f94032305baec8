/// File writes use descriptors that are as synchronous as the program's. This program defines its
/// own pwrite, which the library calls instead of the system's, and which records the descriptors'
/// flags. With CLDIST_DIRECT_IO=on the library opens the file a second time.

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string_view>
#include <vector>

#include "bare_device.hpp"

using namespace cldist_test;

namespace {

std::atomic<int> kept_by_all = O_SYNC | O_DSYNC;
std::atomic<int> had_by_any = 0;

}  // namespace

// In C++ the functions have different names, because headers redirect pwrite to pwrite64.
extern "C" ssize_t looking_pwrite(int, const void *, std::size_t, off_t) __asm__("pwrite");
extern "C" ssize_t looking_pwrite64(int, const void *, std::size_t, off_t) __asm__("pwrite64");

ssize_t looking_pwrite64(int fd, const void *bytes, std::size_t size, off_t offset) {
    const int flags = ::fcntl(fd, F_GETFL);
    kept_by_all &= flags;
    had_by_any |= flags;
    return ::syscall(SYS_pwrite64, fd, bytes, size, offset);
}
ssize_t looking_pwrite(int fd, const void *bytes, std::size_t size, off_t offset) {
    return looking_pwrite64(fd, bytes, size, offset);
}

int main() {
    constexpr std::size_t size = 1 << 20;
    const bare_device d(size);
    const char *const setting = std::getenv("CLDIST_DIRECT_IO");
    const bool direct = setting != nullptr && std::string_view(setting) == "on";
    std::string name = std::filesystem::temp_directory_path() / "cldist-test-XXXXXX";
    const int made = ::mkstemp(name.data());
    const int with_direct_io = ::open(name.c_str(), O_RDWR | O_DIRECT);
    if (direct && with_direct_io < 0)
        std::fprintf(stderr, "SKIP: direct I/O: the file system does not support it\n");
    for (const int flags : {0, O_DSYNC, O_SYNC, O_SYNC | O_APPEND}) {
        for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
            const int fd = ::open(name.c_str(), O_RDWR | flags);
            kept_by_all = O_SYNC | O_DSYNC | O_APPEND;
            had_by_any = 0;
            expect("a write",
                   clEnqueueReadBufferToFile(d.queue, d.buffer, blocking, 0, size, fd, 0, 0,
                                             nullptr, nullptr),
                   CL_SUCCESS);
            expect("clFinish", clFinish(d.queue), CL_SUCCESS);
            expect("the flags that all descriptors have", kept_by_all, flags);
            expect("the flags that any descriptor has", had_by_any & (O_SYNC | O_DSYNC | O_APPEND),
                   flags);
            if (with_direct_io >= 0)
                expect("whether a descriptor bypasses the page cache", (had_by_any & O_DIRECT) != 0,
                       direct && (flags & O_APPEND) == 0);
            ::close(fd);
        }
    }
    ::close(with_direct_io);
    ::close(made);
    ::unlink(name.c_str());
    d.release();
    return failures == 0 ? 0 : 1;
}
