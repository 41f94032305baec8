#pragma once

#include <climits>
#include <csignal>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cldist::tool {

/// The decisions of `cldist run`, separate from its actions. All functions are pure.

using Environment = std::map<std::string, std::string>;

/// The exit status for wrong usage.
constexpr int wrong_usage = 2;

/// The signal sent to Open MPI's mpirun in place of SIGINT, on which mpirun would end the job.
/// mpirun forwards it to the ranks. Its default action is to be ignored.
constexpr int interrupt_carrier = SIGURG;

struct RunOptions {
    int ranks = 0;          ///< 0: as many as the hosts or the allocation provide
    std::string hostfile;   ///< mpirun's host file, or empty
    std::string hosts;      ///< "a:2,b", or empty
    std::string host;       ///< the value of --host, or empty
    std::string devices;    ///< the value of CLDIST_DEVICES, or empty
    std::string simulate;   ///< the value of CLDIST_SIMULATE, or empty
    std::string counts;     ///< the value of CLDIST_COUNTS, or empty
    std::string host_mode;  ///< the value of CLDIST_HOST_MODE, or empty
    std::string stage;      ///< the value of CLDIST_HOST_STAGE, or empty
    std::string view;       ///< the value of CLDIST_VIEW, or empty
    bool all_output = false;
    bool no_bind = false;
    bool no_terminal = false;    ///< for a rank: the job's standard output is not a terminal
    bool check_devices = false;  ///< for a rank: check the host for the requested devices
    std::vector<std::string> mpirun_options;
    std::vector<std::string> program;  ///< with its arguments
};

/// Whether a batch system known to mpirun has allocated hosts to this process.
[[nodiscard]] bool has_allocation(const Environment &environment);

/// Uses PBS's list of hosts as the host file, unless the user listed hosts. Otherwise an mpirun
/// without PBS's library would start all ranks on this host.
void take_node_file(RunOptions &options, const Environment &environment);

/// Whether ranks may be on hosts other than this one.
[[nodiscard]] bool on_other_hosts(const RunOptions &options, const Environment &environment);

/// The parts of a text between separators. There is none after a separator at its end.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

/// The names in "a:2,b", without the numbers.
[[nodiscard]] std::vector<std::string> host_names(std::string_view list, char separator);

/// The command that starts the ranks. `self` is the path of cldist on every host.
[[nodiscard]] std::vector<std::string> mpirun_command(const RunOptions &options, bool open_mpi,
                                                      const std::string &mpirun,
                                                      const std::string &self,
                                                      const Environment &environment);

/// The environment of mpirun: ranks are not bound, any number of ranks may run on this host unless
/// hosts are given, and mpirun loads no OpenCL platform. The user's own settings take precedence.
[[nodiscard]] Environment mpirun_environment(const RunOptions &options, bool open_mpi,
                                             Environment environment);

/// A rank's place, from the variables of mpirun or Slurm.
struct RankPlace {
    int rank = 0;
    int local_rank = 0;
    int local_size = 0;  ///< ranks on this host; 0 if unknown

    bool operator==(const RankPlace &) const = default;
};
[[nodiscard]] RankPlace place_of(const Environment &environment);
/// The number of ranks of the job; 1 if unknown.
[[nodiscard]] int ranks_of(const Environment &environment);

/// The value of CLDIST_HOST_WRAP.
[[nodiscard]] std::string host_wrap(const Environment &environment);
/// The first invalid word in that value; empty if all words are valid. "off" is valid alone.
[[nodiscard]] std::string wrong_group(std::string_view groups);

/// A hardware thread.
struct Processor {
    int number = 0;
    int package = 0;
    std::string core;  ///< equal for all threads of a core
};

/// A rank's part of its host.
struct CoreShare {
    std::vector<int> processors;  ///< the processors to bind to; empty: no binding
    int threads = 1;              ///< for computing
    bool crowded = false;         ///< there are more ranks than cores

    bool operator==(const CoreShare &) const = default;
};

/// Assigns neighbouring whole cores to a rank. `usable` are the processors of the rank's affinity
/// mask, and `launcher_processors` is the number in the mask of the starting process. If that is
/// larger, the rank is already bound. `place.local_size` must be known. `allowed` is the CPU time
/// limit of the host's ranks in processors. If there is a limit, ranks are not bound.
[[nodiscard]] CoreShare share_of(std::vector<Processor> usable, int launcher_processors,
                                 RankPlace place, bool bind, int allowed = INT_MAX);

