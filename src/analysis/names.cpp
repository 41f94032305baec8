#include "analysis/names.hpp"

#include <cstddef>
#include <string_view>

namespace cldist::analysis {

std::pair<std::string, std::string> demangled(const std::string &name) {
    if (name.compare(0, 2, "_Z") != 0) return {name, {}};
    std::size_t digits = 2;
    std::size_t length = 0;
    while (digits < name.size() && name[digits] >= '0' && name[digits] <= '9')
        length = 10 * length + (name[digits++] - '0');
    if (digits + length > name.size()) return {name, {}};
    return {name.substr(digits, length), name.substr(digits + length)};
}

std::uint64_t pointee_size(const std::string &parameters) {
    std::size_t at = 0;
    const auto skip = [&](const char *text) {
        const std::string_view word(text);
        if (parameters.compare(at, word.size(), word) != 0) return false;
        at += word.size();
        return true;
    };
    if (!skip("P")) return 0;
    if (skip("U3AS")) ++at;
    while (skip("K") || skip("V")) {
    }
    std::uint64_t count = 1;
    if (skip("Dv")) {
        count = 0;
        while (at < parameters.size() && parameters[at] >= '0' && parameters[at] <= '9')
            count = 10 * count + (parameters[at++] - '0');
        if (count == 3) count = 4;
        if (!skip("_")) return 0;
    }
    if (skip("Dh")) return 2 * count;
    if (at >= parameters.size()) return 0;
    switch (parameters[at]) {
        case 'c':
        case 'a':
        case 'h': return count;
        case 's':
        case 't': return 2 * count;
        case 'i':
        case 'j':
        case 'f': return 4 * count;
        case 'l':
        case 'm':
        case 'd': return 8 * count;
        default: return 0;
    }
}

bool is_signed(const std::string &parameters) {
    // A vector type follows "Dv4_".
    const std::size_t at = parameters.starts_with("Dv") ? parameters.find('_') + 1 : 0;
    return at < parameters.size() &&
           std::string_view("csil").find(parameters[at]) != std::string_view::npos;
}

}  // namespace cldist::analysis
