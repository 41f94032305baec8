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

TEST_CASE("macros do not hide what a kernel may not use in parts of a launch") {
    struct program {
        const char *options;
        std::string source;
    };
    const auto with = [](const char *directives, const char *body) {
        return std::string(directives) + "kernel void f(global int *o) { " + body + " }\n";
    };
    for (const program &each : {
             program{"-DADD=atomic_add", with("", "ADD(o, 1);")},
             {"-cl-std=CL1.2 -D ADD=SUM -DSUM=atomic_add", with("", "ADD(o, 1);")},
             {"-D 'ADD(p)=atomic_add(p, 1)'", with("", "ADD(o);")},
             {"-DADD(p)=atom_add(p,1)", with("", "ADD(o);")},
             {"-DSAY=printf", with("", "SAY(\"x\");")},
             {"", with("#define MAKE void add(global int *p) { atomic_add(p, 1); }\nMAKE\n",
                       "add(o);")},
             {"", with("#define MAKE(n) void n(global int *p) { atomic_add(p, 1); }\n"
                       "MAKE(add)\n",
                       "add(o);")},
             {"", with("#define JOIN(x, y) x##y\n", "JOIN(atomic, _add)(o, 1);")},
             {"-DJOIN(x,y)=x##y", with("", "JOIN(atom, ic_add)(o, 1);")},
             {"", with("%:define ADD atomic_add\n", "ADD(o, 1);")},
             {"", with("", "ato\\\nmic_add(o, 1);")},
             {"", with("", "__opencl_atomic_fetch_add(o, 1, 0, 1);")},
             {"", with("", "__sync_fetch_and_add(o, 1);")},
         }) {
        CAPTURE(std::string(each.options));
        CAPTURE(each.source);
        const SourceFacts facts = facts_of(each.source, each.options);
        CHECK_FALSE(facts.kernels.at("f").empty());
    }
    for (const program &each :
         {program{"-DADD=atomic_add", with("", "o[0] = 1;")},
          {"", with("#define JOIN(x, y) x##y\n", "JOIN(o, [0]) = 1;")},
          {"", with("#define MAKE void add(global int *p) { p[0]++; }\nMAKE\n", "add(o);")}}) {
        CAPTURE(std::string(each.options));
        CAPTURE(each.source);
        CHECK(facts_of(each.source, each.options).kernels.at("f").empty());
    }
    CHECK(facts_of(with("", "SYNC(1);"), "-DSYNC=barrier").asks_for_groups.at("f"));
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
