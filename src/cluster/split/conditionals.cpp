#include "cluster/split/conditionals.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "cluster/split/source_text.hpp"

namespace cldist::cluster {
namespace {

constexpr std::size_t most_bytes_of_values = std::size_t{1} << 16U;
constexpr std::string_view version_macro = "__OPENCL_C_VERSION__";

/// Returns true if compilers may predefine a macro of this name with different values.
bool is_compilers(std::string_view name) {
    // Keywords, predefined identifiers, names with a meaning only in macros, and __LINE__, which
    // has the same value everywhere. Names that begin with __has_ occur only in conditionals.
    static constexpr std::array<std::string_view, 22> keywords = {
        "__kernel",      "__global",    "__local",      "__constant",   "__private",
        "__generic",     "__read_only", "__write_only", "__read_write", "__attribute",
        "__attribute__", "__inline",    "__inline__",   "__restrict",   "__restrict__",
        "__volatile__",  "__const",     "__VA_ARGS__",  "__VA_OPT__",   "__func__",
        "__FUNCTION__",  "__LINE__"};
    if (is_one_of(name, keywords) || name.starts_with("__has_")) return false;
    const bool is_reserved =
        name.size() > 1 && name[0] == '_' && (name[1] == '_' || (name[1] >= 'A' && name[1] <= 'Z'));
    return is_reserved || name.starts_with("cl_") || name.starts_with("cles_") ||
           name.starts_with("CL_VERSION_") || name.starts_with("FP_FAST_FMA");
}

/// Returns true if the macro's value depends on its position in the files or on the time.
bool is_of_the_moment(std::string_view name) {
    static constexpr std::array<std::string_view, 8> names = {
        "__COUNTER__",   "__INCLUDE_LEVEL__", "__FILE__", "__BASE_FILE__",
        "__FILE_NAME__", "__DATE__",          "__TIME__", "__TIMESTAMP__"};
    return is_one_of(name, names);
}

void check_name(std::string_view name) {
    if (is_of_the_moment(name))
        throw std::runtime_error("the program uses " + std::string(name) +
                                 ", whose value may differ for the device's compiler");
}

/// Joins continued lines. The newlines that this removes follow the joined line, so that later
/// lines keep their numbers.
std::string spliced(const std::string &source) {
    std::string text;
    std::size_t owed = 0;
    for (std::size_t at = 0; at < source.size(); ++at) {
        if (const std::size_t next = end_of_splice(source, at); next != std::string::npos) {
            ++owed;
            at = next - 1;
            continue;
        }
        text += source[at];
        if (source[at] == '\n') text.append(std::exchange(owed, 0), '\n');
    }
    return text;
}

enum class Role { other, opens, goes_on, ends, includes };

Role role_of(const std::vector<std::string> &words) {
    static constexpr std::array<std::string_view, 3> opening = {"if", "ifdef", "ifndef"};
    static constexpr std::array<std::string_view, 4> going_on = {"elif", "elifdef", "elifndef",
                                                                 "else"};
    static constexpr std::array<std::string_view, 4> including = {"include", "include_next",
                                                                  "import", "embed"};
    if (words.empty()) return Role::other;
    if (is_one_of(words[0], opening)) return Role::opens;
    if (is_one_of(words[0], going_on)) return Role::goes_on;
    if (is_one_of(words[0], including)) return Role::includes;
    return words[0] == "endif" ? Role::ends : Role::other;
}

/// Converts positions in a text to the line numbers that compilers use.
class Lines {
public:
    explicit Lines(const std::string &text) : text_(text) {}
    /// Positions must not decrease from call to call.
    unsigned at(std::size_t place) {
        const auto from = text_.begin() + static_cast<std::ptrdiff_t>(counted_);
        const auto to = text_.begin() + static_cast<std::ptrdiff_t>(place);
        line_ += static_cast<unsigned>(std::count(from, to, '\n'));
        counted_ = place;
        return line_;
    }
    /// Applies the #line directive that ends at `end`.
    void set(const std::vector<std::string> &words, std::size_t end) {
        unsigned line = 0;
        if (words.size() < 2 ||
            std::from_chars(words[1].data(), words[1].data() + words[1].size(), line).ec !=
                std::errc())
            throw std::runtime_error(
                "a #line directive has a number that is not a constant, which cldist does not "
                "understand");
        at(end);
        line_ = line - 1;  // its newline is still to be counted
    }

private:
    const std::string &text_;
    std::size_t counted_ = 0;
    unsigned line_ = 1;
};

}  // namespace

Conditionals::Conditionals(const std::string &source, const std::string &options)
    : source_(spliced(source)) {
    // Digraph and trigraph for "#".
    for (const char *const spelling : {"%:", "\?\?="})
        if (source_.find(spelling) != std::string::npos)
            throw std::runtime_error(std::string("the program has \"") + spelling +
                                     "\", which cldist does not understand");
    // _Pragma is an operator, so it does not occur among the directives.
    if (source_.find("_Pragma") != std::string::npos && source_.find("_macro") != std::string::npos)
        throw std::runtime_error(
            "the program may define macros by _Pragma, which cldist does not understand");
    const Text text(source_);
    std::set<std::string> macros;
    Lines lines(source_);
    for (std::size_t i = 0; i < text.tokens().size(); ++i) {
        const Token &token = text.tokens()[i];
        if (text.is_name(i) && is_compilers(text.of(i))) macros.emplace(text.of(i));
        if (!text.is_directive(i)) continue;
        const unsigned line = lines.at(token.begin);
        const auto words = words_of(text.of(i));
        const Role role = role_of(words);
        if (role == Role::opens || role == Role::goes_on) branches_.push_back({i, line});
        if (words.empty()) continue;
        if (words[0] == "line") lines.set(words, token.end);
        if (words[0] != "define") continue;
        for (const std::string &word : words)
            if (is_compilers(word)) macros.insert(word);
    }
    // Macros defined by -D may expand to predefined macros.
    const Text of_options(options);
    for (std::size_t i = 0; i < of_options.tokens().size(); ++i) {
        if (!of_options.is_name(i)) continue;
        check_name(of_options.of(i));
        if (is_compilers(of_options.of(i))) macros.emplace(of_options.of(i));
    }
    for (const std::string &name : macros)
        if (!is_of_the_moment(name) && name != version_macro) macros_.push_back(name);
    if (!branches_.empty() || !macros_.empty() || macros.contains(std::string(version_macro)))
        macros_.emplace(macros_.begin(), version_macro);
}

std::size_t Conditionals::report_size() const { return branches_.size() + most_bytes_of_values; }

std::string Conditionals::program() const {
    const std::string count = std::to_string(branches_.size());
    std::string program =
        "#define cldist_text_of(...) #__VA_ARGS__\n"
        "#define cldist_text(...) cldist_text_of(__VA_ARGS__)\n"
        "typedef unsigned int cldist_number;\n"
        "cldist_number cldist_branch(cldist_number);\n"
        "__constant char cldist_values[] = \"\"\n";
    for (const std::string &name : macros_)
        program += "#ifdef " + name + "\n\"=\" cldist_text(" + name + ")\n#endif\n\"\\n\"\n";
    program += ";\n__kernel void " + std::string(kernel_name) +
               "(__global char *report, cldist_number size) {\n"
               "    for (cldist_number i = 0; i < " +
               count +
               "; ++i) report[i] = cldist_branch(i) != 0 ? '1' : '0';\n"
               "    for (cldist_number i = 0; i < sizeof cldist_values && i + " +
               count +
               " < size; ++i)\n"
               "        report[i + " +
               count +
               "] = cldist_values[i];\n"
               "}\n";
    const Text text(source_);
    Lines lines(source_);
    std::size_t branch = 0;
    for (std::size_t i = 0; i < text.tokens().size(); ++i) {
        if (!text.is_directive(i)) continue;
        const auto words = words_of(text.of(i));
        if (!words.empty() && words[0] == "line")
            lines.set(words, text.tokens()[i].end);
        else
            program += "#line " + std::to_string(lines.at(text.tokens()[i].begin)) + "\n";
        program += std::string(text.of(i)) + "\n";
        if (branch < branches_.size() && branches_[branch].token == i)
            program += "#define cldist_branch_" + std::to_string(branch++) + "\n";
    }
    program +=
        "cldist_number cldist_branch(cldist_number cldist_which) {\n    switch (cldist_which) {\n";
    for (std::size_t i = 0; i < branches_.size(); ++i) {
        const std::string number = std::to_string(i);
        program +=
            "#ifdef cldist_branch_" + number + "\n        case " + number + ": return 1;\n#endif\n";
    }
    return program + "        default: return 0;\n    }\n}\n";
}

Conditionals::Report Conditionals::parsed(const std::string &report) const {
    Report found;
    const std::size_t end = report.find('\0');
    if (end == std::string::npos || end < branches_.size())
        throw std::runtime_error("the device's compiler reports more macros than cldist can read");
    found.taken = report.substr(0, branches_.size());
    for (std::size_t at = branches_.size(); at < end;) {
        const std::size_t line_end = std::min(report.find('\n', at), end);
        found.values.push_back(report.substr(at, line_end - at));
        at = line_end + 1;
    }
    if (found.values.size() != macros_.size())
        throw std::runtime_error(
            "cldist does not understand the macros that the device's compiler reports");
    return found;
}

unsigned Conditionals::language_version(const std::string &report) const {
    const Report found = parsed(report);
    unsigned version = 0;
    if (!found.values.empty() && found.values[0].size() > 1)
        std::from_chars(found.values[0].data() + 1, found.values[0].data() + found.values[0].size(),
                        version);
    return version;
}

std::string Conditionals::difference(const std::string &report, const std::string &other) const {
    const Report a = parsed(report);
    const Report b = parsed(other);
    const Text text(source_);
    for (std::size_t i = 0; i < branches_.size(); ++i)
        if (a.taken[i] != b.taken[i])
            return "whether \"" + std::string(text.of(branches_[i].token)) + "\" (line " +
                   std::to_string(branches_[i].line) + ") is taken";
    for (std::size_t i = 0; i < macros_.size(); ++i)
        if (a.values[i] != b.values[i]) return "the macro " + macros_[i];
    return {};
}

std::string Conditionals::decided(const std::string &report) const {
    const Report found = parsed(report);
    std::string program;
    for (std::size_t i = 0; i < macros_.size(); ++i) {
        const std::string &value = found.values[i];
        if (value == "=" + macros_[i]) continue;  // has parameters, so its name is not expanded
        program += "#undef " + macros_[i] + "\n";
        if (!value.empty()) program += "#define " + macros_[i] + " " + value.substr(1) + "\n";
    }
    if (!program.empty()) program += "#line 1\n";

    const Text text(source_);
    // Per open conditional: whether its current branch is taken. The compiler takes no branch that
    // is inside a branch that it does not take.
    std::vector<bool> open;
    const auto is_live = [&] { return open.empty() || open.back(); };
    std::size_t copied = 0;
    std::size_t branch = 0;
    const auto copy_to = [&](std::size_t end) {
        if (is_live()) {
            program.append(source_, copied, end - copied);
        } else {
            for (; copied < end; ++copied)
                if (source_[copied] == '\n') program += '\n';
        }
        copied = end;
    };
    for (std::size_t i = 0; i < text.tokens().size(); ++i) {
        const Token &token = text.tokens()[i];
        if (text.is_name(i) && is_live()) check_name(text.of(i));
        if (!text.is_directive(i)) continue;
        const auto words = words_of(text.of(i));
        const Role role = role_of(words);
        if (role == Role::includes && is_live())
            throw std::runtime_error("the program includes a file that is not found: " +
                                     std::string(text.of(i)));
        if (role == Role::other || role == Role::includes) {
            if (is_live() && !words.empty() && words[0] == "define")
                std::ranges::for_each(words, check_name);
            continue;
        }
        copy_to(token.begin);
        if (role == Role::opens) open.push_back(false);
        if (open.empty())
            throw std::runtime_error("the program's conditionals (#if, #endif) are not balanced");
        if (role == Role::ends)
            open.pop_back();
        else
            open.back() = found.taken[branch++] == '1';
        program.append(static_cast<std::size_t>(std::count(
                           source_.begin() + static_cast<std::ptrdiff_t>(token.begin),
                           source_.begin() + static_cast<std::ptrdiff_t>(token.end), '\n')),
                       '\n');
        copied = token.end;
    }
    copy_to(source_.size());
    return program;
}

}  // namespace cldist::cluster
