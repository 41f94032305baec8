#pragma once

#include <memory>
#include <string>

#include <CL/cl.h>

#include "pipeline/profile.hpp"

namespace cldist {

/// The name of this host; "?" if it has none.
[[nodiscard]] std::string host_name();

/// What this process would measure on.
[[nodiscard]] Profile::System system_of(cl_device_id device);

/// The profile of a host and device: $XDG_CONFIG_HOME/cldist/<host>-<device>.toml, or ~/.config in place of the variable;
/// empty if neither is set.
[[nodiscard]] std::string profile_path(const Profile::System &system);

/// TOML; docs/tuning.md describes it.
[[nodiscard]] std::string profile_text(const Profile &profile);
/// Throws an Error with CL_INVALID_VALUE that names line and cause if the text is damaged.
[[nodiscard]] Profile parse_profile(const std::string &text);

/// Writes as a whole or not at all; makes the folder. Throws an Error.
void write_profile(const std::string &path, const Profile &profile);
/// Throws an Error if the file can't be read or is damaged.
[[nodiscard]] Profile read_profile(const std::string &path);

/// What became of the profile that CLDIST_PROFILE names for a device.
struct FoundProfile {
    std::string path;                        ///< empty if none was asked for
    std::shared_ptr<const Profile> profile;  ///< null: defaults are used
    std::string refused = {};                ///< why, if there is one that is damaged or of another system
};
[[nodiscard]] FoundProfile find_profile(cl_device_id device);
/// What it says; nothing without one.
[[nodiscard]] AdviceForRoutes find_advice(cl_device_id device);

}  // namespace cldist
