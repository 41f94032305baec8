#pragma once

#include <climits>
#include <csignal>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cldist::tool {

/// What `cldist run` decides, apart from what it asks and does. All of it is pure.

using Environment = std::map<std::string, std::string>;

/// The signal that Open MPI's mpirun passes on to the ranks in place of SIGINT, on which mpirun would end the job. By default
/// it ends no process.
constexpr int interrupt_carrier = SIGURG;

struct RunOptions {
    int ranks = 0;          ///< 0: as many as the hosts or the allocation give
    std::string hostfile;   ///< mpirun's, or empty
    std::string hosts;      ///< "a:2,b", or empty
    std::string host;       ///< what --host was given, or empty
    std::string devices;    ///< the value of CLDIST_DEVICES, or empty
    std::string simulate;   ///< that of CLDIST_SIMULATE, or empty
    std::string counts;     ///< that of CLDIST_COUNTS, or empty
    std::string host_mode;  ///< that of CLDIST_HOST_MODE, or empty
    std::string stage;      ///< that of CLDIST_HOST_STAGE, or empty
    std::string view;       ///< that of CLDIST_VIEW, or empty
    bool all_output = false;
    bool no_bind = false;
    bool no_terminal = false;  ///< of a rank: the job's standard output is no terminal
    bool look = false;         ///< of a rank: it looks whether its host has what was asked for
    std::vector<std::string> mpirun_options;
    std::vector<std::string> program;  ///< with its arguments
};

/// Whether a batch system that mpirun knows gave hosts to this process.
[[nodiscard]] bool has_allocation(const Environment &environment);

/// Whether the ranks may be on other hosts than this one.
[[nodiscard]] bool on_other_hosts(const RunOptions &options, const Environment &environment);

/// The names in "a:2,b", without numbers.
[[nodiscard]] std::vector<std::string> host_names(std::string_view list, char separator);

/// The command that starts the ranks, `self` being the path of cldist on every host.
[[nodiscard]] std::vector<std::string> mpirun_command(const RunOptions &options, bool open_mpi,
                                                      const std::string &mpirun, const std::string &self,
                                                      const Environment &environment);

/// What mpirun gets: it binds no rank, puts any number of ranks on this host unless hosts are given, and loads no
/// OpenCL platform; all but where the user has said something else.
[[nodiscard]] Environment mpirun_environment(const RunOptions &options, bool open_mpi, Environment environment);

/// A rank's place, from what mpirun or Slurm has set.
struct RankPlace {
    int rank = 0;
    int local_rank = 0;
    int local_size = 0;  ///< ranks on this host; 0 if that is not known

    bool operator==(const RankPlace &) const = default;
};
[[nodiscard]] RankPlace place_of(const Environment &environment);
/// How many ranks the job has, 1 if that is not known.
[[nodiscard]] int ranks_of(const Environment &environment);

/// The value of CLDIST_HOST_WRAP.
[[nodiscard]] std::string host_wrap(const Environment &environment);
/// The first word of it that is none, or nothing.
[[nodiscard]] std::string wrong_group(std::string_view groups);

/// A hardware thread.
struct Processor {
    int number = 0;
    int package = 0;
    std::string core;  ///< the same for all threads of a core
};

/// A rank's part of its host.
struct CoreShare {
    std::vector<int> processors;  ///< to be bound to these, or nothing: to be left as it is
    int threads = 1;              ///< for computing
    bool crowded = false;         ///< the ranks are more than the cores

    bool operator==(const CoreShare &) const = default;
};

/// Whole cores, and neighbours. `usable` are those of the rank's affinity mask, and `launcher_processors` the number of
/// those of the process that started it: where that has more, somebody has bound the rank. `place` has a local size.
/// `allowed`: of how many processors the ranks of the host may use the time; where that is not all, none is bound.
[[nodiscard]] CoreShare share_of(std::vector<Processor> usable, int launcher_processors, RankPlace place, bool bind,
                                 int allowed = INT_MAX);

/// Of the lines of /proc/loadavg at several looks: how many threads ran at each of them, besides the one that looked.
[[nodiscard]] int running_besides(const std::vector<std::string> &looks);
/// The time of how many processors, at least one, a control group has by `quota` and `period` ("max", -1 or nothing: no
/// limit).
[[nodiscard]] int processors_by_quota(const std::string &quota, const std::string &period);

/// Takes `--host`, the former name of `--hosts` and `--host-mode`. Returns a warning, or why it can't be taken.
struct FormerOption {
    std::string warning;
    std::string refusal;

    bool operator==(const FormerOption &) const = default;
};
[[nodiscard]] FormerOption take_host(RunOptions &options);

/// Why Open MPI would refuse to run as root, and what to do, or nothing.
[[nodiscard]] std::string refusal_of_root(const RunOptions &options, const Environment &environment);

/// Whether rank 0 alone runs the program (CLDIST_HOST_MODE).
[[nodiscard]] bool is_central(const Environment &environment);

/// What a rank runs: the program, or, where that runs on rank 0 alone, what follows its calls; `self` is the path of cldist.
[[nodiscard]] std::vector<std::string> rank_program(const RunOptions &options, const Environment &environment, int rank,
                                                    const std::string &self);

/// What the program gets: the cluster's platform alone, the one in the folder `vendors`, which gets the list of the
/// drivers that would have been loaded; and its `share`, if that is known.
[[nodiscard]] Environment rank_environment(Environment environment, const std::string &vendors,
                                           const std::string &devices, const CoreShare *share);

/// The end of an output.
class Tail {
public:
    static constexpr std::size_t limit = 16384;  ///< bytes

    void append(std::string_view part);
    [[nodiscard]] const std::string &text() const { return text_; }

private:
    std::string text_;
};

/// "SIGSEGV", or "signal 35".
[[nodiscard]] std::string signal_name(int signal);

/// A shell's exit status for what waitpid gave: 128 + N for signal N.
[[nodiscard]] int exit_status(int wait_status);

/// The same for mpirun, which got the signal `stopped_by`, or 0: what it gives then, 0 among it, tells nothing.
[[nodiscard]] int job_status(int wait_status, int stopped_by);

/// The report of hosts that were lost, and of others that were never reached, or nothing.
[[nodiscard]] std::string hosts_report(const std::vector<std::string> &lost,
                                       const std::vector<std::string> &unreachable);

/// What to say of a rank that failed.
[[nodiscard]] std::string failure_report(int rank, const std::string &host, int wait_status, const std::string &tail);

}  // namespace cldist::tool
