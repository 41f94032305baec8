#pragma once

#include <string>
#include <vector>

namespace cldist {

/// The errors in the settings of this process. config() logs them in the first process of a job if
/// the launcher provides the rank.
struct SettingComplaints {
    std::vector<std::string> lines;
    bool logged = false;
};
const SettingComplaints &setting_complaints();

}  // namespace cldist
