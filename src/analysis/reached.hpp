#pragma once

#include <map>
#include <vector>

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/PostDominators.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/IR/Dominators.h>

#include "analysis/values.hpp"
#include "splitting/expression.hpp"

namespace cldist::analysis {

/// The conditions under which a block of a kernel is executed.
struct Reached {
    std::vector<splitting::Operand> conditions;
    bool certain = true;  ///< the block is always executed if they hold
};

class Reach {
public:
    Reach(Values &values, llvm::ScalarEvolution &evolution, llvm::LoopInfo &loops,
          llvm::DominatorTree &dominators, llvm::PostDominatorTree &post_dominators)
        : values_(values),
          evolution_(evolution),
          loops_(loops),
          dominators_(dominators),
          post_dominators_(post_dominators) {}

    const Reached &when(const llvm::BasicBlock *block);

private:
    void rounds(const llvm::Loop &loop, Reached &reached);
    void stops(const llvm::Loop &loop, const llvm::BasicBlock &exit, Reached &reached);
    bool branch(const llvm::BasicBlock &from, const llvm::BasicBlock *here,
                const llvm::BasicBlock *block, Reached &reached);
    bool condition(llvm::Value *what, bool holds, const llvm::BasicBlock *block,
                   std::vector<splitting::Operand> &conditions, unsigned depth = 0);

    Values &values_;
    llvm::ScalarEvolution &evolution_;
    llvm::LoopInfo &loops_;
    llvm::DominatorTree &dominators_;
    llvm::PostDominatorTree &post_dominators_;
    std::map<const llvm::BasicBlock *, Reached> reached_;
};

}  // namespace cldist::analysis
