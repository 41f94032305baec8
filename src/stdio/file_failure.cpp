#include "stdio/file_failure.hpp"

#include <system_error>

#include <fmt/format.h>

namespace cldist {

Status file_failure(int error, const char *call, const std::string &file, std::size_t moved) {
    Status status = Status::failure(CL_FILE_ERROR, fmt::format("{} of {} failed after {} bytes: {}", call, file, moved,
                                                               std::generic_category().message(error)));
    status.system_error = error;
    return status;
}

Status end_of_file(const std::string &file, std::size_t moved) {
    return Status::failure(CL_END_OF_FILE, fmt::format("{} ended after {} bytes", file, moved));
}

}  // namespace cldist
