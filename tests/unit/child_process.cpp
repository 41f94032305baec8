#include "base/child_process.hpp"

#include <cstdlib>
#include <cstring>

#include <doctest/doctest.h>

using namespace cldist;

TEST_CASE(
    "a child process gets the whole list of platforms, although the loader has cut it in the "
    "environment") {
    using namespace std::chrono_literals;
    // tests/unit/meson.build starts this program with the list. The test does nothing otherwise.
    char *const list = std::getenv("OCL_ICD_FILENAMES");
    if (list == nullptr || std::strcmp(list, "libno-platform.so:libno-other.so") != 0) return;
    *std::strchr(list, ':') = '\0';
    const ChildEnd end = run_child({"/bin/sh", "-c", "echo $OCL_ICD_FILENAMES"}, 5000ms);
    CHECK(end.output == "libno-platform.so:libno-other.so\n");
    *(list + std::strlen(list)) = ':';
}
