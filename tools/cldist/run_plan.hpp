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

/// Open MPI's mpirun passes this signal to the ranks. It replaces SIGINT, with which mpirun would
/// end the job. By default it ends no process.
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
    bool no_terminal = false;  ///< of a rank: the job's standard output is not a terminal
    bool look = false;         ///< of a rank: it checks its host for the requested devices
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
/// The first invalid word in that value; empty if all words are valid.
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

/// Neighbouring whole cores. `usable` are the processors of the rank's affinity mask, and
/// `launcher_processors` is the number in the mask of the starting process. If that is larger, the
/// rank is already bound. `place` has a local size. `allowed` is the CPU time limit of the host's
/// ranks in processors. If there is a limit, ranks are not bound.
[[nodiscard]] CoreShare share_of(std::vector<Processor> usable, int launcher_processors,
                                 RankPlace place, bool bind, int allowed = INT_MAX);

/// The number of threads, except the sampling one, that ran at each of several samples of
/// /proc/loadavg.
[[nodiscard]] int running_besides(const std::vector<std::string> &looks);
/// The CPU time limit of a control group in processors, at least 1, from `quota` and `period`.
/// "max", -1 or an empty text means no limit.
[[nodiscard]] int processors_by_quota(const std::string &quota, const std::string &period);

/// Handles `--host`, the former name of `--hosts` and `--host-mode`. Returns a warning, or an
/// error.
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

/// The text that one run of a job has shown on one of its outputs. The next run repeats the text,
/// and only new text is shown.
class Shown {
public:
    /// The text up to here is kept. The rest is taken to be repeated unchanged.
    static constexpr std::size_t limit = std::size_t{16} << 20U;
    void add(std::string_view part);
    /// The new text in the next part of the next run's output: everything from the first line that
    /// differs on.
    [[nodiscard]] std::string new_in(std::string_view part);
    /// Whether it contains the announcement of a new start.
    [[nodiscard]] bool announces_new_start() const { return announced_; }

private:
    std::string kept_;
    std::size_t size_ = 0;
    std::string last_;  // in which the announcement may begin
    bool announced_ = false;
    std::size_t at_ = 0;  // so much was repeated
    bool differs_ = false;
};

/// Whether the job starts again with a central host if its processes' calls differ
/// (CLDIST_HOST_MODE).
[[nodiscard]] bool may_start_again(const Environment &environment);
/// If a new start would not repeat the job, the reason, which continues "the program ...";
/// otherwise empty.
[[nodiscard]] std::string why_not_again(const RunOptions &options, const Environment &environment);

/// Whether only rank 0 runs the program (CLDIST_HOST_MODE).
[[nodiscard]] bool is_central(const Environment &environment);

/// The command that a rank runs: the program or, on other ranks of a central host, the worker.
/// `self` is the path of cldist.
[[nodiscard]] std::vector<std::string> rank_program(const RunOptions &options,
                                                    const Environment &environment, int rank,
                                                    const std::string &self);

/// The environment of the program: it sees only the cluster platform in the folder `vendors`, which
/// gets the list of the drivers that would have been loaded. Also contains the rank's `share`, if
/// known.
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

/// For example "SIGSEGV" or "signal 35".
[[nodiscard]] std::string signal_name(int signal);

/// A shell's exit status for a status of waitpid: 128 + N for signal N.
[[nodiscard]] int exit_status(int wait_status);

/// The same for mpirun. If it got the signal `stopped_by` (not 0), its own status, even 0, is
/// meaningless.
[[nodiscard]] int job_status(int wait_status, int stopped_by);

/// The report of lost hosts and of unreachable hosts; empty if there are none.
[[nodiscard]] std::string hosts_report(const std::vector<std::string> &lost,
                                       const std::vector<std::string> &unreachable);

/// The report of a failed rank.
[[nodiscard]] std::string failure_report(int rank, const std::string &host, int wait_status,
                                         const std::string &tail);

}  // namespace cldist::tool
