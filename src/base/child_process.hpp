#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace cldist {

/// How a child process ended.
struct ChildEnd {
    int error = 0;           ///< errno, if it could not be started or waited for
    bool timed_out = false;  ///< it was killed
    int signal = 0;          ///< that ended it, or 0
    int status = -1;         ///< its exit status, if it came to one
    std::string output;      ///< its standard output

    [[nodiscard]] bool well() const { return error == 0 && !timed_out && signal == 0 && status == 0; }
};

/// Runs a program, given with its path, and waits for its end; kills it and its own children after `limit`. Its standard
/// error goes nowhere, its standard input is empty. `variables` ("NAME=VALUE") take the place of those of its environment. For
/// what may crash or hang: drivers that are asked for their manners.
ChildEnd run_child(std::vector<std::string> arguments, std::chrono::milliseconds limit,
                   std::vector<std::string> variables = {});

}  // namespace cldist
