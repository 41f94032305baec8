#pragma once

#include <string_view>

namespace cldist {

/// Returns the function that replaces the OpenCL function `name` in programs that run with
/// CLDIST_TRACE: it launches a kernel, and adds the launch to the trace if the queue has profiling.
/// Null for other functions.
[[nodiscard]] void *traced_launch(std::string_view name);

}  // namespace cldist
