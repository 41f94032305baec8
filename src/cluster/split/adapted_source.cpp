#include "cluster/split/adapted_source.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "cluster/split/source_text.hpp"
#include "splitting/build_options.hpp"

namespace cldist::cluster {
namespace {

// Functions that return other values in a part of a launch than in the whole launch.
constexpr std::array<std::string_view, 6> launch_functions = {
    "get_group_id",      "get_num_groups",       "get_global_size",
    "get_global_offset", "get_global_linear_id", "get_group_linear_id"};
// Functions whose results or effects depend on the size or number of work-groups.
constexpr std::array<std::string_view, 9> group_functions = {
    "get_local_size",     "get_local_id",        "get_enqueued_local_size",
    "get_group_id",       "get_num_groups",      "barrier",
    "work_group_barrier", "get_local_linear_id", "get_group_linear_id"};

struct Function {
    std::string name;
    std::size_t name_at;  // token, like the next three members
    std::size_t opens;    // "(" of its parameters
    std::size_t closes;
    std::size_t body;  // "{"; 0 if it is only declared
    bool is_kernel;
};

struct Found {
    std::vector<Function> functions;
    std::set<std::string> macros;   // names in #define, #undef and `queried`
    std::set<std::string> queried;  // names in conditionals and in #pragma push_macro
    // Per function and macro: the names that it contains. "" contains the macros outside functions,
    // which may define functions.
    std::map<std::string, std::set<std::string>> mentions;
    bool has_global_variables = false;
    bool is_balanced = true;  // each "{" has its "}"
};

Found find_functions(const Text &text) {
    Found found;
    for (std::size_t at = 0; at < text.tokens().size(); ++at) {
        if (!text.is_directive(at)) continue;
        const auto words = words_of(text.of(at));
        if (words.size() < 2) continue;
        if (words[0] == "define") {
            found.macros.insert(words[1]);
            found.mentions[words[1]].insert(words.begin() + 2, words.end());
        } else if (words[0] == "undef") {
            found.macros.insert(words[1]);
        } else if (words[0].starts_with("if") || words[0].starts_with("el")) {
            found.queried.insert(words.begin() + 1, words.end());
        } else if (words[0] == "pragma") {  // push_macro("name")
            for (const std::string &word : words)
                if (word.starts_with('"')) found.queried.insert(word.substr(1, word.size() - 2));
        }
    }
    found.macros.insert(found.queried.begin(), found.queried.end());
    std::size_t begin = 0;  // first token of the current declaration
    const auto is_in_declaration = [&](std::size_t end,
                                       std::initializer_list<std::string_view> words) {
        for (std::size_t at = begin; at < end; ++at)
            if (text.is_name(at) && std::ranges::find(words, text.of(at)) != words.end())
                return true;
        return false;
    };
    const auto note_macros = [&](std::size_t end) {
        for (std::size_t at = begin; at < std::min(end, text.tokens().size()); ++at)
            if (const std::string name(text.of(at)); found.macros.contains(name))
                found.mentions[""].insert(name);
    };
    for (std::size_t at = 0; at < text.tokens().size();) {
        if (text.is(at, ";")) {
            note_macros(at);
            if (is_in_declaration(at, {"global", "__global"}) &&
                !is_in_declaration(at, {"typedef"})) {
                bool has_parameters = false;
                for (std::size_t i = begin; i < at; ++i)
                    has_parameters = has_parameters || text.is(i, "(");
                found.has_global_variables = found.has_global_variables || !has_parameters;
            }
            begin = ++at;
        } else if (text.is(at, "{") && at >= 2 && text.is(at - 2, "extern")) {
            note_macros(at);
            begin = ++at;  // extern "C" {, for other compilers
        } else if (text.is(at, "{")) {
            const std::size_t closes = text.closing(at);
            found.is_balanced = found.is_balanced && closes < text.tokens().size();
            at = closes + 1;
        } else if (text.is(at, "}")) {
            note_macros(at);
            begin = ++at;
        } else if (text.is_name(at) && text.is(at + 1, "(")) {
            const std::size_t closes = text.closing(at + 1);
            std::size_t behind = closes + 1;
            while (text.is(behind, "__attribute__") && text.is(behind + 1, "("))
                behind = text.closing(behind + 1) + 1;
            const bool is_definition = text.is(behind, "{");
            const bool is_declaration = text.is(behind, ";") && at > begin && text.is_name(begin);
            const bool is_attribute = text.is(at, "__attribute__") || text.is(at, "__attribute");
            if (is_attribute || !(is_definition || is_declaration) ||
                is_in_declaration(at, {"typedef", "return"})) {
                at = closes + 1;
                continue;
            }
            const std::string name(text.of(at));
            found.functions.push_back({name, at, at + 1, closes, is_definition ? behind : 0,
                                       is_in_declaration(at, {"kernel", "__kernel"})});
            const std::size_t end = is_definition ? text.closing(behind) : behind;
            found.is_balanced = found.is_balanced && end < text.tokens().size();
            auto &mentions = found.mentions[name];
            for (std::size_t i = at + 1; i < std::min(end, text.tokens().size()); ++i)
                if (text.is_name(i)) mentions.emplace(text.of(i));
            note_macros(at + 1);
            begin = at = end + 1;
        } else {
            ++at;
        }
    }
    note_macros(text.tokens().size());
    return found;
}

/// The names that a function uses, directly or through functions and macros.
std::set<std::string> reached(const Found &found, const std::string &from) {
    std::set<std::string> names;
    std::vector<std::string> open{from, ""};
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

/// `pastes`: the name may be the beginning of another name.
bool is_atomic(std::string_view name, bool pastes) {
    constexpr std::array<std::string_view, 5> prefixes = {"atomic_", "atom_", "__atomic_",
                                                          "__opencl_atomic_", "__sync_"};
    return name != "atomic_work_item_fence" &&
           (std::ranges::any_of(
                prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); }) ||
            (pastes && name.starts_with("atom")));
}

// Macros of the build options may have any name without this prefix.
constexpr std::string_view prelude_types =
    R"(#ifdef get_global_id
#error the program has a macro get_global_id
#endif
struct cldist_launch {
    ulong cldist_offset[3]; ulong cldist_size[3]; ulong cldist_first[3]; ulong cldist_groups[3];
};
#define cldist_launch_pointer __private const struct cldist_launch *
)";

