#include "cluster/split/adapted_source.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <set>
#include <sstream>
#include <stdexcept>

namespace cldist::cluster {
namespace {

// What a part's launch answers for itself alone.
constexpr std::array<std::string_view, 6> launch_functions = {"get_group_id",         "get_num_groups",
                                                              "get_global_size",      "get_global_offset",
                                                              "get_global_linear_id", "get_group_linear_id"};
constexpr std::array<std::string_view, 9> group_functions = {
    "get_local_size", "get_local_id",       "get_enqueued_local_size", "get_group_id",       "get_num_groups",
    "barrier",        "work_group_barrier", "get_local_linear_id",     "get_group_linear_id"};

template <std::size_t size>
bool is_one_of(std::string_view name, const std::array<std::string_view, size> &names) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

struct Token {
    enum class Kind { name, other, directive };
    Kind kind;
    std::size_t begin;
    std::size_t end;
};

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool continues_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Names, numbers and punctuation. A directive is one token, to the end of its last line.
class Text {
public:
    explicit Text(const std::string &text) : text_(text) {
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

    [[nodiscard]] const std::vector<Token> &tokens() const { return tokens_; }
    [[nodiscard]] std::string_view of(std::size_t token) const {
        const Token &at = tokens_[token];
        return std::string_view(text_).substr(at.begin, at.end - at.begin);
    }
    [[nodiscard]] bool is(std::size_t token, std::string_view what) const {
        return token < tokens_.size() && tokens_[token].kind != Token::Kind::directive && of(token) == what;
    }
    [[nodiscard]] bool is_name(std::size_t token) const {
        return token < tokens_.size() && tokens_[token].kind == Token::Kind::name;
    }
    /// The token that closes the bracket `open`; the number of tokens if there is none.
    [[nodiscard]] std::size_t closing(std::size_t open) const {
        const std::string_view opens = of(open);
        const std::string_view closes = opens == "(" ? ")" : opens == "{" ? "}" : "]";
        std::size_t depth = 0;
        for (std::size_t at = open; at < tokens_.size(); ++at) {
            if (is(at, opens)) ++depth;
            if (is(at, closes) && --depth == 0) return at;
        }
        return tokens_.size();
    }

private:
    [[nodiscard]] std::size_t end_of_comment(std::size_t at) const {
        if (text_[at + 1] == '/') return std::min(text_.find('\n', at), text_.size());
        const std::size_t end = text_.find("*/", at + 2);
        return end == std::string::npos ? text_.size() : end + 2;
    }
    [[nodiscard]] std::size_t end_of_directive(std::size_t at) const {
        while (at < text_.size() && text_[at] != '\n') {
            if (text_[at] == '\\' && at + 1 < text_.size())
                at += 2;
            else if (text_[at] == '/' && at + 1 < text_.size() && (text_[at + 1] == '/' || text_[at + 1] == '*'))
                at = end_of_comment(at);
            else
                ++at;
        }
        return at;
    }
    [[nodiscard]] std::size_t end_of_token(std::size_t at) const {
        const char c = text_[at];
        if (continues_name(c)) {
            while (at < text_.size() && continues_name(text_[at])) ++at;
            return at;
        }
        if (c != '"' && c != '\'') return at + 1;
        for (++at; at < text_.size() && text_[at] != c && text_[at] != '\n'; ++at)
            if (text_[at] == '\\') ++at;
        return std::min(at + 1, text_.size());
    }

    const std::string &text_;
    std::vector<Token> tokens_;
};

/// The words of a directive: "define", "name", ….
std::vector<std::string> words_of(std::string_view directive) {
    const std::string body(directive.substr(1));
    const Text text(body);
    std::vector<std::string> words;
    for (std::size_t i = 0; i < text.tokens().size(); ++i) words.emplace_back(text.of(i));
    return words;
}

struct Function {
    std::string name;
    std::size_t name_at;  // tokens
    std::size_t opens;    // "(" of its parameters
    std::size_t closes;
    std::size_t body;  // "{"; 0 if it is only declared
    bool is_kernel;
};

struct Found {
    std::vector<Function> functions;
    std::set<std::string> macros;
    std::map<std::string, std::set<std::string>> mentions;  // by function and macro: the names in it
    bool has_global_variables = false;
};

Found find_functions(const Text &text) {
    Found found;
    std::size_t begin = 0;  // of the declaration
    const auto is_in_declaration = [&](std::size_t end, std::initializer_list<std::string_view> words) {
        for (std::size_t at = begin; at < end; ++at)
            if (text.is_name(at) && std::find(words.begin(), words.end(), text.of(at)) != words.end()) return true;
        return false;
    };
    for (std::size_t at = 0; at < text.tokens().size();) {
        if (text.tokens()[at].kind == Token::Kind::directive) {
            const auto words = words_of(text.of(at));
            if (words.size() > 1 && words[0] == "define") {
                found.macros.insert(words[1]);
                found.mentions[words[1]].insert(words.begin() + 2, words.end());
            }
            ++at;
        } else if (text.is(at, ";")) {
            if (is_in_declaration(at, {"global", "__global"}) && !is_in_declaration(at, {"typedef"})) {
                bool has_parameters = false;
                for (std::size_t i = begin; i < at; ++i) has_parameters = has_parameters || text.is(i, "(");
                found.has_global_variables = found.has_global_variables || !has_parameters;
            }
            begin = ++at;
        } else if (text.is(at, "{")) {
            at = text.closing(at) + 1;
        } else if (text.is_name(at) && text.is(at + 1, "(")) {
            const std::size_t closes = text.closing(at + 1);
            std::size_t behind = closes + 1;
            while (text.is(behind, "__attribute__") && text.is(behind + 1, "(")) behind = text.closing(behind + 1) + 1;
            const bool is_definition = text.is(behind, "{");
            const bool is_declaration = text.is(behind, ";") && at > begin && text.is_name(begin);
            const bool is_attribute = text.is(at, "__attribute__") || text.is(at, "__attribute");
            if (is_attribute || !(is_definition || is_declaration) || is_in_declaration(at, {"typedef", "return"})) {
                at = closes + 1;
                continue;
            }
            const std::string name(text.of(at));
            found.functions.push_back(
                {name, at, at + 1, closes, is_definition ? behind : 0, is_in_declaration(at, {"kernel", "__kernel"})});
            const std::size_t end = is_definition ? text.closing(behind) : behind;
            auto &mentions = found.mentions[name];
            for (std::size_t i = at + 1; i < std::min(end, text.tokens().size()); ++i) {
                if (text.is_name(i)) mentions.emplace(text.of(i));
                if (text.tokens()[i].kind != Token::Kind::directive) continue;
                const auto words = words_of(text.of(i));
                if (words.size() > 1 && words[0] == "define") {
                    found.macros.insert(words[1]);
                    found.mentions[words[1]].insert(words.begin() + 2, words.end());
                }
            }
            begin = at = end + 1;
        } else {
            ++at;
        }
    }
    return found;
}

/// All names that a function may come to.
std::set<std::string> reached(const Found &found, const std::string &from) {
    std::set<std::string> names;
    std::vector<std::string> open{from};
    while (!open.empty()) {
        const std::string name = std::move(open.back());
        open.pop_back();
        const auto at = found.mentions.find(name);
        if (at == found.mentions.end()) continue;
        for (const std::string &next : at->second)
            if (names.insert(next).second) open.push_back(next);
    }
    return names;
}

bool is_atomic(std::string_view name) {
    return (name.starts_with("atomic_") && name != "atomic_work_item_fence") || name.starts_with("atom_");
}

constexpr std::string_view prelude_types =
    R"(struct cldist_launch { ulong offset[3]; ulong size[3]; ulong first_group[3]; ulong groups[3]; };
#define cldist_launch_pointer __private const struct cldist_launch *
)";

// Each with the function that it stands for, which no macro hides yet.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> prelude_functions = {{
    {"get_group_id", "uint d) { return get_group_id(d) + (d < 3 ? (size_t)l->first_group[d] : 0); }"},
    {"get_num_groups", "uint d) { return d < 3 ? (size_t)l->groups[d] : 1; }"},
    {"get_global_size", "uint d) { return d < 3 ? (size_t)l->size[d] : 1; }"},
    {"get_global_offset", "uint d) { return d < 3 ? (size_t)l->offset[d] : 0; }"},
    {"get_global_linear_id",
     ") { return ((get_global_id(2) - (size_t)l->offset[2]) * (size_t)l->size[1] + get_global_id(1) - "
     "(size_t)l->offset[1]) * (size_t)l->size[0] + get_global_id(0) - (size_t)l->offset[0]; }"},
    {"get_group_linear_id",
     ") { return ((get_group_id(2) + (size_t)l->first_group[2]) * (size_t)l->groups[1] + get_group_id(1) + "
     "(size_t)l->first_group[1]) * (size_t)l->groups[0] + get_group_id(0) + (size_t)l->first_group[0]; }"},
}};

