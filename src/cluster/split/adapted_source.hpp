#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "splitting/description.hpp"

namespace cldist::cluster {

/// The last argument of a kernel whose source is adapted; in C, and as its name in the kernel.
struct WholeLaunch {
    using Sizes = unsigned long[3];  // NOLINT: OpenCL's ulong
    Sizes offset;
    Sizes size;
    Sizes first_group;
    Sizes groups;
};
inline constexpr std::string_view whole_launch_name = "cldist_launch_value";

/// What the text of a program in OpenCL C shows, without its being compiled.
struct SourceFacts {
    /// Why a kernel's work-groups can't be distributed among devices, by kernel. The text is empty
    /// if they can. Kernels that macros define are not found.
    std::map<std::string, std::string> kernels;
    /// Whether each of these kernels may query the size or the number of work-groups: its behaviour
    /// may depend on them.
    std::map<std::string, bool> asks_for_groups;
    /// Some function asks what differs between a launch and its parts: adapted_source() is needed.
    bool asks_for_launch = false;
    /// Names may come from build options, from macros that concatenate, or from a file that was not
    /// found. Then kernels may query anything.
    bool hides_names = false;
    /// Each "{" has its "}" if the first branches of conditionals are taken; else functions may not
    /// be found.
    bool is_balanced = true;
    std::string source{};           ///< with its included files in place
    std::string options{};          ///< that it is built with
    std::string why_not_adapted{};  ///< what a compiler said first of the adapted source
    /// The descriptions derived from the source, once needed. Empty, with the reason, if that was
    /// not possible.
    std::optional<splitting::Descriptions> derived{};
    std::string why_not_derived{};
};

/// The facts of a text with its included files in place, and the options it is built with.
SourceFacts facts_of(const std::string &source, const std::string &options = {});

/// The text, changed so that kernels which run a part of a launch, with a global offset, see the
/// whole one: what get_group_id, get_num_groups, get_global_size, get_global_offset,
/// get_global_linear_id and get_group_linear_id give. Kernels get a WholeLaunch as their last
/// argument. A text that is not understood does not compile. `hides_names`: as in its SourceFacts.
std::string adapted_source(const std::string &source, bool hides_names = false);

}  // namespace cldist::cluster
