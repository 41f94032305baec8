#pragma once

namespace llvm {
class Function;
}

namespace cldist::analysis {

/// Whether it asks for ids or sizes of a dimension that is no constant.
bool asks_for_any_dimension(llvm::Function &function);

/// Puts instructions in place of built-in functions on whole numbers, and constants in place of dimensions; ScalarEvolution knows these.
void lower_builtins(llvm::Function &function);

/// Puts calls of work-item functions in front of all else, one of each: ScalarEvolution then sees that they are the same
/// everywhere.
void gather_work_item_calls(llvm::Function &function);

}  // namespace cldist::analysis
