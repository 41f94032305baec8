#include "cluster/split/source_text.hpp"

#include <algorithm>
#include <cctype>

namespace cldist::cluster {
namespace {

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

bool continues_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
    return std::ranges::find(names, name) != names.end();
}

std::size_t end_of_splice(std::string_view source, std::size_t at) {
    if (source[at] != '\\') return source.npos;
    const std::size_t next = source.find_first_not_of(" \t\r", at + 1);
    return next != source.npos && source[next] == '\n' ? next + 1 : source.npos;
}

Text::Text(const std::string &text) : text_(text) {
    bool line_begins = true;
    for (std::size_t at = 0; at < text.size();) {
        const char c = text[at];
        const char next = at + 1 < text.size() ? text[at + 1] : '\0';
        if (c == '\n') line_begins = true;
        if (std::isspace(static_cast<unsigned char>(c)) != 0 || (c == '\\' && next == '\n')) {
            ++at;
        } else if (c == '/' && (next == '/' || next == '*')) {
            at = end_of_comment(at);
        } else if (c == '#' && line_begins) {
            const std::size_t begin = at;
            at = end_of_directive(at);
            tokens_.push_back({Token::Kind::directive, begin, at});
        } else {
            line_begins = false;
            const std::size_t begin = at;
            at = end_of_token(at);
            tokens_.push_back({begins_name(c) ? Token::Kind::name : Token::Kind::other, begin, at});
        }
    }
}

std::size_t Text::closing(std::size_t open) const {
    const std::string_view opens = of(open);
    const std::string_view closes = opens == "(" ? ")" : opens == "{" ? "}" : "]";
    std::size_t depth = 0;
    // Number of open conditionals, counted from the outermost one whose first branch has ended. 0
    // in first branches.
    std::size_t skipped = 0;
    for (std::size_t at = open; at < tokens_.size(); ++at) {
        if (is_directive(at)) {
            const auto words = words_of(of(at));
            const std::string_view word =
                words.empty() ? std::string_view() : std::string_view(words[0]);
            if (word.starts_with("el") && skipped == 0) skipped = 1;
            if (word.starts_with("if") && skipped > 0) ++skipped;
            if (word == "endif" && skipped > 0) --skipped;
            continue;
        }
        if (skipped > 0) continue;
        if (is(at, opens)) ++depth;
        if (is(at, closes) && --depth == 0) return at;
    }
    return tokens_.size();
}

std::size_t Text::end_of_comment(std::size_t at) const {
    if (text_[at + 1] == '/') return std::min(text_.find('\n', at), text_.size());
    const std::size_t end = text_.find("*/", at + 2);
    return end == std::string::npos ? text_.size() : end + 2;
}

std::size_t Text::end_of_directive(std::size_t at) const {
    while (at < text_.size() && text_[at] != '\n') {
        if (const std::size_t next = end_of_splice(text_, at); next != std::string::npos)
            at = next;
        else if (text_[at] == '/' && at + 1 < text_.size() &&
                 (text_[at + 1] == '/' || text_[at + 1] == '*'))
            at = end_of_comment(at);
        else if (text_[at] == '"' || text_[at] == '\'')
            at = end_of_literal(at);
        else
            ++at;
    }
    return std::min(at, text_.size());
}

/// An unclosed literal, such as an apostrophe in the text of #error, ends with its line.
std::size_t Text::end_of_literal(std::size_t at) const {
    const char quote = text_[at];
    for (++at; at < text_.size() && text_[at] != '\n'; ++at) {
        if (text_[at] == quote) return at + 1;
        if (text_[at] == '\\') ++at;
    }
    return std::min(at, text_.size());
}

std::size_t Text::end_of_token(std::size_t at) const {
    const char c = text_[at];
    if (c == '"' || c == '\'') return end_of_literal(at);
    if (!continues_name(c)) return at + 1;
    while (at < text_.size() && continues_name(text_[at])) ++at;
    return at;
}

std::vector<std::string> words_of(std::string_view directive) {
    const std::string body(directive.substr(1));
    const Text text(body);
    std::vector<std::string> words;
    for (std::size_t i = 0; i < text.tokens().size(); ++i) words.emplace_back(text.of(i));
    return words;
}

namespace {

void include_into(std::string &out, const std::string &source, const FindInclude &find,
                  std::vector<std::string> &open, std::vector<std::string> &once) {
    constexpr std::size_t largest = std::size_t{16} << 20U;
    const Text text(source);
    std::size_t copied = 0;
    bool is_once = false;
    for (const Token &token : text.tokens()) {
        if (token.kind != Token::Kind::directive) continue;
        const std::string_view directive =
            std::string_view(source).substr(token.begin, token.end - token.begin);
        const auto words = words_of(directive);
        if (words.size() > 1 && words[0] == "pragma" && words[1] == "once" && !open.empty()) {
            out.append(source, copied, token.begin - copied);
            const auto seen = std::ranges::find(once, open.back());
            const std::string guard = "cldist_once_" + std::to_string(seen - once.begin());
            if (seen == once.end()) once.push_back(open.back());
            out.append("#ifndef ").append(guard).append("\n#define ").append(guard).append("\n");
            copied = token.end;
            is_once = true;
            continue;
        }
        if (words.empty() || words[0] != "include") continue;
        const std::size_t first = directive.find_first_of("\"<");
        const std::size_t last =
            first == std::string_view::npos
                ? first
                : directive.find(directive[first] == '<' ? '>' : '"', first + 1);
        if (last == std::string_view::npos) continue;
        std::string name(directive.substr(first + 1, last - first - 1));
        std::optional<std::string> included;
        // A name in quotes is first searched in the folder of the including file.
        if (const std::size_t folder = open.empty() ? std::string::npos : open.back().rfind('/');
            directive[first] == '"' && folder != std::string::npos) {
            const std::string beside = open.back().substr(0, folder + 1) + name;
            if ((included = find(beside))) name = beside;
        }
        if (!included) included = find(name);
        // Files may include each other. Include guards make the second inclusion empty.
        const auto is_open = std::ranges::count(open, name);
        if (!included || is_open > 1 || out.size() > largest) continue;
        const auto line =
            std::count(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(token.end),
                       '\n') +
            1;
        out.append(source, copied, token.begin - copied);
        out += "#line 1 \"" + name + "\"\n";
        open.push_back(name);
        include_into(out, *included, find, open, once);
        open.pop_back();
        out += "\n#line " + std::to_string(line) + "\n";
        copied = token.end;
    }
    out.append(source, copied);
    if (is_once) out += "\n#endif\n";
}

}  // namespace

std::string with_includes(const std::string &source, const FindInclude &find) {
    std::string out;
    std::vector<std::string> open;
    std::vector<std::string> once;  // files with #pragma once
    include_into(out, source, find, open, once);
    return out;
}

}  // namespace cldist::cluster
