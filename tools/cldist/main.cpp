// cldist: a command that examines the system, and runs and analyses programs.
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/config.hpp"
#include "choices.hpp"
#include "cluster_devices.hpp"
#include "device_end.hpp"
#include "doctor.hpp"
#include "explain.hpp"
#include "mpi_interop/wire.hpp"
#include "probes.hpp"
#include "run.hpp"
#include "settings.hpp"
#include "trace.hpp"
#include "tune.hpp"

using namespace cldist::tool;

namespace {

constexpr const char *doctor_help =
    R"(Checks OpenCL platforms and devices, their drivers, the MPI library, limits and settings
of this system. Prints one line for each finding: "ok", "note", "WARNING" or "PROBLEM",
the finding, and after "->" what to do and the section of troubleshooting.md.

In an MPI job (`mpirun -n 4 cldist doctor`) it checks every host. It also prints which
device each rank gets, and latency and bandwidth between each pair of ranks. Start it
like your program, because it also checks the environment.

With PROGRAM it also checks whether the MPI calls of this program reach cldist: the order
of its libraries, PMPI tools, several MPI libraries. The program does not run.

Drivers are tested in child processes, which may crash, and which end after 20 seconds.

Exit status: 0 if there is no problem, 1 if there is a problem, 2 for wrong usage.)";

constexpr const char *trace_help = R"(
Merges the traces of all ranks of a run with CLDIST_TRACE=FOLDER into one file for
Perfetto (ui.perfetto.dev) or chrome://tracing, and prints a table.

Times are on rank 0's clock. The library measures the differences between the ranks' clocks
at MPI_Init and at MPI_Finalize, and interpolates linearly. The command prints the measured
differences and their uncertainty.

The table has a line for each kind of command, followed by a line for each of its stages:
  count          number of commands, or of blocks of a stage
  bytes          bytes moved; a send and its receive both count
  total ms       sum of the times. A command's time begins when its wait list has completed
  median us      median time
  busy ms        time in which at least one was in progress, summed over the ranks
  GB/s           bytes per busy time
  under kernels  share of the busy time during which kernels of the same rank ran

All kernels in queues with profiling are recorded, except in programs that pass their commands to
clTraceEvent (tracing.md in share/doc/cldist/howto).

Exit status: 0 for success, 1 if traces are missing, damaged or cannot be written, 2 for
wrong usage.)";

constexpr const char *tune_help = R"(
Measures how long transfers of each size take on each path, with each block size, and
writes a profile. The library chooses paths and block sizes by the profile if host, device,
driver and MPI library are the same. CLDIST_PATH and similar settings take precedence.

  cldist tune                              measures copies and files
  mpirun -n 2 cldist tune                  also measures messages within a host
  mpirun -n 3 --host a:2,b cldist tune     also measures messages between two hosts

With --check, it prints for each size how many times as long the profile's choice takes as
the best other choice.

Routes that are not measured this time keep their entries in the profile. Run it on an
otherwise idle machine. Received bytes are compared with sent bytes.

Exit status: 0 for success, 1 for failures, including wrong bytes, 2 for wrong usage.)";

constexpr const char *devices_help = R"(
Lists the devices that each process would contribute to the cluster platform. Use the same
options as for `cldist run`, on the same hosts, in the same environment, without a program.

  cldist devices
  cldist devices -n 4 --devices gpu
  cldist devices --hosts a:2,b:2

Exit status: 0 for success, 1 if the platform does not load, 2 for wrong usage or if no
requested device exists.)";

constexpr const char *explain_help = R"(
Prints for each kernel of an OpenCL program whether its launches can be split, and which bytes of
each buffer a work-item reads and writes. If cldist cannot derive this from the source, it prints the
reason. k0, k1 ... count loop iterations, from 0. The system's clang compiles PROGRAM. Pass the options
that the program passes to clBuildProgram:

  cldist explain kernels.cl
  cldist explain kernels.cl -DTILE=16 -cl-std=CL2.0

Exit status: 0 for success, 1 if PROGRAM cannot be read or compiled or if cldist was built without
LLVM, 2 for wrong usage.)";

constexpr const char *config_help = R"(
Prints each setting with its value in this environment, and whether the value is the
default or from the environment. configuration.md in share/doc/cldist describes the
settings.

Exit status: 0 for success, 1 if a CLDIST_ variable is misspelt or its value is invalid, 2 for wrong usage.)";