// Parameters and bodies of the replacements. The calls in them reach the built-in functions,
// because the macros that hide these functions follow.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> prelude_functions = {{
    {"get_group_id",
     "uint cldist_d) { return get_group_id(cldist_d) + "
     "(cldist_d < 3 ? (size_t)cldist_l->cldist_first[cldist_d] : 0); }"},
    {"get_num_groups",
     "uint cldist_d) { return cldist_d < 3 ? (size_t)cldist_l->cldist_groups[cldist_d] : 1; }"},
    {"get_global_size",
     "uint cldist_d) { return cldist_d < 3 ? (size_t)cldist_l->cldist_size[cldist_d] : 1; }"},
    {"get_global_offset",
     "uint cldist_d) { return cldist_d < 3 ? (size_t)cldist_l->cldist_offset[cldist_d] : 0; }"},
    {"get_global_linear_id",
     ") { return ((get_global_id(2) - (size_t)cldist_l->cldist_offset[2]) * "
     "(size_t)cldist_l->cldist_size[1] + get_global_id(1) - (size_t)cldist_l->cldist_offset[1]) * "
     "(size_t)cldist_l->cldist_size[0] + get_global_id(0) - (size_t)cldist_l->cldist_offset[0]; }"},
    {"get_group_linear_id",
     ") { return ((get_group_id(2) + (size_t)cldist_l->cldist_first[2]) * "
     "(size_t)cldist_l->cldist_groups[1] + get_group_id(1) + (size_t)cldist_l->cldist_first[1]) * "
     "(size_t)cldist_l->cldist_groups[0] + get_group_id(0) + (size_t)cldist_l->cldist_first[0]; }"},
}};

struct Edit {
    std::size_t at;  // character
    std::size_t length;
    std::string text;
};

/// The macros that build options define, as directives.
std::string directives_of(const std::string &options) {
    std::string directives;
    for (std::string macro : splitting::values_of(options, "-D")) {
        if (const auto at = macro.find('='); at != macro.npos) macro[at] = ' ';
        directives += "#define " + macro + "\n";
    }
    return directives;
}

bool contains(const std::string &text, std::string_view part) {
    return text.find(part) != text.npos;
}

/// Returns the text with each line joined to the next one if it ends with a backslash.
std::string joined(const std::string &text) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t next_line = end_of_splice(text, at);
        if (next_line == text.npos)
            out += text[at++];
        else
            at = next_line;
    }
    return out;
}

bool splits_names(const std::string &source) {
    for (std::size_t at = source.find('\\'); at != std::string::npos;
         at = source.find('\\', at + 1)) {
        const std::size_t next_line = end_of_splice(source, at);
        if (at > 0 && continues_name(source[at - 1]) && next_line < source.size() &&
            continues_name(source[next_line]))
            return true;
    }
    return false;
}

bool has_includes(const Text &text) {
    for (std::size_t i = 0; i < text.tokens().size(); ++i) {
        if (!text.is_directive(i)) continue;
        if (const auto words = words_of(text.of(i));
            !words.empty() && words[0].starts_with("include"))
            return true;
    }
    return false;
}

}  // namespace

