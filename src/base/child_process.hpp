#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace cldist {

/// How a child process ended.
struct ChildEnd {
    int error = 0;           ///< errno if the child could not be started or awaited
    bool timed_out = false;  ///< the child was killed at its time limit
    int signal = 0;          ///< signal that ended the child, or 0
    int status = -1;         ///< exit status, or -1
    std::string output;      ///< standard output of the child

    [[nodiscard]] bool well() const {
        return error == 0 && !timed_out && signal == 0 && status == 0;
    }
};

/// Runs the program at the path `arguments[0]` and waits for its end. After `limit`, kills it and
/// its children. Its standard input is empty and its standard error is discarded. `variables`
/// ("NAME=VALUE") replace environment variables. For queries that may crash or hang, such as
/// queries of drivers.
ChildEnd run_child(std::vector<std::string> arguments, std::chrono::milliseconds limit,
                   std::vector<std::string> variables = {});

}  // namespace cldist
