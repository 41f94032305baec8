#include "stdio/file_failure.hpp"

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

namespace cldist {

Status file_failure(int error, const char *call, const std::string &file, std::size_t moved) {
    // A user-provided stream (fopencookie) may fail without setting errno.
    const std::string reason = error != 0 ? std::generic_category().message(error)
                                          : "no reason is known, because errno is 0";
    Status status = Status::failure(CL_FILE_ERROR, fmt::format("{} of {} failed after {} bytes: {}",
                                                               call, file, moved, reason));
    status.system_error = error != 0 ? error : EIO;
    return status;
}

Status end_of_file(const std::string &file, std::size_t moved) {
    return Status::failure(CL_END_OF_FILE, fmt::format("{} ended after {} bytes", file, moved));
}

}  // namespace cldist
