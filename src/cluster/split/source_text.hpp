#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cldist::cluster {

struct Token {
    enum class Kind { name, other, directive };
    Kind kind;
    std::size_t begin;  ///< characters [begin, end) of the text
    std::size_t end;
};

[[nodiscard]] bool continues_name(char c);

bool is_one_of(std::string_view name, std::span<const std::string_view> names);
/// Returns where the next line begins if a backslash at `at` joins it to this line. Otherwise npos.
/// Compilers ignore blanks and carriage returns before the newline.
[[nodiscard]] std::size_t end_of_splice(std::string_view source, std::size_t at);

/// The tokens (names, numbers, punctuation) of an OpenCL C source. A directive is one token, to the
/// end of its last line.
class Text {
public:
    /// `text` must outlive this object.
    explicit Text(const std::string &text);
    explicit Text(std::string &&text) = delete;

    [[nodiscard]] const std::vector<Token> &tokens() const { return tokens_; }
    [[nodiscard]] std::string_view of(std::size_t token) const {
        const Token &at = tokens_[token];
        return std::string_view(text_).substr(at.begin, at.end - at.begin);
    }
    [[nodiscard]] bool is(std::size_t token, std::string_view what) const {
        return token < tokens_.size() && tokens_[token].kind != Token::Kind::directive &&
               of(token) == what;
    }
    [[nodiscard]] bool is_name(std::size_t token) const {
        return token < tokens_.size() && tokens_[token].kind == Token::Kind::name;
    }
    [[nodiscard]] bool is_directive(std::size_t token) const {
        return token < tokens_.size() && tokens_[token].kind == Token::Kind::directive;
    }
    /// Returns the token that closes the bracket `open`, or the number of tokens if there is none.
    /// Only first branches of conditionals count, because each branch may open a bracket that is
    /// closed after #endif.
    [[nodiscard]] std::size_t closing(std::size_t open) const;

private:
    [[nodiscard]] std::size_t end_of_comment(std::size_t at) const;
    [[nodiscard]] std::size_t end_of_directive(std::size_t at) const;
    [[nodiscard]] std::size_t end_of_literal(std::size_t at) const;
    [[nodiscard]] std::size_t end_of_token(std::size_t at) const;

    const std::string &text_;
    std::vector<Token> tokens_;
};

/// The words of a directive: "define", "name", ….
std::vector<std::string> words_of(std::string_view directive);

/// Returns the text of an included file, or nothing if the file is not found.
using FindInclude = std::function<std::optional<std::string>(const std::string &name)>;

/// Replaces #include directives by the files that `find` finds. Other #include directives stay.
std::string with_includes(const std::string &source, const FindInclude &find);

}  // namespace cldist::cluster
