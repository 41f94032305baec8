#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cldist::cluster {

struct Token {
    enum class Kind { name, other, directive };
    Kind kind;
    std::size_t begin;
    std::size_t end;
};

[[nodiscard]] bool continues_name(char c);

/// The names, numbers and punctuation of a text in OpenCL C. A directive is one token, to the end
/// of its last line.
class Text {
public:
    /// `text` must outlive it.
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
    /// The token that closes the bracket `open`; the number of tokens if there is none. The first
    /// branch of conditionals counts: each branch may open a bracket that is closed after them.
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

/// The text of an included file, if it is known.
using FindInclude = std::function<std::optional<std::string>(const std::string &name)>;

/// The text with the files that it includes in place of their directives, as far as they are known.
std::string with_includes(const std::string &source, const FindInclude &find);

}  // namespace cldist::cluster
