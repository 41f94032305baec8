#pragma once

#include <string>
#include <string_view>

namespace cldist::tool {

enum class Colour { none, green, yellow, red, bold };

/// Whether standard output is a terminal that shows colours. NO_COLOR and TERM=dumb turn them off.
[[nodiscard]] bool shows_colours();

/// The text in this colour where standard output shows colours, else as it is.
[[nodiscard]] std::string coloured(std::string_view text, Colour colour);

}  // namespace cldist::tool
