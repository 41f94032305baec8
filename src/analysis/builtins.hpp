#pragma once

namespace llvm {
class Function;
}

namespace cldist::analysis {

/// Returns true if the function queries ids or sizes of a dimension that is not constant.
bool asks_for_any_dimension(llvm::Function &function);

/// Replaces built-in integer functions by instructions, and variable dimensions by selections of
/// constant dimensions. ScalarEvolution understands these.
void lower_builtins(llvm::Function &function);

/// Moves calls of work-item functions to the start and merges equal ones. ScalarEvolution then sees
/// that their values are equal.
void gather_work_item_calls(llvm::Function &function);

}  // namespace cldist::analysis
