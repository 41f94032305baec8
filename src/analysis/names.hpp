#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace cldist::analysis {

/// Name and parameters of a function that clang has mangled: "_Z6vload4mPU3AS1Kf" is {"vload4",
/// "mPU3AS1Kf"}. Other names have no parameters.
std::pair<std::string, std::string> demangled(const std::string &name);

/// The size of the first parameter's target. 0 if the parameter is not a pointer to numbers or
/// vectors of numbers.
std::uint64_t pointee_size(const std::string &parameters);

/// Returns true if the first parameter is a signed number or a vector of signed numbers.
bool is_signed(const std::string &parameters);

}  // namespace cldist::analysis
