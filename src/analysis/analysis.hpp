#pragma once

#include <string>

#include "splitting/description.hpp"

namespace llvm {
class Module;
}

namespace cldist::analysis {

/// Derives the accesses of the kernels of a module that clang has compiled for spir64. Changes the
/// module, because functions are inlined.
splitting::Descriptions derive(llvm::Module &module, const std::string &source);

}  // namespace cldist::analysis
