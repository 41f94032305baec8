#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace cldist::tool {

/// Draws plot_data() as a PNG, by a Python script that stands beside this program. Throws a TuneError if that can't be.
void draw(const nlohmann::json &data, const std::string &png);

}  // namespace cldist::tool
