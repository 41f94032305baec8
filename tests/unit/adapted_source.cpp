#include "cluster/split/adapted_source.hpp"

#include <string>

#include <doctest/doctest.h>

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
