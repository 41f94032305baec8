#pragma once

#include <string>
#include <vector>

#include "splitting/description.hpp"

namespace llvm {
class Module;
}

namespace cldist::analysis {

/// Derives what the kernels of a module, made by clang for spir64, access. Changes the module: functions are inlined.
splitting::Descriptions derive(llvm::Module &module);

/// The options of a call of clBuildProgram, as it splits them.
std::vector<std::string> options_of(const std::string &text);

}  // namespace cldist::analysis
