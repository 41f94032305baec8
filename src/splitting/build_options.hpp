#pragma once

#include <string>
#include <vector>

namespace cldist::splitting {

/// The options of a call of clBuildProgram, split at white space, with quotes and backslashes as in a shell.
std::vector<std::string> options_of(const std::string &text);

/// The folders that they name for included files, in order: "-I folder" and "-Ifolder".
std::vector<std::string> include_folders(const std::string &options);

/// Whether they choose a version of OpenCL C.
bool chooses_language(const std::string &options);

}  // namespace cldist::splitting
