#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "run_plan.hpp"

namespace cldist::tool {

/// The environment of this process.
[[nodiscard]] Environment this_environment();

/// "NAME=VALUE" for each variable.
[[nodiscard]] std::vector<std::string> entries_of(const Environment &environment);

/// Changes a program's output on its way: returns the text to print after `part` has arrived. An
/// empty `part` means the end.
using Filter = std::function<std::string(std::string_view part)>;

/// A program that this process starts, and whose signals and output it handles.
struct Program {
    /// The destination of its standard output.
    enum class Output {
        own,        ///< it writes to this process's standard output
        passed_on,  ///< it writes to a pipe, which this process copies to its standard output
        kept,       ///< nothing is printed; the last part is kept
    };

    /// its name, looked up in PATH like in a shell, and its arguments
    std::vector<std::string> arguments;
    Environment environment;
    bool own_group = false;  ///< it gets its own process group
    /// This process's parent sends signals to whole groups, as MPI launchers do.
    bool parent_signals_group = false;
    int death_signal = 0;   ///< the signal that it gets when this process dies
    bool no_input = false;  ///< its standard input is empty
    Output output = Output::own;
    Filter passed;  ///< if set, the passed-on output becomes what the filter returns
    /// If set, its standard error is a pipe, and this process copies what the filter returns.
    Filter errors;
    int interrupt_as = 0;  ///< if set, it gets this signal for each SIGINT, never SIGINT itself
    /// if set, this signal from the parent interrupts this process's group
    int interrupted_by = 0;
    bool is_interruptible = true;  ///< false: it ignores SIGINT
    /// If set, it is called after the program has exited with status 0. Returns whether the program
    /// may have left a daemon. Then this process waits for the daemon: a child process that has the
    /// program's executable or OpenCL's loader.
    std::function<bool()> may_leave_daemon;
    /// If set, it is called regularly. Returns whether a process that the program started has died,
    /// and the program must not go on. The program is then stopped with SIGTERM.
    std::function<bool()> has_died;
};

/// The end of a program.
struct ProgramEnd {
    int error = 0;             ///< errno if it could not be started
    int wait_status = 0;       ///< as returned by waitpid
    int stopped_by = 0;        ///< the last SIGTERM, SIGINT or SIGHUP for the program, or 0
    bool interrupted = false;  ///< the program got SIGINT
    /// the reader of this process's output closed it, and the program was stopped with SIGTERM
    bool cut_off = false;
    bool died = false;   ///< see Program::has_died
    std::string output;  ///< the kept output
};

/// Runs the program to its end. Passes on SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2, except
/// signals that the terminal or the parent sent to the whole group, because a program in this group
/// already got them. The third SIGINT for a program with `interrupt_as` is passed on as SIGTERM.
/// Must be called without other threads; these signals stay blocked. Throws std::system_error if
/// the system can't create a pipe or process.
ProgramEnd run_program(const Program &program);

/// The pending signal that is to end the job, or 0. run_program() has left these signals blocked.
[[nodiscard]] int pending_stop();
/// Waits for such a signal, at most 10 s.
void wait_for_stop();

}  // namespace cldist::tool
