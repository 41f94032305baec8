#include "analysis/reached.hpp"

#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>

namespace cldist::analysis {

using namespace splitting;

const Reached &Reach::when(const llvm::BasicBlock *block) {
    const auto [at, first] = reached_.try_emplace(block);
    Reached &reached = at->second;
    if (!first) return reached;
    values_.begin_work();
    for (const llvm::Loop *loop = loops_.getLoopFor(block); loop != nullptr;
         loop = loop->getParentLoop()) {
        rounds(*loop, reached);
    }
    // Walks up the dominator tree, through each branch that must have been taken.
    const auto *step = dominators_.getNode(const_cast<llvm::BasicBlock *>(block));
    for (; step->getIDom() != nullptr; step = step->getIDom()) {
        const llvm::BasicBlock *here = step->getBlock();
        const llvm::BasicBlock *from = step->getIDom()->getBlock();
        if (post_dominators_.dominates(here, from)) continue;
        const llvm::Loop *loop = loops_.getLoopFor(from);
        if (loop != nullptr && !loop->contains(block)) {
            reached.certain = false;
            continue;
        }
        if (!branch(*from, here, block, reached)) reached.certain = false;
    }
    return reached;
}

/// Adds limits for a loop's counter: it is at most the number of times that the back edge is taken.
void Reach::rounds(const llvm::Loop &loop, Reached &reached) {
    const auto limit = [&](const llvm::SCEV *count) {
        const llvm::SCEV *at_entry = evolution_.getSCEVAtScope(count, loop.getParentLoop());
        const Operand most = values_.expression(at_entry, loop.getHeader(), loop.getParentLoop());
        reached.conditions.push_back(
            node(Kind::ule, 64, {values_.counter(&loop), node(Kind::zext, 64, {most})}));
    };
    values_.limit_growing(loop, reached.conditions);
    const llvm::SCEV *count = evolution_.getBackedgeTakenCount(&loop);
    if (!llvm::isa<llvm::SCEVCouldNotCompute>(count)) return limit(count);
    reached.certain = false;
    const llvm::BasicBlock *latch = loop.getLoopLatch();
    if (latch == nullptr) return;
    llvm::SmallVector<llvm::BasicBlock *, 4> exits;
    loop.getExitingBlocks(exits);
    for (llvm::BasicBlock *exit : exits) {
        const llvm::SCEV *until = evolution_.getExitCount(&loop, exit);
        if (!dominators_.dominates(exit, latch)) continue;
        if (!llvm::isa<llvm::SCEVCouldNotCompute>(until)) limit(until);
        stops(loop, *exit, reached);
    }
}

/// Adds a limit for the counter if the loop continues at `exit` only while a linearly growing value
/// is below an end.
void Reach::stops(const llvm::Loop &loop, const llvm::BasicBlock &exit, Reached &reached) {
    const auto *jump = llvm::dyn_cast<llvm::BranchInst>(exit.getTerminator());
    if (jump == nullptr || !jump->isConditional()) return;
    auto *compare = llvm::dyn_cast<llvm::ICmpInst>(jump->getCondition());
    if (compare == nullptr || !compare->getOperand(0)->getType()->isIntegerTy()) return;
    const bool goes_on = loop.contains(jump->getSuccessor(0));
    auto predicate = goes_on ? compare->getPredicate() : compare->getInversePredicate();
    const auto *series =
        llvm::dyn_cast<llvm::SCEVAddRecExpr>(evolution_.getSCEV(compare->getOperand(0)));
    llvm::Value *end = compare->getOperand(1);
    if (predicate == llvm::ICmpInst::ICMP_SGT || predicate == llvm::ICmpInst::ICMP_UGT) {
        predicate = llvm::ICmpInst::getSwappedPredicate(predicate);
        series = llvm::dyn_cast<llvm::SCEVAddRecExpr>(evolution_.getSCEV(compare->getOperand(1)));
        end = compare->getOperand(0);
    }
    const bool below =
        predicate == llvm::ICmpInst::ICMP_SLT || predicate == llvm::ICmpInst::ICMP_ULT;
    const unsigned width = end->getType()->getIntegerBitWidth();
    const llvm::SCEV *limit = evolution_.getSCEV(end);
    if (!below || width > 64 || series == nullptr || series->getLoop() != &loop ||
        !series->isAffine() || !evolution_.isLoopInvariant(limit, &loop)) {
        return;
    }
    const llvm::Loop *outside = loop.getParentLoop();
    const auto at_entry = [&](const llvm::SCEV *what) {
        return values_.expression(evolution_.getSCEVAtScope(what, outside), loop.getHeader(),
                                  outside);
    };
    reached.conditions.push_back(
        node(Kind::stops, width,
             {values_.counter(&loop), at_entry(series->getStart()),
              at_entry(series->getStepRecurrence(evolution_)), at_entry(limit)},
             predicate == llvm::ICmpInst::ICMP_SLT ? 1 : 0));
}

/// Adds the conditions of the branch at the end of `from` under which `here` is reached. Returns
/// true if they are sufficient.
bool Reach::branch(const llvm::BasicBlock &from, const llvm::BasicBlock *here,
                   const llvm::BasicBlock *block, Reached &reached) {
    const llvm::Instruction *end = from.getTerminator();
    const auto leads_here = [&](const llvm::BasicBlock *next) {
        return dominators_.dominates(llvm::BasicBlockEdge(&from, next), here);
    };
    if (const auto *jump = llvm::dyn_cast<llvm::BranchInst>(end);
        jump != nullptr && jump->isConditional()) {
        if (jump->getSuccessor(0) == jump->getSuccessor(1)) return false;
        for (const unsigned i : {0U, 1U}) {
            if (!leads_here(jump->getSuccessor(i))) continue;
            const bool all = condition(jump->getCondition(), i == 0, block, reached.conditions);
            return all && post_dominators_.dominates(here, jump->getSuccessor(i));
        }
    }
    if (const auto *choice = llvm::dyn_cast<llvm::SwitchInst>(end)) {
        for (const auto &one : choice->cases()) {
            if (one.getCaseSuccessor() == choice->getDefaultDest() ||
                !leads_here(one.getCaseSuccessor()))
                continue;
            const unsigned width = choice->getCondition()->getType()->getIntegerBitWidth();
            if (width > 64) return false;
            reached.conditions.push_back(
                node(Kind::eq, width,
                     {values_.value(choice->getCondition(), block),
                      constant(one.getCaseValue()->getSExtValue(), width)}));
            return post_dominators_.dominates(here, one.getCaseSuccessor());
        }
    }
    return false;
}

/// Adds the conditions that follow from `what` == `holds`. Returns true if they are equivalent.
bool Reach::condition(llvm::Value *what, bool holds, const llvm::BasicBlock *block,
                      std::vector<Operand> &conditions, unsigned depth) {
    if (depth > most_depth) return false;
    const auto both = [&](llvm::Value *a, llvm::Value *b) {
        const bool first = condition(a, holds, block, conditions, depth + 1);
        return condition(b, holds, block, conditions, depth + 1) && first;
    };
    if (const auto *known = llvm::dyn_cast<llvm::ConstantInt>(what)) return known->isOne() == holds;
    if (auto *freeze = llvm::dyn_cast<llvm::FreezeInst>(what)) {
        return condition(freeze->getOperand(0), holds, block, conditions, depth + 1);
    }
    if (auto *choice = llvm::dyn_cast<llvm::SelectInst>(what)) {
        const auto is = [](llvm::Value *part, bool one) {
            const auto *known = llvm::dyn_cast<llvm::ConstantInt>(part);
            return known != nullptr && known->isOne() == one;
        };
        if (holds && is(choice->getFalseValue(), false))
            return both(choice->getCondition(), choice->getTrueValue());
        if (!holds && is(choice->getTrueValue(), true))
            return both(choice->getCondition(), choice->getFalseValue());
        return false;
    }
    if (auto *binary = llvm::dyn_cast<llvm::BinaryOperator>(what)) {
        if (binary->getOpcode() == (holds ? llvm::Instruction::And : llvm::Instruction::Or)) {
            return both(binary->getOperand(0), binary->getOperand(1));
        }
        if (binary->getOpcode() == llvm::Instruction::Xor) {
            if (const auto *known = llvm::dyn_cast<llvm::ConstantInt>(binary->getOperand(1));
                known != nullptr && known->isOne()) {
                return condition(binary->getOperand(0), !holds, block, conditions, depth + 1);
            }
        }
        return false;
    }
    if (auto *cast = llvm::dyn_cast<llvm::TruncInst>(what)) {
        auto *wider = llvm::dyn_cast<llvm::ZExtInst>(cast->getOperand(0));
        return wider != nullptr && wider->getOperand(0)->getType()->isIntegerTy(1) &&
               condition(wider->getOperand(0), holds, block, conditions, depth + 1);
    }
    auto *compare = llvm::dyn_cast<llvm::ICmpInst>(what);
    if (compare == nullptr || !compare->getOperand(0)->getType()->isIntegerTy()) return false;
    if (auto *wider = llvm::dyn_cast<llvm::ZExtInst>(compare->getOperand(0));
        wider != nullptr && compare->isEquality() &&
        wider->getOperand(0)->getType()->isIntegerTy(1)) {
        if (const auto *zero = llvm::dyn_cast<llvm::ConstantInt>(compare->getOperand(1));
            zero != nullptr && zero->isZero()) {
            const bool same = compare->getPredicate() == llvm::ICmpInst::ICMP_NE;
            return condition(wider->getOperand(0), same == holds, block, conditions, depth + 1);
        }
    }
    const Operand said = values_.comparison(*compare, holds, block);
    if (said == nullptr) return false;
    conditions.push_back(said);
    return true;
}

}  // namespace cldist::analysis
