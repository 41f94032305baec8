#pragma once

#include <string>
#include <vector>

namespace cldist::splitting {

/// Splits the options of clBuildProgram at white space, with quotes and backslashes as in a shell.
std::vector<std::string> options_of(const std::string &text);

/// The values of the option `name` ("-I" or "-D"), in order: "-I folder" and "-Ifolder".
std::vector<std::string> values_of(const std::string &options, const std::string &name);
inline std::vector<std::string> include_folders(const std::string &options) {
    return values_of(options, "-I");
}

/// Returns true if the options choose a version of OpenCL C.
bool chooses_language(const std::string &options);

}  // namespace cldist::splitting
