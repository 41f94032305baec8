#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace cldist::tool {

/// A page with the time line of a merged trace and the table, which loads nothing else.
[[nodiscard]] std::string html_page(const nlohmann::json &merged, const std::string &table);

}  // namespace cldist::tool
