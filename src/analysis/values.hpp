#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/IR/Instructions.h>

#include "splitting/expression.hpp"

namespace llvm {
class DataLayout;
class SCEVAddExpr;
}  // namespace llvm

namespace cldist::analysis {

constexpr unsigned most_depth = 40;

std::size_t nodes(const splitting::Expression &expression);

/// Whether its values are few enough to be of use, whatever those are that are not known.
bool bounded(const splitting::Expression &expression);

/// What a kernel computes, as expressions over ids, sizes, counters of loops and arguments.
class Values {
public:
    Values(llvm::ScalarEvolution &evolution, llvm::LoopInfo &loops, const llvm::DataLayout &layout)
        : evolution_(evolution), loops_(loops), layout_(layout) {}

    /// As seen from a block.
    splitting::Operand value(llvm::Value *what, const llvm::BasicBlock *block) {
        return value(what, block, loops_.getLoopFor(block), 0);
    }
    splitting::Operand expression(const llvm::SCEV *what, const llvm::BasicBlock *block) {
        return expression(what, block, loops_.getLoopFor(block), 0);
    }
    /// The value as seen from a block, of whose loops `scope` is the innermost that counts.
    splitting::Operand expression(const llvm::SCEV *what, const llvm::BasicBlock *block, const llvm::Loop *scope,
                                  unsigned depth = 0);
    /// What follows if the comparison holds, or does not; null if that is not known.
    splitting::Operand comparison(llvm::ICmpInst &compare, bool holds, const llvm::BasicBlock *block);
    splitting::Operand counter(const llvm::Loop &loop);

    /// Conditions on the values in a loop that grow by a factor in each round.
    void limit_growing(const llvm::Loop &loop, std::vector<splitting::Operand> &conditions);
    /// Whether it may have values between those that really come.
    [[nodiscard]] bool has_gaps(const splitting::Expression &expression) const;

    /// Why a value was not known, since the last call: "an index depends on data"; empty if all were.
    std::string take_reason() { return std::exchange(reason_, {}); }

private:
    splitting::Operand unknown(unsigned width, const std::string &reason);
    splitting::Operand value(llvm::Value *what, const llvm::BasicBlock *block, const llvm::Loop *scope, unsigned depth);
    splitting::Operand remainder(const llvm::SCEVAddExpr &sum, const llvm::BasicBlock *block, const llvm::Loop *scope,
                                 unsigned depth);
    splitting::Operand computed(llvm::Value *what, unsigned width, const llvm::BasicBlock *block,
                                const llvm::Loop *scope, unsigned depth);
    splitting::Operand selected(llvm::SelectInst &choice, unsigned width, const llvm::BasicBlock *block,
                                const llvm::Loop *scope, unsigned depth);
    splitting::Operand loaded(llvm::LoadInst &load, unsigned width);
    splitting::Operand called(const llvm::CallBase &call, unsigned width);
    splitting::Operand repeated(llvm::PHINode &phi, unsigned width, const llvm::BasicBlock *block,
                                const llvm::Loop *scope, unsigned depth);

    llvm::ScalarEvolution &evolution_;
    llvm::LoopInfo &loops_;
    const llvm::DataLayout &layout_;
    std::map<const void *, unsigned> counters_;  // of loops, and of values that grow in them
    std::set<std::int64_t> growing_;             // which of them are such values'
    std::string reason_;
};

}  // namespace cldist::analysis
