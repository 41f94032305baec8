#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

/// The text of an included file, if it is known.
using FindInclude = std::function<std::optional<std::string>(const std::string &name)>;

/// What the text of a program in OpenCL C shows, without its being compiled.
struct SourceFacts {
    /// Why a kernel's work-groups can't be shared out among devices, by kernel; those that have no such reason have an empty text. Kernels that
    /// macros define are not found.
    std::map<std::string, std::string> kernels;
    /// Of those, which may ask for the size or the number of work-groups: what they do may depend on these.
    std::map<std::string, bool> asks_for_groups;
    /// Some function asks what differs between a launch and its parts: adapted_source() is needed.
    bool asks_for_launch = false;
    /// What was derived from the source, once it has been asked for; empty, with the reason, if that was not possible.
    std::optional<splitting::Descriptions> derived{};
    std::string why_not_derived{};
};

/// The text with the files that it includes in place of their directives, as far as they are known.
std::string with_includes(const std::string &source, const FindInclude &find);

SourceFacts facts_of(const std::string &source);

/// The text, changed so that kernels which run a part of a launch, with a global offset, see the whole one: what
/// get_group_id, get_num_groups, get_global_size, get_global_offset, get_global_linear_id and get_group_linear_id give. Kernels
/// get a WholeLaunch as their last argument. What is not understood does not compile.
std::string adapted_source(const std::string &source);

/// The folders that a build's options name for included files.
std::vector<std::string> include_folders(const std::string &options);

}  // namespace cldist::cluster
