#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace cldist {

/// How a child process ended.
struct ChildEnd {
    int error = 0;           ///< errno if the child could not be started or awaited
    bool timed_out = false;  ///< the child was killed at the time limit
    int signal = 0;          ///< signal that ended the child, or 0
    int status = -1;         ///< exit status, or -1
    std::string output;      ///< standard output of the child

    [[nodiscard]] bool well() const {
        return error == 0 && !timed_out && signal == 0 && status == 0;
    }
};

/// Runs the program at the path `arguments[0]` and waits for its end. After `limit` it kills the
/// program and the program's children. Standard input is empty and standard error is discarded.
/// `variables` ("NAME=VALUE") replace variables of the environment. Use it for queries that may
/// crash or hang, such as queries of drivers.
ChildEnd run_child(std::vector<std::string> arguments, std::chrono::milliseconds limit,
                   std::vector<std::string> variables = {});

}  // namespace cldist
