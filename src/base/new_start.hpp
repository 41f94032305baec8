#pragma once

#include <string_view>

namespace cldist {

/// The beginning of the line with which a rank announces a new start (`--host-mode auto`). The
/// reason follows.
inline constexpr std::string_view new_start_announcement =
    "cldist run: the job starts again with a central host, because ";

}  // namespace cldist