constexpr const char *run_help = R"(
Starts PROGRAM, an OpenCL program that need not use MPI, on all hosts with mpirun. The
program finds one OpenCL platform with the devices of all processes.

  cldist run -n 4 ./program argument
  cldist run --hosts a,b --devices gpu ./program
  sbatch -N 2 --ntasks-per-node 4 --wrap "cldist run ./program"
  cldist run --host-mode central -n 4 ./program   only rank 0 runs it
  cldist run --simulate 1024:17 ./program         simulates rank 17 of 1024

Each rank runs the whole program. The standard output of rank 0 and the standard error of all
ranks are shown. If another rank fails, the end of its output is shown with its rank and host.
Standard input goes to rank 0. Ctrl-C sends SIGINT to the program; a third Ctrl-C ends the job.
The ranks of a host share its cores: each is bound to separate cores if there are enough,
unless mpirun or the user has bound it.

With --simulate there is one process, which assumes identical devices in the other ranks.
It counts messages but does not send them, and received data is zeros. At the end it writes
the numbers of calls, commands, messages and bytes, the memory of objects and the time to
standard error, or to the file of --counts.

Exit status: that of a rank that failed; 128 + N if signal N ended it; 127 if PROGRAM does not
exist; 126 if it cannot be executed; 2 for wrong usage, and if no device of --devices or
CLDIST_DEVICES exists; 1 if the platform does not load or a host is lost.)";

// Returns the error in a size argument; empty if it is valid.
std::string check_size(const std::string &text) {
    return parse_size(text) ? "" : "\"" + text + "\" is not a size such as 4096, 64k or 4M";
}
std::string check_device(const std::string &text) {
    return names_device(text) ? "" : "\"" + text + "\" is neither cpu, gpu nor a number";
}

std::string check_named(const std::string &text) {
    return text.empty() ? "the value is empty" : "";
}

std::string check_simulation(const std::string &text) {
    return cldist::parse_simulation(text) ? ""
                                          : "\"" + text +
                                                "\" is not PROCESSES[:RANK[:PER_HOST]], with a "
                                                "rank among at most 65536 processes";
}

// The usage line includes the arguments after the options.
class Usage : public CLI::Formatter {
public:
    explicit Usage(const char *rest) : rest_(rest) {}
    std::string make_usage(const CLI::App *app, std::string name) const override {
        const bool is_command = app->get_parent() != nullptr;
        return fmt::format("Usage: {} [OPTIONS]{}{}\n",
                           is_command ? "cldist " + app->get_name() : name,
                           *rest_ == '\0' ? "" : " ", rest_);
    }

private:
    const char *rest_;
};
void set_usage(CLI::App *app, const char *rest) { app->formatter(std::make_shared<Usage>(rest)); }

CLI::App *add_tune(CLI::App &app, TuneOptions &options) {
    CLI::App *const tune =
        app.add_subcommand("tune", "Measures this system and writes a profile for the library");
    tune->footer(tune_help);
    set_usage(tune, "[SIZE...]");
    tune->add_option("--device", options.device,
                     "cpu, gpu or a device's number (default: a GPU if there is one)")
        ->check(check_device);
    CLI::Option *const directory =
        tune->add_option("--directory", options.directory,
                         "Folder in which files are measured (default: TMPDIR or /tmp)");
    CLI::Option *const output =
        tune->add_option("--output", options.output,
                         "File for the profile (default: the file that the library reads)");
    CLI::Option *const seconds =
        tune->add_option("--seconds", options.seconds, "Seconds to measure (default: 100)")
            ->check(CLI::Range(1.0, 3600.0));
    CLI::Option *const force = tune->add_flag(
        "--force", options.force, "Save the profile even if the measured times vary widely");
    CLI::Option *const explain =
        tune->add_flag("--explain", options.explain,
                       "Measure nothing; print what the library chooses for each SIZE, and why");
    tune->add_option("SIZE", options.sizes, "4096, 64k, 4M, … (default: 1k to 256M)")
        ->check(check_size)
        ->needs(explain);
    CLI::Option *const check =
        tune->add_flag("--check", options.check,
                       "Compare the choices of the profile in use with the built-in choice and "
                       "with each path that can be forced");
    CLI::Option *const plot = tune->add_option(
        "--plot", options.plot, "Measure nothing; draw the profile as this PNG file");
    tune->add_option("--profile", options.profile,
                     "Profile to explain or draw (default: the profile in use)");
    explain->excludes(plot);
    for (CLI::Option *const other : {explain, plot, output, force}) check->excludes(other);
    for (CLI::Option *const other : {directory, output, seconds, force}) {
        explain->excludes(other);
        plot->excludes(other);
    }
    return tune;
}

