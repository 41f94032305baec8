#pragma once

#include <memory>
#include <string>

#include <CL/cl.h>

#include "pipeline/profile.hpp"

namespace cldist {

/// The name of this host, or "?".
[[nodiscard]] std::string host_name();

/// The system of this process, as a profile records it.
[[nodiscard]] Profile::System system_of(cl_device_id device);

/// The path of the profile: $XDG_CONFIG_HOME/cldist/<host>-<device>.toml, with ~/.config as default
/// folder. Empty if neither XDG_CONFIG_HOME nor HOME is set.
[[nodiscard]] std::string profile_path(const Profile::System &system);

/// The profile as TOML. docs/tuning.md describes the format.
[[nodiscard]] std::string profile_text(const Profile &profile);
/// Throws an Error with CL_INVALID_VALUE, the line and the cause if the text is damaged.
[[nodiscard]] Profile parse_profile(const std::string &text);

/// Writes the complete file or nothing. Throws an Error.
void write_profile(const std::string &path, const Profile &profile);
/// Throws an Error if the file can't be read or is damaged.
[[nodiscard]] Profile read_profile(const std::string &path);

/// The result of the search for a device's profile (CLDIST_PROFILE).
struct FoundProfile {
    std::string path;                        ///< empty if there is no file or CLDIST_PROFILE=none
    std::shared_ptr<const Profile> profile;  ///< null: defaults are used
    /// The reason if the profile is damaged or belongs to another system. Otherwise empty.
    std::string refused = {};
};
[[nodiscard]] FoundProfile find_profile(cl_device_id device);
/// The advice of the device's profile. Empty without a profile.
[[nodiscard]] AdviceForRoutes find_advice(cl_device_id device);

}  // namespace cldist
