#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace cldist::analysis {

/// Name and parameters of a function that clang has mangled: "_Z6vload4mPU3AS1Kf" is {"vload4", "mPU3AS1Kf"}. Names of other
/// functions have no parameters.
std::pair<std::string, std::string> demangled(const std::string &name);

/// Size of what the first parameter points to; 0 if it is not a pointer to numbers or vectors of them.
std::uint64_t pointee_size(const std::string &parameters);

/// Whether the first parameter is a number with a sign, or a vector of such.
bool is_signed(const std::string &parameters);

bool starts_with(const std::string &text, const char *beginning);

}  // namespace cldist::analysis
