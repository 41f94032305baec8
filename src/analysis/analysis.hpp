#pragma once

#include <string>

#include "splitting/description.hpp"

namespace llvm {
class Module;
}

namespace cldist::analysis {

/// Derives what the kernels of a module, made by clang for spir64, access. Changes the module: functions are inlined.
splitting::Descriptions derive(llvm::Module &module, const std::string &source);

}  // namespace cldist::analysis
