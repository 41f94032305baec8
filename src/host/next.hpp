#pragma once

#include <dlfcn.h>
#include <sys/types.h>
#include <sys/utsname.h>

#include <cstddef>
#include <ctime>

/// Calls of the functions that this library wraps, without the wrappers.
namespace cldist::host {

template <typename Function>
Function *next_function(const char *name, const char *version = nullptr) {
    void *found = version != nullptr ? dlvsym(RTLD_NEXT, name, version) : nullptr;
    if (found == nullptr) found = dlsym(RTLD_NEXT, name);
    return reinterpret_cast<Function *>(found);
}

/// In a wrapper: defines `next`, the wrapped function of the same name and type.
#define CLDIST_NEXT(name) \
    static auto *const next = ::cldist::host::next_function<decltype(::name)>(#name)

int next_open(const char *path, int flags, mode_t mode);
int next_close(int descriptor);
ssize_t next_read(int descriptor, void *bytes, std::size_t size);
ssize_t next_write(int descriptor, const void *bytes, std::size_t size);
int next_isatty(int descriptor);
int next_uname(utsname *name);
int next_clock_gettime(clockid_t clock, timespec *time);

}  // namespace cldist::host