SourceFacts facts_of(const std::string &source, const std::string &options) {
    const std::string whole = joined(directives_of(options) + source);
    const Text text(whole);
    const Found found = find_functions(text);
    const bool has_digraphs = contains(whole, "%:");
    const bool pastes = contains(whole, "##");
    SourceFacts facts;
    facts.hides_names = contains(options, "get_") || has_digraphs || pastes ||
                        splits_names(source) || has_includes(text);
    facts.is_balanced = found.is_balanced;
    facts.asks_for_launch = facts.hides_names;
    for (std::size_t i = 0; i < text.tokens().size(); ++i) {
        if (text.is_name(i))
            facts.asks_for_launch =
                facts.asks_for_launch || is_one_of(text.of(i), launch_functions);
        if (text.tokens()[i].kind != Token::Kind::directive) continue;
        for (const std::string &word : words_of(text.of(i)))
            facts.asks_for_launch = facts.asks_for_launch || is_one_of(word, launch_functions);
    }
    for (const Function &function : found.functions) {
        if (!function.is_kernel) continue;
        std::string &why = facts.kernels[function.name];
        bool &asks = facts.asks_for_groups[function.name];
        asks = facts.hides_names;
        if (found.has_global_variables)
            why = "the program has program-scope variables in global memory";
        if (has_digraphs) why = "the program may define macros with \"%:\" instead of \"#\"";
        for (const std::string &name : reached(found, function.name)) {
            asks = asks || is_one_of(name, group_functions);
            if (!why.empty()) continue;
            if (name == "printf") why = "it prints, and cldist cannot keep the order of the output";
            if (name == "enqueue_kernel") why = "it enqueues kernels";
            if (is_atomic(name, pastes)) why = "it may use atomics on global memory (" + name + ")";
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
        if (!found.macros.contains(function.name))
            (function.is_kernel ? kernels : helpers).insert(function.name);
    std::set<std::string> called;
    for (const auto &[from, names] : found.mentions)
        for (const std::string &name : names)
            if (name != from && kernels.contains(name)) called.insert(name);

    std::vector<Edit> edits;
    // Per name: whether a function without parameters exists, and whether one with parameters does.
    std::map<std::string, std::pair<bool, bool>> arities;
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
            is_helper ? std::string("cldist_launch_pointer cldist_launch") + (none ? "" : ", ")
                      : "";
        edits.push_back({opens.end, none ? closes.begin - opens.end : 0, pointer});
        if (is_helper) continue;
        edits.push_back({closes.begin, 0,
                         (none ? "" : ", ") + std::string("const struct cldist_launch ") +
                             std::string(whole_launch_name)});
        if (function.body != 0)
            edits.push_back({text.tokens()[function.body].end, 0,
                             "cldist_launch_pointer const cldist_launch = &" +
                                 std::string(whole_launch_name) + "; (void)cldist_launch; "});
    }

    std::string out(prelude_types);
    std::string macros;
    // The program may define or undefine these macros itself, perhaps in a branch or a file that
    // the scanner does not understand. Then the adapted source does not compile.
    std::string checks = "\n\n";
    for (const auto &[name, rest] : prelude_functions) {
        const std::string text_of_name(name);
        const bool is_asked = hides_names || source.find(name) != std::string::npos;
        if (!is_asked || helpers.contains(text_of_name)) continue;
        const bool has_dimension = rest.starts_with("uint");
        const std::string own = "cldist_" + text_of_name;
        const std::string error = "#error the program has a macro " + text_of_name + "\n";
        // Macros of the build options precede these.
        out += "#ifdef " + text_of_name + "\n" + error + "#endif\nstatic size_t " + own +
               "(cldist_launch_pointer cldist_l" + (has_dimension ? ", " : "") + std::string(rest) +
               "\n";
        macros += "#define " + text_of_name + (has_dimension ? "(d) " : "() ") + own +
                  (has_dimension ? "(cldist_launch, d)\n" : "(cldist_launch)\n");
        if (found.queried.contains(text_of_name)) checks += error;
        checks += "#define " + own + "(...) 1864793\n#if " + text_of_name +
                  (has_dimension ? "(0)" : "()") + " != 1864793\n" + error + "#endif\n";
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

    std::ranges::stable_sort(edits, {}, &Edit::at);
    std::size_t copied = 0;
    for (const Edit &edit : edits) {
        out.append(source, copied, edit.at - copied);
        out += edit.text;
        copied = edit.at + edit.length;
    }
    return out.append(source, copied).append(checks);
}

}  // namespace cldist::cluster
