#include "explain.hpp"

#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "base/text_file.hpp"
#include "splitting/library.hpp"

namespace cldist::tool {

int run_explain(const std::string &program, const std::vector<std::string> &options) {
    std::string source;
    if (const std::string error = read_text(program, source); !error.empty()) {
        fmt::print(stderr,
                   "cldist explain: cannot read {}: {}; expected a file with OpenCL C source\n",
                   program, error);
        return 1;
    }
    // One text, as for clBuildProgram.
    std::string all;
    for (const std::string &option : options) {
        all += '"';
        for (const char c : option) {
            if (c == '"' || c == '\\') all += '\\';
            all += c;
        }
        all += "\" ";
    }
    try {
        const auto kernels = splitting::derive(source, all);
        if (kernels.empty()) fmt::print("{}: no kernels\n", program);
        for (const auto &[name, kernel] : kernels) fmt::print("{}", readable(kernel));
    } catch (const std::exception &error) {
        fmt::print(stderr, "cldist explain: {}: {}\n", program, error.what());
        return 1;
    }
    return 0;
}

}  // namespace cldist::tool
