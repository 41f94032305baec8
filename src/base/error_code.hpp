#pragma once

#include <string>

namespace cldist {

/// The text of an OpenCL or library error for messages, such as "CL_INVALID_RANK (-1203)". An unknown code gives only
/// its number.
[[nodiscard]] std::string code_text(int code);

}  // namespace cldist
