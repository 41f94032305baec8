#pragma once

#include <string>
#include <vector>

namespace cldist {

/// What is wrong with the settings of this process. The first process of a job, as far as its launcher tells which it is,
/// logs its own when config() reads them.
struct SettingComplaints {
    std::vector<std::string> lines;
    bool logged = false;
};
const SettingComplaints &setting_complaints();

}  // namespace cldist
