#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "splitting/description.hpp"

namespace cldist::cluster {

/// The additional last argument of each kernel in an adapted source: offset, global size (both in
/// work-items) and number of work-groups of the whole launch, and the number of the part's first
/// work-group. `whole_launch_name` is its name in the kernel.
struct WholeLaunch {
    using Sizes = unsigned long[3];  // NOLINT: OpenCL's ulong
    Sizes offset;
    Sizes size;
    Sizes first_group;
    Sizes groups;
};
inline constexpr std::string_view whole_launch_name = "cldist_launch_value";

/// Facts about an OpenCL C program that its text shows, without compiling it.
struct SourceFacts {
    /// By kernel: why its work-groups can't be distributed among devices. Empty if they can.
    /// Kernels that macros define are missing.
    std::map<std::string, std::string> kernels;
    /// By kernel: true if the kernel may use the size or number of its work-groups, so that its
    /// results may depend on them.
    std::map<std::string, bool> asks_for_groups;
    /// A function queries a value that differs in parts of a launch: adapted_source() is needed.
    bool asks_for_launch = false;
    /// The text may not show all names: build options, macros that concatenate or a file that was
    /// not found may contain others. Then kernels may query anything.
    bool hides_names = false;
    /// Each "{" has its "}" if only the first branches of conditionals count. Otherwise some
    /// functions may not be found.
    bool is_balanced = true;
    std::string source{};           ///< included files replace their directives
    std::string options{};          ///< of clBuildProgram
    std::string why_not_adapted{};  ///< first error message of a native compiler
    /// Descriptions derived from the source, set when first needed. If the derivation failed, the
    /// map is empty and why_not_derived is the reason.
    std::optional<splitting::Descriptions> derived{};
    std::string why_not_derived{};
};

/// `source` contains its included files. `options` are those of clBuildProgram.
SourceFacts facts_of(const std::string &source, const std::string &options = {});

/// Returns the source, changed so that kernels can run a part of a launch with a global offset.
/// get_group_id, get_num_groups, get_global_size, get_global_offset, get_global_linear_id and
/// get_group_linear_id then return the same values as in the whole launch. Each kernel gets a
/// WholeLaunch as its last argument. If the source is not understood, the result does not compile.
/// `hides_names` is the member of its SourceFacts.
std::string adapted_source(const std::string &source, bool hides_names = false);

}  // namespace cldist::cluster
