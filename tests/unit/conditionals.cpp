#include "cluster/split/conditionals.hpp"

#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "cluster/split/source_text.hpp"

using namespace cldist::cluster;

namespace {

/// A compiler's report: whether it takes each branch, and the macros' values as "=value" or "".
std::string report(const std::string &branches, const std::string &values) {
    return branches + values + '\0';
}

}  // namespace

TEST_CASE("a program without conditionals and predefined macros is the same for all compilers") {
    const std::string source =
        "__kernel void f(__global int *a) { a[get_global_id(0)] = CHAR_BIT; }\n";
    const Conditionals conditionals(source, "-DN=3 -cl-std=CL1.2");
    CHECK(conditionals.empty());
    CHECK(conditionals.decided(report("", "")) == source);
    CHECK(Conditionals("#ifdef N\n#endif\n", "").empty() == false);
    CHECK(Conditionals(source, "-DN=__OPENCL_C_VERSION__").empty() == false);
}

TEST_CASE("branches that a compiler does not take are removed, and lines keep their numbers") {
    const Conditionals conditionals(
        "#if A /* over\ntwo lines */\none\n#if B\ntwo\n#else\nthree\n#endif\n#elif "
        "C\nfour's\n#endif\nfive\n",
        "");
    CHECK(conditionals.decided(report("1010", "=120\n")) ==
          "#undef __OPENCL_C_VERSION__\n#define __OPENCL_C_VERSION__ 120\n#line "
          "1\n\n\none\n\n\n\nthree\n\n\n\n\nfive\n");
    CHECK(conditionals.decided(report("0001", "\n")) ==
          "#undef __OPENCL_C_VERSION__\n#line 1\n\n\n\n\n\n\n\n\n\nfour's\n\nfive\n");
    CHECK(conditionals.language_version(report("0001", "=300\n")) == 300);
    CHECK(conditionals.difference(report("1010", "=120\n"), report("1010", "=120\n")).empty());
    CHECK(conditionals.difference(report("1010", "=120\n"), report("1100", "=120\n")) ==
          "whether \"#if B\" (line 4) is taken");
    CHECK(conditionals.difference(report("1010", "=120\n"), report("1010", "=300\n")) ==
          "the macro __OPENCL_C_VERSION__");
}

TEST_CASE("macros with arguments are not replaced") {
    const Conditionals conditionals("int a = __SIZE(__VALUE);\n", "");
    CHECK(conditionals.decided(report("", "=300\n=__SIZE\n=7 + 1\n")).find("#undef __SIZE") ==
          std::string::npos);
    CHECK(conditionals.decided(report("", "=300\n=__SIZE\n=7 + 1\n"))
              .find("#define __VALUE 7 + 1\n") != std::string::npos);
}

TEST_CASE("a program is refused if no report can describe it") {
    const auto decided = [](const std::string &source, const std::string &branches) {
        return Conditionals(source, "").decided(report(branches, "=300\n"));
    };
    CHECK_THROWS_AS(decided("#if 1\nint a = __COUNTER__;\n#endif\n", "1"), std::runtime_error);
    CHECK_NOTHROW(decided("#if 0\nint a = __COUNTER__;\n#endif\n", "0"));
    CHECK_THROWS_AS(decided("#if 1\n#include \"a.h\"\n#endif\n", "1"), std::runtime_error);
    CHECK_NOTHROW(decided("#if 0\n#include \"a.h\"\n#endif\n", "0"));
    CHECK_THROWS_AS(decided("#if 1\n#define NAME __FILE__\n#endif\n", "1"), std::runtime_error);
    CHECK_THROWS_AS(decided("#if 1\n#endif\n#endif\n", "1"), std::runtime_error);
    CHECK_THROWS_AS(Conditionals("%:if 1\n%:endif\n", ""), std::runtime_error);
    CHECK_THROWS_AS(Conditionals("_Pragma(\"push_macro(\\\"A\\\")\")\n", ""), std::runtime_error);
    CHECK_THROWS_AS(Conditionals("#if A\n#endif\n", "").decided("1"), std::runtime_error);
}

TEST_CASE("the program for the report keeps line numbers and contains no code") {
    const std::string asks =
        Conditionals("int a;\n#if __LINE__ == 2\nint b; // it's\n#endif\n", "").program();
    CHECK(asks.find("#line 2\n#if __LINE__ == 2\n#define cldist_branch_0\n#line 4\n#endif\n") !=
          std::string::npos);
    CHECK(asks.find("int b") == std::string::npos);
}

TEST_CASE("included files are found next to the including file, and may include each other") {
    const auto find = [](const std::string &name) -> std::optional<std::string> {
        if (name == "in/a.h") return "#ifndef A\n#define A\n#include \"b.h\"\nint a;\n#endif\n";
        if (name == "in/b.h") return "#ifndef B\n#define B\n#include \"a.h\"\nint b;\n#endif\n";
        return std::nullopt;
    };
    const std::string all = with_includes("#include \"in/a.h\"\n", find);
    CHECK(all.find("int a;") != std::string::npos);
    CHECK(all.find("int b;") != std::string::npos);
    // A directive may contain quotes and the beginning of a comment.
    const std::string source = "#define PATTERN \"/*\"\n#include \"in/a.h\"\n";
    CHECK(with_includes(source, find).find("int a;") != std::string::npos);
}
