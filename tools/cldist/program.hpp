#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "run_plan.hpp"

namespace cldist::tool {

/// Of this process.
[[nodiscard]] Environment this_environment();

/// Changes a program's output on its way: returns the text to print after `part` has arrived. At the end, `part` is empty.
using Filter = std::function<std::string(std::string_view part)>;

/// A program that this process starts and stands in for.
struct Program {
    /// Where its standard output goes.
    enum class Output {
        own,        ///< it writes to this process's
        passed_on,  ///< it writes to a pipe, which this process copies to its standard output
        kept,       ///< nothing is printed; the end is kept
    };

    std::vector<std::string> arguments;  ///< its name, looked up in PATH as a shell does, and its arguments
    Environment environment;
    bool own_group = false;             ///< it is in a process group of its own
    bool parent_signals_group = false;  ///< this process's parent sends signals to whole groups, as MPI launchers do
    int death_signal = 0;               ///< that it gets when this process dies
    bool no_input = false;              ///< its standard input is empty
    Output output = Output::own;
    Filter errors;           ///< if set, its standard error is a pipe, and this process copies what the filter returns
    int interrupt_as = 0;    ///< if set, it gets this signal for each SIGINT, never SIGINT itself
    int interrupted_by = 0;  ///< if set, this signal of the parent's interrupts this process's group
    bool is_interruptible = true;  ///< false: it ignores SIGINT
    /// If set: the program has exited with status 0. Returns whether it may have left a daemon to do its work. Then this process
    /// waits for the daemon, which is a child process that has the program's executable or OpenCL's loader.
    std::function<bool()> may_leave_daemon;
};

/// How it ended.
struct ProgramEnd {
    int error = 0;             ///< errno, if it could not be started
    int wait_status = 0;       ///< as waitpid gives it
    int stopped_by = 0;        ///< the last of SIGTERM, SIGINT, SIGHUP that came for it, or 0
    bool interrupted = false;  ///< SIGINT came for it
    bool cut_off = false;  ///< nobody reads this process's output any more, and the program was stopped with SIGTERM
    std::string output;    ///< what was kept
};

/// Runs it to its end. Passes on SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2, except those that the terminal or the
/// parent sent to the whole group: a program in this group has them already. The third SIGINT for a program with
/// `interrupt_as` is passed on as SIGTERM. To be called with no other thread: these signals stay blocked. Throws
/// std::system_error if the system has no pipe or process left.
ProgramEnd run_program(const Program &program);

}  // namespace cldist::tool