/// The smallest number of running threads in several samples of /proc/loadavg, less the sampler.
[[nodiscard]] int running_besides(const std::vector<std::string> &looks);
/// The CPU time limit of a control group in processors, at least 1, from `quota` and `period`.
/// "max", -1 or an empty text means no limit.
[[nodiscard]] int processors_by_quota(const std::string &quota, const std::string &period);

/// The reason why the library at this path (libcldist-host) cannot be preloaded, with advice; empty
/// if it can, or need not.
[[nodiscard]] std::string refusal_of_library(const std::string &path,
                                             const Environment &environment);

/// What take_host() reports about `--host`, a deprecated name of `--hosts` and `--host-mode`.
struct FormerOption {
    std::string warning;
    std::string refusal;

    bool operator==(const FormerOption &) const = default;
};
[[nodiscard]] FormerOption take_host(RunOptions &options);

/// The reason why Open MPI would refuse to run as root, with advice; empty if it would not.
[[nodiscard]] std::string refusal_of_root(const RunOptions &options,
                                          const Environment &environment);

/// The reason why `cldist run` cannot start mpirun in a process that another launcher has started,
/// with advice; empty if it can.
[[nodiscard]] std::string refusal_under_launcher(bool open_mpi, const Environment &environment);

/// The text that the first run of a job has printed on one of its outputs. The second run repeats
/// it, and `cldist run` prints only the new text.
class Shown {
public:
    /// Number of bytes kept for comparison. Later text is assumed to be repeated unchanged.
    static constexpr std::size_t limit = std::size_t{16} << 20U;
    void add(std::string_view part);
    /// Returns the new text in the next part of the second run's output: everything from the first
    /// line that differs.
    [[nodiscard]] std::string new_in(std::string_view part);
    /// Whether the text contains the announcement of a new start.
    [[nodiscard]] bool announces_new_start() const { return announced_; }

private:
    std::string kept_;
    std::size_t size_ = 0;
    std::string last_;  ///< the last bytes, in which an announcement may begin
    bool announced_ = false;
    std::size_t at_ = 0;  ///< number of bytes that the second run has repeated
    bool differs_ = false;
};

/// Whether CLDIST_HOST_MODE lets the job start again with a central host if its calls differ.
[[nodiscard]] bool may_start_again(const Environment &environment);
/// The reason why the job must not start again, which completes the sentence "the program ...";
/// empty if it may.
[[nodiscard]] std::string why_not_again(const RunOptions &options, const Environment &environment);

/// Whether only rank 0 runs the program (CLDIST_HOST_MODE).
[[nodiscard]] bool is_central(const Environment &environment);

/// The command that a rank runs: the program or, on other ranks of a central host, the worker.
/// `self` is the path of cldist.
[[nodiscard]] std::vector<std::string> rank_program(const RunOptions &options,
                                                    const Environment &environment, int rank,
                                                    const std::string &self);

/// The environment of the program. OpenCL loads only the cluster platform, from the folder
/// `vendors`. The platform gets the list of drivers that OpenCL would have loaded. PoCL is limited
/// to the threads of the rank's `share` of the cores, unless `share` is null.
[[nodiscard]] Environment rank_environment(Environment environment, const std::string &vendors,
                                           const std::string &devices, const CoreShare *share);

/// The last part of an output.
class Tail {
public:
    static constexpr std::size_t limit = 16384;  ///< bytes

    void append(std::string_view part);
    [[nodiscard]] const std::string &text() const { return text_; }

private:
    std::string text_;
};

/// Returns "SIGSEGV", or "signal 35" for a signal without a name.
[[nodiscard]] std::string signal_name(int signal);

/// A shell's exit status for a status of waitpid: 128 + N for signal N.
[[nodiscard]] int exit_status(int wait_status);

/// The same for mpirun. If it got the signal `stopped_by` (not 0), the result is that signal's,
/// because mpirun's own status is meaningless then.
[[nodiscard]] int job_status(int wait_status, int stopped_by);

/// The report of lost hosts and of unreachable hosts; empty if there are none.
[[nodiscard]] std::string hosts_report(const std::vector<std::string> &lost,
                                       const std::vector<std::string> &unreachable);

[[nodiscard]] std::string failure_report(int rank, const std::string &host, int wait_status,
                                         const std::string &tail);

}  // namespace cldist::tool
