#pragma once

#include <dlfcn.h>

namespace cldist::cluster {

/// A function of libcldist-host; null if that is not preloaded (decision 36).
template <typename Function>
Function *host_function(const char *name) {
    return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}

/// Tells libcldist-host that the calling thread is in an OpenCL call during this object's lifetime.
/// System calls of the thread, also in the program's callbacks, return this process's results
/// instead of rank 0's. `all_make_it`: all processes make the call. `waits`: it only waits.
class OpenclCall {
public:
    explicit OpenclCall(bool all_make_it, bool waits = false) {
        if (begin_ != nullptr) begin_(!all_make_it ? 0 : waits ? 2 : 1);
    }
    OpenclCall(const OpenclCall &) = delete;
    OpenclCall &operator=(const OpenclCall &) = delete;
    ~OpenclCall() {
        if (end_ != nullptr) end_();
    }

private:
    inline static auto *const begin_ = host_function<void(int)>("cldist_host_begin_call");
    inline static auto *const end_ = host_function<void()>("cldist_host_end_call");
};

}  // namespace cldist::cluster
