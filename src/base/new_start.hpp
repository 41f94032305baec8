#pragma once

#include <string_view>

namespace cldist {

/// The line in which a rank announces that the job starts again begins with this text. The reason
/// follows.
inline constexpr std::string_view new_start_announcement =
    "cldist run: the job starts again with a central host, because ";

}  // namespace cldist
