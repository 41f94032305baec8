#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cldist::tool {

/// Filters the standard error of Open MPI's mpirun, which includes that of the ranks. Removes
/// mpirun's messages about ranks that `cldist run` has reported itself, and keeps messages about
/// unreachable hosts for its own report. Other text passes unchanged.
class LauncherText {
public:
    /// `launcher` is the name with which mpirun was started.
    explicit LauncherText(std::string launcher) : launcher_(std::move(launcher)) {}
    /// Returns the text to print after `part` has arrived. An empty `part` means the end.
    [[nodiscard]] std::string pass(std::string_view part);
    /// The hosts whose daemons mpirun has lost, each once.
    [[nodiscard]] const std::vector<std::string> &lost_hosts() const { return lost_hosts_; }
    /// mpirun's message, without a host's name, that it lost or could not start a daemon; or empty.
    [[nodiscard]] const std::string &launch_failure() const { return launch_failure_; }
    /// The hosts that ssh could not reach, each once.
    [[nodiscard]] const std::vector<std::string> &unreachable_hosts() const {
        return unreachable_hosts_;
    }

private:
    [[nodiscard]] bool is_known(std::string_view message) const;
    [[nodiscard]] bool removes(std::string_view message);
    void look_at(std::string_view line);

    const std::string launcher_;
    std::string held_;  ///< the beginning of a message that is not complete
    bool at_line_start_ = true;
    bool reported_ = false;  ///< a rank's end was reported, or the user has interrupted the job
    std::string launch_failure_;
    std::vector<std::string> lost_hosts_;
    std::vector<std::string> unreachable_hosts_;
};

}  // namespace cldist::tool
