#pragma once

#include <string>

namespace cldist {

/// How messages write an error of OpenCL's or the library's: "CL_INVALID_RANK (-1203)"; of other codes the number alone.
[[nodiscard]] std::string code_text(int code);

}  // namespace cldist
