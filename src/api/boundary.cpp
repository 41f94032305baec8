#include "api/boundary.hpp"

#include "base/per_thread.hpp"

namespace cldist {

void keep_error_message(const std::string &message) noexcept {
    try {
        per_thread<std::string>() = message;
    } catch (const std::bad_alloc &) {
        // The previous message remains.
    }
}

const char *last_error_message() noexcept {
    try {
        return per_thread<std::string>().c_str();
    } catch (const std::bad_alloc &) {
        return "";
    }
}

}  // namespace cldist