struct Edit {
    std::size_t at;  // a character
    std::size_t length;
    std::string text;
};

void include_into(std::string &out, const std::string &source, const FindInclude &find, std::vector<std::string> &open,
                  std::vector<std::string> &once) {
    constexpr std::size_t largest = std::size_t{16} << 20U;
    const Text text(source);
    std::size_t copied = 0;
    bool is_once = false;
    for (const Token &token : text.tokens()) {
        if (token.kind != Token::Kind::directive) continue;
        const std::string_view directive = std::string_view(source).substr(token.begin, token.end - token.begin);
        const auto words = words_of(directive);
        if (words.size() > 1 && words[0] == "pragma" && words[1] == "once" && !open.empty()) {
            out.append(source, copied, token.begin - copied);
            const auto seen = std::find(once.begin(), once.end(), open.back());
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
            first == std::string_view::npos ? first : directive.find(directive[first] == '<' ? '>' : '"', first + 1);
        if (last == std::string_view::npos) continue;
        const std::string name(directive.substr(first + 1, last - first - 1));
        const bool is_open = std::find(open.begin(), open.end(), name) != open.end();
        const auto included = is_open ? std::string() : find(name);
        if (!included || out.size() > largest) continue;
        const auto line = std::count(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(token.end), '\n') + 1;
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
    std::vector<std::string> once;  // files that want to be included once
    include_into(out, source, find, open, once);
    return out;
}

namespace {

/// Whether names that the program uses may not be seen in its text.
bool hides_names(const std::string &source, const Text &text, const std::string &options) {
    if (options.find("get_") != std::string::npos) return true;
    for (const std::string_view paste : {"##", "%:%:"})
        if (source.find(paste) != std::string::npos || options.find(paste) != std::string::npos) return true;
    for (std::size_t at = source.find('\\'); at != std::string::npos; at = source.find('\\', at + 1)) {
        std::size_t next = at + 1;
        while (next < source.size() && (source[next] == ' ' || source[next] == '\t' || source[next] == '\r')) ++next;
        const bool splices = next < source.size() && source[next] == '\n';
        if (splices && at > 0 && continues_name(source[at - 1]) && next + 1 < source.size() &&
            continues_name(source[next + 1]))
            return true;
    }
    for (std::size_t i = 0; i < text.tokens().size(); ++i) {
        if (text.tokens()[i].kind != Token::Kind::directive) continue;
        if (const auto words = words_of(text.of(i)); !words.empty() && words[0].starts_with("include")) return true;
    }
    return false;
}

/// Names that compilers keep for themselves, apart from those that all of OpenCL C's define alike.
bool is_predefined(std::string_view name) {
    constexpr std::array<std::string_view, 10> alike = {
        "__OPENCL_C_VERSION__",  "__OPENCL_CPP_VERSION__", "__ENDIAN_LITTLE__", "__IMAGE_SUPPORT__", "__cplusplus",
        "__FAST_RELAXED_MATH__", "__EMBEDDED_PROFILE__",   "__FILE__",          "__LINE__",          "__has_include"};
    if (is_one_of(name, alike)) return false;
    return name.starts_with("__") || name.starts_with("cl_") || name == "FP_FAST_FMA" || name == "FP_FAST_FMAF" ||
           name == "FP_FAST_FMA_HALF" || name == "linux" || name == "unix";
}

std::set<std::string> asked_macros(const Text &text, const Found &found, const std::string &options) {
    std::set<std::string> asked;
    std::vector<std::string> open;
    for (std::size_t i = 0; i < text.tokens().size(); ++i) {
        if (text.is(i, "__OPENCL_VERSION__")) asked.emplace("__OPENCL_VERSION__");
        if (text.tokens()[i].kind != Token::Kind::directive) continue;
        const auto words = words_of(text.of(i));
        if (words.empty()) continue;
        if (words[0].starts_with("if") || words[0].starts_with("elif"))
            open.insert(open.end(), words.begin() + 1, words.end());
        if (std::find(words.begin(), words.end(), "__OPENCL_VERSION__") != words.end())
            asked.emplace("__OPENCL_VERSION__");
    }
    std::set<std::string> seen;
    while (!open.empty()) {
        const std::string name = std::move(open.back());
        open.pop_back();
        if (!seen.insert(name).second) continue;
        const bool is_own = found.macros.contains(name) || options.find("-D" + name) != std::string::npos ||
                            options.find("-D " + name) != std::string::npos;
        if (!is_own && is_predefined(name)) asked.insert(name);
        if (!found.macros.contains(name)) continue;
        if (const auto at = found.mentions.find(name); at != found.mentions.end())
            open.insert(open.end(), at->second.begin(), at->second.end());
    }
    return asked;
}

}  // namespace

std::string predefined_options(const std::set<std::string> &asked_macros,
                               const std::vector<std::pair<std::string, std::string>> &devices) {
    std::string options;
    for (const std::string &name : asked_macros) {
        const bool is_version = name == "__OPENCL_VERSION__";
        if (!is_version && !name.starts_with("cl_"))
            throw std::runtime_error("the program asks for the macro " + name +
                                     ", which the devices' compiler may define otherwise than clang");
        std::set<std::string> answers;
        for (const auto &[version, extensions] : devices) {
            unsigned major = 0;
            unsigned minor = 0;
            if (is_version && std::sscanf(version.c_str(), "OpenCL %u.%u", &major, &minor) == 2)
                answers.insert("-D" + name + "=" + std::to_string(100 * major + 10 * minor));
            else if (!is_version && (" " + extensions + " ").find(" " + name + " ") != std::string::npos)
                answers.insert("-D" + name + "=1");
            else
                answers.insert("-U" + name);
        }
        if (answers.size() != 1) throw std::runtime_error("devices differ in the macro " + name);
        options += " " + *answers.begin();
    }
    return options;
}

SourceFacts facts_of(const std::string &source, const std::string &options) {
    const Text text(source);
    const Found found = find_functions(text);
    SourceFacts facts;
    facts.hides_names = hides_names(source, text, options);
    facts.asks_for_launch = facts.hides_names;
    facts.asked_macros = asked_macros(text, found, options);
    for (std::size_t i = 0; i < text.tokens().size(); ++i) {
        if (text.is_name(i)) facts.asks_for_launch = facts.asks_for_launch || is_one_of(text.of(i), launch_functions);
        if (text.tokens()[i].kind != Token::Kind::directive) continue;
        for (const std::string &word : words_of(text.of(i)))
            facts.asks_for_launch = facts.asks_for_launch || is_one_of(word, launch_functions);
    }
    for (const Function &function : found.functions) {
        if (!function.is_kernel) continue;
        std::string &why = facts.kernels[function.name];
        bool &asks = facts.asks_for_groups[function.name];
        asks = facts.hides_names;
        if (found.has_global_variables) why = "the program has variables in global memory";
        for (const std::string &name : reached(found, function.name)) {
            asks = asks || is_one_of(name, group_functions);
            if (!why.empty()) continue;
            if (name == "printf") why = "it prints, and the order of what is printed can't be kept";
            if (name == "enqueue_kernel") why = "it enqueues kernels";
            if (is_atomic(name)) why = "it may use atomics on global memory (" + name + ")";
        }
    }
    return facts;
}

std::string adapted_source(const std::string &source, bool hides_names) {
    const Text text(source);
    const Found found = find_functions(text);
    std::set<std::string> helpers;
    std::set<std::string> kernels;
    for (const Function &function : found.functions)
        if (!found.macros.contains(function.name)) (function.is_kernel ? kernels : helpers).insert(function.name);
    std::set<std::string> called;
    for (const auto &[from, names] : found.mentions)
        for (const std::string &name : names)
            if (name != from && kernels.contains(name)) called.insert(name);

    std::vector<Edit> edits;
    std::map<std::string, std::pair<bool, bool>> arities;  // whether it is without parameters, whether with
    for (const Function &function : found.functions) {
        const bool is_helper = helpers.contains(function.name);
        if (!is_helper && !function.is_kernel) continue;
        const Token &name = text.tokens()[function.name_at];
        const Token &opens = text.tokens()[function.opens];
        const Token &closes = text.tokens()[function.closes];
        const std::size_t count = function.closes - function.opens - 1;
        const bool none = count == 0 || (count == 1 && text.is(function.opens + 1, "void"));
        auto &[without, with] = arities[function.name];
        (none ? without : with) = true;
        if (is_helper || called.contains(function.name)) {
            edits.push_back({name.begin, 0, "("});
            edits.push_back({name.end, 0, ")"});
        }
        const std::string pointer =
            is_helper ? std::string("cldist_launch_pointer cldist_launch") + (none ? "" : ", ") : "";
        edits.push_back({opens.end, none ? closes.begin - opens.end : 0, pointer});
        if (is_helper) continue;
        edits.push_back(
            {closes.begin, 0,
             (none ? "" : ", ") + std::string("const struct cldist_launch ") + std::string(whole_launch_name)});
        if (function.body != 0)
            edits.push_back({text.tokens()[function.body].end, 0,
                             "cldist_launch_pointer const cldist_launch = &" + std::string(whole_launch_name) +
                                 "; (void)cldist_launch; "});
    }

    std::string out(prelude_types);
    std::string macros;
    for (const auto &[name, rest] : prelude_functions) {
        const std::string text_of_name(name);
        const bool is_asked = hides_names || source.find(name) != std::string::npos;
        if (!is_asked || helpers.contains(text_of_name) || found.macros.contains(text_of_name)) continue;
        const bool has_dimension = rest.starts_with("uint");
        out += "static size_t cldist_" + text_of_name + "(cldist_launch_pointer l" + (has_dimension ? ", " : "") +
               std::string(rest) + "\n";
        macros += "#define " + text_of_name + (has_dimension ? "(d) cldist_" : "() cldist_") + text_of_name +
                  (has_dimension ? "(cldist_launch, d)\n" : "(cldist_launch)\n");
    }
    for (const auto &[name, arity] : arities) {
        const auto &[without, with] = arity;
        const bool is_kernel = !helpers.contains(name);
        if (is_kernel && !called.contains(name)) continue;
        const std::string more = with ? without ? ", ##__VA_ARGS__" : ", __VA_ARGS__" : "";
        macros += "#define " + name + (with ? "(...) " : "() ") + name;
        if (is_kernel)
            macros += with ? "(__VA_ARGS__, *cldist_launch)\n" : "(*cldist_launch)\n";
        else
            macros += "(cldist_launch" + more + ")\n";
    }
    out += macros + "#line 1\n";

    std::stable_sort(edits.begin(), edits.end(), [](const Edit &a, const Edit &b) { return a.at < b.at; });
    std::size_t copied = 0;
    for (const Edit &edit : edits) {
        out.append(source, copied, edit.at - copied);
        out += edit.text;
        copied = edit.at + edit.length;
    }
    return out.append(source, copied);
}

}  // namespace cldist::cluster
