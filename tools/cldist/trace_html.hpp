#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace cldist::tool {

/// An HTML page with the time line of a merged trace and the table. It loads no other files.
[[nodiscard]] std::string html_page(const nlohmann::json &merged, const std::string &table);

}  // namespace cldist::tool
