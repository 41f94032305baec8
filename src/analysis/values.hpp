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

/// Returns the number of nodes, or any number above `most` if there are more. A node that occurs
/// in several places counts several times, so their number may be exponential.
std::size_t nodes(const splitting::Expression &expression, std::size_t most);

/// Returns true if the range is small enough to be useful, whatever the unknown values are.
bool bounded(const splitting::Expression &expression);

/// Converts a kernel's values to expressions over ids, sizes, loop counters and arguments.
class Values {
public:
    Values(llvm::ScalarEvolution &evolution, llvm::LoopInfo &loops, const llvm::DataLayout &layout)
        : evolution_(evolution), loops_(loops), layout_(layout) {}

    /// The value as seen from a block.
    splitting::Operand value(llvm::Value *what, const llvm::BasicBlock *block) {
        return value(what, block, loops_.getLoopFor(block), 0);
    }
    splitting::Operand expression(const llvm::SCEV *what, const llvm::BasicBlock *block) {
        return expression(what, block, loops_.getLoopFor(block), 0);
    }
    /// The value as seen from a block. `scope` is the innermost loop that counts.
    splitting::Operand expression(const llvm::SCEV *what, const llvm::BasicBlock *block,
                                  const llvm::Loop *scope, unsigned depth = 0);
    /// The condition if the comparison holds, or if it does not hold. Null if it is unknown.
    splitting::Operand comparison(llvm::ICmpInst &compare, bool holds,
                                  const llvm::BasicBlock *block);
    splitting::Operand counter(const void *of);  ///< `of`: see counters_

    /// Adds conditions for values that grow by a factor in each round of the loop.
    void limit_growing(const llvm::Loop &loop, std::vector<splitting::Operand> &conditions);
    /// Returns true if the expression's range may contain values that do not occur.
    [[nodiscard]] bool has_gaps(const splitting::Expression &expression) const;

    /// Starts the work for another access or block. After too many conversions for one, values are
    /// unknown. Otherwise a chain of branches, each of which changes an index, would need time and
    /// memory that grow exponentially.
    void begin_work() { converted_ = 0; }

    /// Why a value was unknown since the last call, for example "an index depends on data". Empty
    /// if all were known.
    std::string take_reason() { return std::exchange(reason_, {}); }

private:
    splitting::Operand unknown(unsigned width, const std::string &reason);
    splitting::Operand value(llvm::Value *what, const llvm::BasicBlock *block,
                             const llvm::Loop *scope, unsigned depth);
    splitting::Operand remainder(const llvm::SCEVAddExpr &sum, const llvm::BasicBlock *block,
                                 const llvm::Loop *scope, unsigned depth);
    splitting::Operand computed(llvm::Value *what, unsigned width, const llvm::BasicBlock *block,
                                const llvm::Loop *scope, unsigned depth);
    splitting::Operand selected(llvm::SelectInst &choice, unsigned width,
                                const llvm::BasicBlock *block, const llvm::Loop *scope,
                                unsigned depth);
    splitting::Operand loaded(llvm::LoadInst &load, unsigned width);
    splitting::Operand called(const llvm::CallBase &call, unsigned width);
    splitting::Operand repeated(llvm::PHINode &phi, unsigned width, const llvm::BasicBlock *block,
                                const llvm::Loop *scope, unsigned depth);

    llvm::ScalarEvolution &evolution_;
    llvm::LoopInfo &loops_;
    const llvm::DataLayout &layout_;
    // The numbers of counters, by loop, or by PHI node for a value that grows by a factor.
    std::map<const void *, std::int64_t> counters_;
    std::set<std::int64_t> growing_;  // numbers in counters_ that belong to such values
    std::string reason_;
    std::size_t converted_ = 0;  // values since begin_work()
};

}  // namespace cldist::analysis
