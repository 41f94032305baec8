#pragma once

#include <string>

#include "base/error_code.hpp"

namespace cldist {

/// As code_text(), for the status of an event. Some platforms make -1 of it, whatever the error was: that is not named.
[[nodiscard]] inline std::string status_text(int status) { return status == -1 ? "-1" : code_text(status); }

}  // namespace cldist
