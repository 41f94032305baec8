#pragma once

#include <string>
#include <vector>

namespace cldist {

/// The errors in the settings of this process, and whether config() has logged them. It does not if
/// the launcher's environment contains a rank other than 0.
struct SettingComplaints {
    std::vector<std::string> lines;
    bool logged = false;
};
const SettingComplaints &setting_complaints();

}  // namespace cldist
