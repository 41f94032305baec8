#pragma once

#include <string_view>

namespace cldist {

/// Returns the replacement of the OpenCL function `name` in programs that run with CLDIST_TRACE. It
/// launches a kernel, and adds the launch to the trace if the queue has profiling. Null for
/// functions that launch no kernel.
[[nodiscard]] void *traced_launch(std::string_view name);

}  // namespace cldist
