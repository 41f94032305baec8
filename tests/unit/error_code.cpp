#include "base/error_code.hpp"

#include <set>

#include <CL/cl_ext_dist.h>
#include <doctest/doctest.h>

using namespace cldist;

TEST_CASE("errors of OpenCL and of cldist are printed with their names, other errors as numbers") {
    CHECK(code_text(CL_DEVICE_NOT_FOUND) == "CL_DEVICE_NOT_FOUND (-1)");
    CHECK(code_text(CL_OUT_OF_HOST_MEMORY) == "CL_OUT_OF_HOST_MEMORY (-6)");
    CHECK(code_text(CL_INVALID_RANK) == "CL_INVALID_RANK (-1203)");
    CHECK(status_text(-5) == "CL_OUT_OF_RESOURCES (-5)");
    CHECK(status_text(-1) == "-1");
    CHECK(code_text(-1001) == "CL_PLATFORM_NOT_FOUND_KHR (-1001)");
    CHECK(code_text(-1220) == "CL_HDF5_ERROR (-1220)");
    CHECK(code_text(-77) == "-77");
    CHECK(code_text(CL_COMPLETE) == "0");
    CHECK(code_text(CL_RUNNING) == "1");
}

TEST_CASE("every code of OpenCL 1.0 to 3.0 and of cldist has a unique name") {
    std::set<std::string> texts;
    const auto expect_named = [&](int first, int last) {
        for (int code = first; code >= last; --code) {
            CAPTURE(code);
            CHECK(code_text(code).find("CL_") == 0);
            CHECK(texts.insert(code_text(code)).second);
        }
    };
    expect_named(-1, -19);
    expect_named(-30, -72);
    expect_named(CL_MPI_NOT_INITIALIZED, CL_END_OF_FILE);
}
