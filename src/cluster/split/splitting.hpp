#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cluster/objects/program.hpp"
#include "cluster/schedule/schedule.hpp"
#include "cluster/split/adaptation.hpp"
#include "cluster/split/adapted_source.hpp"
#include "splitting/access.hpp"
#include "splitting/launch.hpp"

namespace cldist::cluster {

/// How launches of one kind are shared out among the members of an aggregate device: the same in
/// all processes.
struct SplitLaunch {
    struct PartOfLaunch {
        std::size_t lane;  ///< the member's place
        splitting::SubRange range;
        std::vector<Access> accesses;  ///< by buffer and byte
        /// For each argument what it was said to use; kept only for CLDIST_CHECK_ACCESS.
        std::vector<splitting::ArgumentAccess> arguments;
    };

    splitting::Launch launch;
    std::vector<PartOfLaunch> parts;  ///< none: it runs whole, on the first member
    std::vector<CommandPart> all;     ///< the same for the schedule
    std::vector<BufferId> buffers;    ///< that they use
    KnownParts known;
    bool checked = false;
    std::size_t kind = 0;  ///< where shares are adapted: which, for the Adaptation;
    unsigned version = 0;  ///< of the shares with which it was cut

    [[nodiscard]] WholeLaunch whole(const splitting::SubRange &range) const;
};

/// How one kernel is split. Under the lock.
class Splitting {
public:
    /// `why_not`: why launches run whole whatever the model says; or empty. Without a model they
    /// do, too. `shares`: those of members where they stay as they are; `adaptation` is null then.
    Splitting(std::string kernel, std::shared_ptr<const splitting::AccessModel> model,
              std::string why_not, bool asks_for_groups, bool speaks, std::vector<double> shares,
              std::shared_ptr<Adaptation> adaptation);

    /// How a launch with the kernel's arguments, all of which are set, is split. Valid until the
    /// next call.
    SplitLaunch &split(const KernelObject &kernel, const splitting::Launch &launch);

    /// The local size for launches without one: a divisor of the global size, with at most `most`
    /// work-items, or any size if the kernel can't query it.
    [[nodiscard]] splitting::Launch with_local(splitting::Launch launch, std::size_t most) const;
    [[nodiscard]] bool asks_for_groups() const { return asks_for_groups_; }
    [[nodiscard]] const std::string &kernel() const { return kernel_; }
    /// The same kernel, with other functions.
    [[nodiscard]] std::shared_ptr<Splitting> with_model(
        std::shared_ptr<const splitting::AccessModel> model, std::string why_not) const;

private:
    using Key = std::vector<std::uint64_t>;

    void say_whole(const std::string &why);
    std::string plan(const KernelObject &kernel, SplitLaunch &split,
                     std::span<const double> shares) const;
    void explain(const KernelObject &kernel, const SplitLaunch &split) const;
    [[nodiscard]] std::string text_of_common(const KernelObject &kernel,
                                             const SplitLaunch &split) const;

    const std::string kernel_;
    const std::shared_ptr<const splitting::AccessModel> model_;
    const std::string why_not_;
    const bool asks_for_groups_;
    const bool speaks_;  ///< rank 0 does
    const std::vector<double> shares_;
    const std::shared_ptr<Adaptation> adaptation_;
    std::vector<std::string> said_;
    std::map<Key, std::unique_ptr<SplitLaunch>> launches_;
    Key key_;
};

/// For people: "[0, 64) x [0, 8)".
std::string text_of(const splitting::SubRange &range, unsigned dimensions);

/// The access functions of a kernel (DistCL: meta-functions): symbols of the program, or of the
/// libraries in CLDIST_META. Null if there are none.
std::shared_ptr<const splitting::AccessModel> find_functions(const std::string &kernel);

}  // namespace cldist::cluster
