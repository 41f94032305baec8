#include "cluster/split/adapted_source.hpp"

#include <array>
#include <functional>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "cluster/split/source_text.hpp"

using namespace cldist::cluster;

namespace {

const std::string kernel = "kernel void f(global int *o) { o[get_group_id(0)] = 1; }\n";

}  // namespace

TEST_CASE("kernels inside an extern \"C\" block are found") {
    const std::string source = "#ifdef __cplusplus\nextern \"C\" {\n#endif\n" + kernel +
                               "#ifdef __cplusplus\n}\n#endif\n" + "void g(void) {}\n";
    const SourceFacts facts = facts_of(source);
    CHECK(facts.is_balanced);
    CHECK(facts.kernels.contains("f"));
    CHECK(facts.kernels.at("f").empty());
    CHECK(facts.asks_for_groups.at("f"));
    const std::string adapted = adapted_source(source);
    CHECK(adapted.find("f(global int *o, const struct cldist_launch cldist_launch_value)") !=
          std::string::npos);
    CHECK(adapted.find("(g)(cldist_launch_pointer cldist_launch)") != std::string::npos);
}

TEST_CASE("branches of a conditional may each open the same brace") {
    const std::string source =
        "#ifdef A\nkernel void f(global int *o) {\n#else\nkernel void f(global short *o) "
        "{\n#endif\n"
        "    o[get_group_id(0)] = 1;\n#if B\n    if (o[0]) {\n#elif C\n    {\n#else\n    while "
        "(o[0]) {\n#endif\n    "
        "}\n}\n"
        "void g(void) {}\n";
    const SourceFacts facts = facts_of(source);
    CHECK(facts.is_balanced);
    CHECK(facts.kernels.contains("f"));
    CHECK(adapted_source(source).find("(g)(cldist_launch_pointer cldist_launch)") !=
          std::string::npos);
    CHECK(facts_of("kernel void f(global int *o) {\n    o[get_group_id(0)] = 1;\n#ifdef "
                   "A\n#else\n}\n#endif\n")
              .is_balanced == false);
    CHECK(facts_of("constant int table[] = {1, 2};\nstruct s { int a; };\n" + kernel).is_balanced);
}

TEST_CASE("a directive goes on behind a backslash with blanks or a carriage return") {
    for (const std::string end : {"\\\n", "\\\r\n", "\\ \n"}) {
        CAPTURE(end);
        const SourceFacts facts = facts_of("#define ADD(p) " + end +
                                           "    atomic_add(p, 1)\nkernel void f(global int *o) "
                                           "{ ADD(o); }\n");
        CHECK(facts.kernels.at("f").find("atomic_add") != std::string::npos);
    }
}

TEST_CASE("a function is adapted unless it may be a macro") {
    const std::string text = "int g(int x) { return x; }\n" + kernel;
    const auto is_adapted = [&](const std::string &directives) {
        return adapted_source(directives + text).find("#define g(...)") != std::string::npos;
    };
    CHECK(is_adapted(""));
    CHECK(is_adapted("#ifdef A\n#define B\n#endif\n"));
    for (const char *const directives :
         {"#define g(x) 1\n", "#undef g\n", "#ifdef g\n#endif\n",
          "#if 0\n#elif defined(g)\n#endif\n", "typedef struct {\n#undef g\n    int a;\n} s;\n",
          "#pragma push_macro(\"g\")\n"})
        CHECK_FALSE(is_adapted(directives));
}

TEST_CASE("a replaced work-item function must not be a macro of the program") {
    // Before the program, behind it, and behind it without a condition.
    const auto errors = [](const std::string &directives) {
        const std::string adapted = adapted_source(directives + kernel);
        const auto program = adapted.find("kernel void f");
        return std::array{adapted.find("#ifdef get_group_id\n#error ") < program,
                          adapted.find("\n#if get_group_id(0) != ", program) != adapted.npos,
                          adapted.find("\n\n#error ", program) != adapted.npos};
    };
    using expected = std::array<bool, 3>;
    for (const char *const directives :
         {"", "#define get_group_id(d) 1\n", "#undef get_group_id\n", "#ifdef A\n#endif\n"})
        CHECK(errors(directives) == expected{true, true, false});
    for (const char *const directives :
         {"#pragma push_macro(\"get_group_id\")\n", "#ifdef get_group_id\n#endif\n",
          "#if A\n#elif defined(get_group_id)\n#endif\n"})
        CHECK(errors(directives) == expected{true, true, true});
}

TEST_CASE("build options may define any name without changing the added declarations") {
    std::string added = adapted_source(kernel, true);
    added.resize(added.find("#line 1"));
    const Text text(added);
    const std::set<std::string, std::less<>> used{
        "struct", "static", "return", "uint", "ulong", "size_t", "get_global_id", "get_group_id"};
    for (std::size_t i = 0; i < text.tokens().size(); ++i)
        if (text.is_name(i) && !used.contains(text.of(i))) CHECK(text.of(i).starts_with("cldist_"));
}
