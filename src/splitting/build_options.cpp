#include "splitting/build_options.hpp"

#include <algorithm>
#include <utility>

namespace cldist::splitting {

std::vector<std::string> options_of(const std::string &text) {
    std::vector<std::string> options;
    std::string option;
    char quote = 0;
    bool begun = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quote != 0 && c == quote) {
            quote = 0;
        } else if (quote == 0 && (c == '"' || c == '\'')) {
            quote = c;
            begun = true;
        } else if (c == '\\' && i + 1 < text.size() && quote != '\'') {
            option += text[++i];
            begun = true;
        } else if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
            if (begun) options.push_back(std::move(option));
            option.clear();
            begun = false;
        } else {
            option += c;
            begun = true;
        }
    }
    if (begun) options.push_back(std::move(option));
    return options;
}

std::vector<std::string> values_of(const std::string &options, const std::string &name) {
    std::vector<std::string> values;
    bool is_value = false;
    for (std::string &option : options_of(options)) {
        if (std::exchange(is_value, option == name && !is_value))
            values.push_back(std::move(option));
        else if (option.starts_with(name) && option.size() > name.size())
            values.push_back(option.substr(name.size()));
    }
    return values;
}

bool chooses_language(const std::string &options) {
    const auto all = options_of(options);
    return std::ranges::any_of(all,
                               [](const std::string &one) { return one.starts_with("-cl-std="); });
}

}  // namespace cldist::splitting
