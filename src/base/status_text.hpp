#pragma once

#include <string>

#include "base/error_code.hpp"

namespace cldist {

/// The text of an event's status. Some platforms replace every error by -1, so -1 has no name.
[[nodiscard]] inline std::string status_text(int status) {
    return status == -1 ? "-1" : code_text(status);
}

}  // namespace cldist