// The common options of `run` and `devices`.
void add_job_options(CLI::App *run, RunOptions &options) {
    run->add_option("-n", options.ranks,
                    "Number of processes (default: what the hosts or the batch system provide)")
        ->check(CLI::Range(1, 1 << 20U));
    run->add_option("--hostfile", options.hostfile, "File with hosts, in mpirun's format")
        ->check(CLI::ExistingFile);
    CLI::Option *const hosts =
        run->add_option("--hosts", options.hosts, "Hosts, in mpirun's format: a:2,b")
            ->check(check_named);
    run->add_option("--host", options.host, "The former name of --hosts and --host-mode")
        ->check(check_named)
        ->excludes(hosts)
        ->group("");
    run->add_option("--devices", options.devices,
                    "Devices that take part: all, or a list such as gpu:2,cpu; sets CLDIST_DEVICES")
        ->check(check_named);
    run->add_flag("--no-bind", options.no_bind, "Do not bind ranks to cores");
    run->add_option("--mpirun-option", options.mpirun_options,
                    "One more argument for mpirun; may be repeated")
        ->allow_extra_args(false);
}

CLI::App *add_run(CLI::App &app, RunOptions &options, bool &rank) {
    CLI::App *const run =
        app.add_subcommand("run", "Runs an OpenCL program on the devices of several hosts");
    run->footer(run_help);
    set_usage(run, "PROGRAM [ARGUMENTS]");
    run->prefix_command();  // PROGRAM and all following arguments
    add_job_options(run, options);
    run->add_flag("--all-output", options.all_output, "Show the standard output of all ranks");
    CLI::Option *const simulate = run->add_option("--simulate", options.simulate,
                                                  "PROCESSES[:RANK[:PER_HOST]]: start one process "
                                                  "without mpirun, which simulates RANK (default: "
                                                  "0) of PROCESSES, with PER_HOST processes on "
                                                  "each host (default: 1); sets CLDIST_SIMULATE")
                                      ->check(check_simulation);
    for (const char *const other : {"-n", "--hostfile", "--hosts", "--host", "--mpirun-option"})
        simulate->excludes(run->get_option(other));
    run->add_option("--host-mode", options.host_mode,
                    "Which processes run PROGRAM. replicated: all; central: rank 0, whose OpenCL "
                    "calls the others "
                    "execute; auto (default): all, and if their calls differ, a new start with "
                    "central; sets "
                    "CLDIST_HOST_MODE")
        ->check(CLI::IsMember({"auto", "replicated", "central"}));
    run->add_option("--view", options.view,
                    "Which devices the program finds. devices: those of all processes; aggregate: "
                    "one virtual device "
                    "that represents them; sets CLDIST_VIEW")
        ->check(CLI::IsMember({"devices", "aggregate"}));
    run->add_option("--counts", options.counts,
                    "Append what each process sends and receives to this file (-: standard error); "
                    "sets CLDIST_COUNTS")
        ->check(check_named);
    run->add_option("--stage", options.stage,
                    "Files and folders, separated by colons, that other hosts read from rank 0's "
                    "host; sets CLDIST_HOST_STAGE")
        ->check(check_named);
    // Options for the ranks that mpirun starts.
    run->add_flag("--rank", rank)->group("");
    run->add_flag("--check-devices", options.check_devices)->group("");
    run->add_flag("--no-terminal", options.no_terminal)->group("");
    return run;
}

// Removes "--" and the following arguments from those of `cldist run`, because CLI11 would pass
// them to the main command.
std::vector<std::string> take_marked(std::vector<std::string> &arguments) {
    if (arguments.empty() || arguments.front() != "run") return {};
    const auto mark = std::ranges::find(arguments, "--");
    std::vector<std::string> marked(mark, arguments.end());
    arguments.erase(mark, arguments.end());
    return marked;
}

// The program and its arguments: first those left before "--", then those after it. Throws if there
// is no program.
std::vector<std::string> program_of(std::vector<std::string> left,
                                    const std::vector<std::string> &marked) {
    if (!left.empty() && left.front().starts_with("-")) throw CLI::ExtrasError("run", left);
    left.insert(left.end(), marked.begin() + (left.empty() && !marked.empty() ? 1 : 0),
                marked.end());
    if (left.empty() || left.front().empty()) throw CLI::RequiredError("PROGRAM");
    return left;
}

