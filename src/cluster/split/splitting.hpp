#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cluster/execution/enqueued.hpp"
#include "cluster/objects/program.hpp"
#include "cluster/schedule/schedule.hpp"
#include "cluster/split/adaptation.hpp"
#include "cluster/split/adapted_source.hpp"
#include "splitting/access.hpp"
#include "splitting/launch.hpp"

namespace cldist::cluster {

/// How a launch with certain sizes and arguments is distributed over the members of an aggregate
/// device. Equal in all processes.
struct SplitLaunch {
    struct PartOfLaunch {
        std::size_t lane;  ///< index of the device in the context
        splitting::SubRange range;
        std::vector<Access> accesses;  ///< sorted by buffer and first byte
        /// The accesses by argument. Kept only for CLDIST_CHECK_ACCESS.
        std::vector<splitting::ArgumentAccess> arguments;
    };

    splitting::Launch launch;
    std::vector<PartOfLaunch> parts;  ///< empty: runs unsplit on the first member
    std::vector<CommandPart> all;     ///< the same parts, for the schedule
    std::vector<BufferId> buffers;    ///< the buffers that the parts use
    KnownParts known;                 ///< the schedule's cached decisions
    bool checked = false;             ///< CLDIST_CHECK_ACCESS has checked it
    std::size_t kind = 0;             ///< the launch's kind in the Adaptation, if there is one
    unsigned version = 0;             ///< version of the Adaptation's shares

    /// Enqueues a part natively, with the local size if `with_local`. If the kernel's source is
    /// adapted, sets its last argument. Throws an Error if the driver refuses that.
    cl_int enqueue(cl_command_queue queue, const KernelInfo &info, cl_kernel kernel,
                   const splitting::SubRange &range, bool with_local, const Waits &waits) const;
};

/// How one kernel's launches are split. Callers hold the lock.
class Splitting {
public:
    /// `why_not`: why launches run unsplit regardless of `model`, or empty. Without a model they
    /// run unsplit, too. `speaks`: this process logs (rank 0). `shares` are the fixed shares of the
    /// member devices, which an `adaptation` replaces.
    Splitting(std::string kernel, std::shared_ptr<const splitting::AccessModel> model,
              std::string why_not, bool asks_for_groups, bool speaks, std::vector<double> shares,
              std::shared_ptr<Adaptation> adaptation);

    /// Returns how a launch is split. All arguments of the kernel must be set.
    std::shared_ptr<SplitLaunch> split(const KernelObject &kernel, const splitting::Launch &launch);

    /// Returns a launch without local size with one. A local size that the kernel may query divides
    /// the global size and has at most `most` work-items. Otherwise it only defines possible cuts.
    [[nodiscard]] splitting::Launch with_local(splitting::Launch launch, std::size_t most) const;
    [[nodiscard]] bool asks_for_groups() const { return asks_for_groups_; }
    /// The same kernel with another model.
    [[nodiscard]] std::shared_ptr<Splitting> with_model(
        std::shared_ptr<const splitting::AccessModel> model, std::string why_not) const;

private:
    using Key = std::vector<std::uint64_t>;

    /// Logs, once per reason, that launches run unsplit.
    void say_whole(const std::string &why);
    /// Sets the parts and buffers. Returns why the launch can't be split; empty if it can.
    std::string plan(const KernelObject &kernel, SplitLaunch &split,
                     std::span<const double> shares) const;
    void explain(const KernelObject &kernel, const SplitLaunch &split) const;
    [[nodiscard]] std::string text_of_common(const KernelObject &kernel,
                                             const SplitLaunch &split) const;

    const std::string kernel_;
    const std::shared_ptr<const splitting::AccessModel> model_;
    const std::string why_not_;
    const bool asks_for_groups_;
    const bool speaks_;
    const std::vector<double> shares_;
    const std::shared_ptr<Adaptation> adaptation_;
    std::vector<std::string> said_;  ///< reasons that were logged
    std::map<Key, std::shared_ptr<SplitLaunch>> launches_;
    std::size_t ranges_ = 0;  ///< number of accesses of all parts in `launches_`
    Key key_;                 ///< a member to reuse its memory
};

/// For people: "[0, 64) x [0, 8)".
std::string text_of(const splitting::SubRange &range, unsigned dimensions);

/// Returns a model of the kernel's access functions (DistCL: meta-functions), which are symbols of
/// the program or of the libraries in CLDIST_ACCESS_FUNCTIONS. Null if there are none.
std::shared_ptr<const splitting::AccessModel> find_functions(const std::string &kernel);

}  // namespace cldist::cluster
