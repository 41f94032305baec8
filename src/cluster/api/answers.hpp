/// Results of clGet…Info.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/api/host_mode.hpp"
#include "cluster/objects/errors.hpp"

namespace cldist::cluster {

/// The destination of a result: the last three arguments of every clGet…Info. In a process that
/// follows another process's calls, `value` is not written.
struct Answer {
    std::size_t size;
    void *value;
    std::size_t *size_ret;

    void bytes(const void *data, std::size_t bytes) const {
        if (value != nullptr) {
            if (size < bytes)
                fail(CL_INVALID_VALUE, "param_value_size is {}, but the value has {} bytes", size,
                     bytes);
            if (bytes > 0 && host_mode().has_program()) std::memcpy(value, data, bytes);
        }
        if (size_ret != nullptr) *size_ret = bytes;
    }
    template <typename T>
    void give(const T &answer) const {
        bytes(&answer, sizeof answer);
    }
    void text(std::string_view answer) const {
        const std::string with_end(answer);
        bytes(with_end.c_str(), with_end.size() + 1);
    }
    template <typename T>
    void list(const std::vector<T> &answer) const {
        bytes(answer.data(), answer.size() * sizeof(T));
    }
};

[[noreturn]] inline void no_such_param(cl_uint param) {
    fail(CL_INVALID_VALUE, "unknown param_name {:#x}", param);
}

}  // namespace cldist::cluster
