#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "splitting/build_options.hpp"

using namespace cldist::splitting;

using Words = std::vector<std::string>;

TEST_CASE("build options are split at white space outside quotes and not after a backslash") {
    CHECK(options_of("").empty());
    CHECK(options_of("  \t ").empty());
    CHECK(options_of("-DA=1  -cl-std=CL2.0\t-g\n") == Words{"-DA=1", "-cl-std=CL2.0", "-g"});
    CHECK(options_of(R"(-DA="two words" '-I a b' c\ d "")") ==
          Words{"-DA=two words", "-I a b", "c d", ""});
    CHECK(options_of(R"(-DA=\"text\" '\')") == Words{"-DA=\"text\"", "\\"});
}

TEST_CASE("include folders follow -I directly or as the next option") {
    CHECK(include_folders("-DI -cl-mad-enable").empty());
    CHECK(include_folders(R"(-I one -Itwo -DX -I "three four" -I -I)") ==
          Words{"one", "two", "three four", "-I"});
    CHECK(include_folders(R"(-I a\ b)") == Words{"a b"});
}
