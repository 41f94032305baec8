#pragma once

#include <string>
#include <vector>

#include "run_plan.hpp"

namespace cldist::tool {

/// Of this process.
[[nodiscard]] Environment this_environment();

/// A program that this process starts and stands in for.
struct Program {
    std::vector<std::string> arguments;  ///< its name, looked up in PATH as a shell does, and its arguments
    Environment environment;
    bool own_group = false;             ///< it is in a process group of its own
    bool parent_signals_group = false;  ///< this process's parent sends signals to whole groups, as MPI launchers do
    int death_signal = 0;               ///< that it gets when this process dies
    bool no_input = false;              ///< its standard input is empty
    bool keep_output = false;           ///< the end of its standard output is kept, nothing printed
};

/// How it ended.
struct ProgramEnd {
    int error = 0;        ///< errno, if it could not be started
    int wait_status = 0;  ///< as waitpid gives it
    int stopped_by = 0;   ///< the last of SIGTERM, SIGINT, SIGHUP that came for it, or 0
    std::string output;   ///< what was kept
};

/// Runs it to its end. Passes on SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2, but those that the terminal or the
/// parent sent to the whole group: a program in this group has them already. To be called once, and with no other
/// thread: these signals stay blocked. Throws std::system_error if the system has no pipe or process left.
ProgramEnd run_program(const Program &program);

}  // namespace cldist::tool
