#include "analysis/source_lines.hpp"

#include <cctype>
#include <cstddef>
#include <sstream>
#include <string_view>

namespace cldist::analysis {

namespace {

bool continues_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The position after the bracket that closes the bracket at `at`. npos if it is not on the line.
std::size_t behind_bracket(std::string_view line, std::size_t at) {
    std::size_t depth = 0;
    for (; at < line.size(); ++at) {
        if (line[at] == '(' || line[at] == '[') ++depth;
        if ((line[at] == ')' || line[at] == ']') && --depth == 0) return at + 1;
    }
    return std::string_view::npos;
}

/// The variable with indices and members, or the call, at the start of `line`; empty if none.
std::string access_in(std::string_view line) {
    std::size_t end = line.starts_with('*') ? 1 : 0;
    while (end < line.size() && continues_name(line[end])) ++end;
    bool is_access = end > 0 && line[0] == '*';
    while (end < line.size()) {
        if (line[end] == '[' || line[end] == '(') {
            end = behind_bracket(line, end);
            if (end == std::string_view::npos) return {};
            is_access = true;
        } else if (line[end] == '.' || line.substr(end, 2) == "->") {
            end += line[end] == '.' ? 1 : 2;
            while (end < line.size() && continues_name(line[end])) ++end;
            is_access = true;
        } else {
            break;
        }
    }
    return is_access && end > 1 ? std::string(line.substr(0, end)) : std::string();
}

}  // namespace

SourceLines::SourceLines(const std::string &source) {
    std::istringstream text(source);
    std::string file;
    unsigned number = 1;
    for (std::string line; std::getline(text, line); ++number) {
        std::istringstream words(line);
        std::string word;
        unsigned next = 0;
        if (words >> word && word == "#line" && words >> next) {
            number = next - 1;
            if (std::getline(words, word, '"') && std::getline(words, word, '"')) file = word;
            continue;
        }
        lines_[{file, number}].push_back(std::move(line));
    }
}

std::string SourceLines::access_at(const std::string &file, unsigned line, unsigned column) const {
    auto found = lines_.find({file, line});
    if (found == lines_.end()) found = lines_.find({"", line});  // the program's main file
    if (found == lines_.end() || column == 0) return {};
    for (const std::string &text : found->second)
        if (column <= text.size())
            if (std::string access = access_in(std::string_view(text).substr(column - 1));
                !access.empty())
                return access;
    return {};
}

}  // namespace cldist::analysis