// The version of cldist, and those of the libraries that it was built with.
std::string version_text() {
    const std::string hdf5 = CLDIST_HDF5;
#ifdef OPEN_MPI
    const std::string mpi = fmt::format("Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                                        OMPI_RELEASE_VERSION);
#else
    const std::string mpi = fmt::format("MPICH {}", MPICH_VERSION);
#endif
    return fmt::format("cldist {}, built with {}, OpenCL {}, {}, wire version {}\n", CLDIST_VERSION,
                       mpi, CLDIST_OPENCL, hdf5 == "none" ? "no HDF5" : "HDF5 " + hdf5,
                       cldist::wire_version);
}

// Handles a first argument that is no command. Returns whether it was one.
bool complain_of_command(const CLI::App &app, const std::string &word) {
    if (word.starts_with("-")) return false;
    std::vector<std::string> names;
    for (const CLI::App *command : app.get_subcommands(nullptr)) {
        if (command->get_name() == word) return false;
        if (!command->get_group().empty()) names.push_back(command->get_name());
    }
    const auto nearest = std::ranges::min_element(
        names, {}, [&](const std::string &name) { return cldist::edit_distance(word, name); });
    const std::string hint = cldist::edit_distance(word, *nearest) <= 2
                                 ? fmt::format("did you mean {}?", *nearest)
                                 : fmt::format("the commands are {}", fmt::join(names, ", "));
    std::fprintf(stderr, "cldist: unknown command \"%s\"; %s\n", word.c_str(), hint.c_str());
    return true;
}

// Handles an unknown option in `words` (a command and its arguments). Returns whether there is one.
bool complain_of_option(const CLI::App &app, const std::vector<std::string> &words) {
    const std::vector<const CLI::App *> commands = app.get_subcommands(nullptr);
    const auto found = std::ranges::find_if(commands, [&](const CLI::App *command) {
        return !words.empty() && command->get_name() == words.front();
    });
    if (found == commands.end()) return false;
    const CLI::App *const command = *found;
    for (std::size_t i = 1; i < words.size(); ++i) {
        if (!words[i].starts_with("-")) {
            if (command->get_prefix_command()) return false;  // the rest belongs to PROGRAM
            continue;
        }
        if (const std::string count = words[i].substr(0, words[i].find('='));
            count == "-np" || count == "--np") {
            std::fprintf(stderr,
                         "cldist %s: unknown option %s; did you mean -n?\nRun with --help for more "
                         "information.\n",
                         words.front().c_str(), count.c_str());
            return true;
        }
        const bool is_long = words[i].starts_with("--");
        const std::string name =
            is_long ? words[i].substr(0, words[i].find('=')) : words[i].substr(0, 2);
        if (const CLI::Option *const option = command->get_option_no_throw(name);
            option != nullptr) {
            // the option's value
            if (option->get_items_expected_max() > 0 && name == words[i]) ++i;
            continue;
        }
        if (!is_long || name == "--") continue;
        std::string hint;
        for (const CLI::Option *const option : command->get_options())
            for (const std::string &known : option->get_lnames())
                if (!option->get_group().empty() && cldist::edit_distance(name, "--" + known) <= 2)
                    hint = fmt::format("; did you mean --{}?", known);
        std::fprintf(stderr,
                     "cldist %s: unknown option %s%s\nRun with --help for more information.\n",
                     words.front().c_str(), name.c_str(), hint.c_str());
        return true;
    }
    return false;
}

int run_command(int argc, char **argv) {
    CLI::App app("Tools for programs that use cldist. `cldist COMMAND --help` describes a command.",
                 "cldist");
    app.require_subcommand(1);
    set_usage(&app, "COMMAND");
    bool version = false;
    app.add_flag("--version", version,
                 "Print the version, and the MPI, OpenCL and HDF5 versions of the build");

    bool json = false;
    CLI::App *const doctor =
        app.add_subcommand("doctor", "Checks this system and reports problems");
    doctor->footer(doctor_help);
    std::string examined_program;
    set_usage(doctor, "[PROGRAM]");
    doctor->add_option("PROGRAM", examined_program, "A program that is linked with cldist")
        ->check(CLI::ExistingFile);
    doctor->add_flag("--json", json, "Print a JSON object instead of lines");

    TraceOptions options;
    CLI::App *const trace = app.add_subcommand(
        "trace", "Merges the traces of all ranks, and prints how long commands took");
    trace->footer(trace_help);
    set_usage(trace, "FOLDER");
    trace->add_option("FOLDER", options.folder, "The folder of CLDIST_TRACE")->required();
    trace->add_option("-o,--output", options.output,
                      "The merged trace (default: FOLDER/merged.json)");
    trace->add_option("--html", options.html,
                      "Also write a page with the time line and the table, for any browser");
    trace->add_flag("--per-rank", options.per_rank, "Also print a table for each rank");
    trace->add_flag("--partial", options.partial, "Continue if traces are missing or damaged");

    TuneOptions tune_options;
    CLI::App *const tune = add_tune(app, tune_options);

    RunOptions run_options;
    bool is_rank = false;
    CLI::App *const run = add_run(app, run_options, is_rank);

    RunOptions devices_options;
    CLI::App *const devices = app.add_subcommand(
        "devices", "Lists the devices that a program under `cldist run` would find");
    devices->footer(devices_help);
    set_usage(devices, "");
    add_job_options(devices, devices_options);

    std::vector<std::string> explained;  // a program and its build options
    CLI::App *const explain = app.add_subcommand(
        "explain", "Prints which bytes of their arguments the kernels of a program access");
    explain->footer(explain_help);
    set_usage(explain, "PROGRAM [BUILD OPTIONS]");
    explain->prefix_command();

    CLI::App *const settings = app.add_subcommand(
        "config", "Prints all settings, their values and the sources of the values");
    settings->footer(config_help);
    set_usage(settings, "");

    // The process that `run` starts on the other ranks with a central host.
    const CLI::App *const worker = app.add_subcommand("worker")->group("");

    // The child processes of doctor.
    std::string question;
    DevicePlace place;
    CLI::App *const probe = app.add_subcommand("probe")->group("");
    probe->add_option("question", question)->required();
    probe->add_option("platform", place.platform);
    probe->add_option("device", place.device);

    std::vector<std::string> arguments(argv + 1, argv + argc);
    const std::vector<std::string> marked = take_marked(arguments);
    try {
        if (!arguments.empty() && arguments.front() == "--version") {
            fmt::print("{}", version_text());
            return 0;
        }
        if (!arguments.empty() && complain_of_command(app, arguments.front())) return wrong_usage;
        // CLI11 expects the reverse order
        app.parse(std::vector<std::string>{arguments.rbegin(), arguments.rend()});
        if (run->parsed()) run_options.program = program_of(run->remaining(), marked);
        if (explain->parsed()) explained = program_of(explain->remaining(), marked);
    } catch (const CLI::ParseError &error) {
        if (error.get_exit_code() != 0 && complain_of_option(app, arguments)) return wrong_usage;
        return app.exit(error) == 0 ? 0 : wrong_usage;
    }
    if (!tune_options.profile.empty() && !tune_options.explain && tune_options.plot.empty()) {
        std::fprintf(stderr,
                     "cldist tune: --profile needs --explain or --plot\nRun with --help for more "
                     "information.\n");
        return wrong_usage;
    }
    try {
        if (probe->parsed())
            return question == "devices" ? list_devices() : run_probe(question, place);
        if (worker->parsed()) return run_worker();
        if (settings->parsed()) return print_settings(environment_entries());
        if (devices->parsed()) return run_devices(devices_options);
        if (explain->parsed())
            return run_explain(explained.front(), {explained.begin() + 1, explained.end()});
        if (tune->parsed()) return run_tune(tune_options);
        if (run->parsed()) return is_rank ? run_rank(run_options) : run_job(run_options);
        return doctor->parsed() ? run_doctor(json, examined_program) : run_trace(options);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "cldist: %s\n", error.what());
        return 1;
    }
}

}  // namespace

int main(int argc, char **argv) {
    // mpirun never ends if it starts without standard input. Files of this process must not get the
    // numbers of closed outputs, because output would be written to them. open() returns the lowest
    // free descriptor.
    for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor)
        if (fcntl(descriptor, F_GETFD) < 0) static_cast<void>(open("/dev/null", O_RDWR));
    const int status = run_command(argc, argv);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    std::fprintf(stderr, "cldist: cannot write to standard output: %s\n", std::strerror(errno));
    return status != 0 ? status : 1;
}
