#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace cldist::tool {

/// Draws plot_data() to the file `png` with plot_profile.py. Throws a TuneError on failure.
void draw(const nlohmann::json &data, const std::string &png);

}  // namespace cldist::tool
