#pragma once

#include <string>
#include <string_view>

namespace cldist::tool {

enum class Colour { none, green, yellow, red, bold };

/// Whether standard output is a terminal with colours. NO_COLOR and TERM=dumb disable them.
[[nodiscard]] bool shows_colours();

/// The text in this colour if standard output shows colours, otherwise unchanged.
[[nodiscard]] std::string coloured(std::string_view text, Colour colour);

}  // namespace cldist::tool
