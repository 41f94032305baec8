#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace cldist::tool {

/// Draws plot_data() as a PNG with a Python script next to this program. Throws a TuneError on
/// failure.
void draw(const nlohmann::json &data, const std::string &png);

}  // namespace cldist::tool
