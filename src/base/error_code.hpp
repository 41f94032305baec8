#pragma once

#include <string>

namespace cldist {

/// The name of an OpenCL or library error, or null.
[[nodiscard]] const char *error_name(int code);

/// The text of an OpenCL or library error for messages, such as "CL_INVALID_RANK (-1203)". An
/// unknown code gives only its number.
[[nodiscard]] std::string code_text(int code);

/// The text of an event's status. Some platforms replace every error by -1, so -1 has no name.
[[nodiscard]] inline std::string status_text(int status) {
    return status == -1 ? "-1" : code_text(status);
}

}  // namespace cldist
