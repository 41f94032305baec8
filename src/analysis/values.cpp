#include "analysis/values.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/GlobalVariable.h>
#include <llvm/IR/IntrinsicInst.h>

#include "analysis/names.hpp"

namespace cldist::analysis {

using namespace splitting;

namespace {

constexpr const char *too_large = "the expression of an index is too large";
constexpr std::size_t most_converted = 20'000;  // far more than an accepted expression has nodes

static bool only_read(const llvm::Value *pointer) {
    return std::all_of(pointer->user_begin(), pointer->user_end(), [&](const llvm::User *user) {
        if (llvm::isa<llvm::LoadInst>(user)) return true;
        if (llvm::isa<llvm::GetElementPtrInst>(user) || llvm::isa<llvm::BitCastInst>(user))
            return only_read(user);
        if (const auto *transfer = llvm::dyn_cast<llvm::MemTransferInst>(user))
            return transfer->getRawDest() != pointer;
        const auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(user);
        return call != nullptr && call->isLifetimeStartOrEnd();
    });
}

/// The smallest and the largest number in a constant of the program. Nothing unless all numbers
/// have this width.
std::optional<std::pair<std::int64_t, std::int64_t>> extremes(const llvm::Constant *constant,
                                                              unsigned width) {
    if (const auto *number = llvm::dyn_cast<llvm::ConstantInt>(constant)) {
        if (number->getBitWidth() != width || width > 64) return std::nullopt;
        return std::pair(number->getSExtValue(), number->getSExtValue());
    }
    std::optional<std::pair<std::int64_t, std::int64_t>> all;
    for (unsigned i = 0; const llvm::Constant *element = constant->getAggregateElement(i); ++i) {
        const auto here = extremes(element, width);
        if (!here) return std::nullopt;
        all =
            all ? std::pair(std::min(all->first, here->first), std::max(all->second, here->second))
                : *here;
    }
    return all;
}

/// A variable that each round of a loop multiplies or divides by a number of at least 2.
struct Geometric {
    llvm::Value *start;
    std::int64_t factor;
    // Mul (also for left shifts), UDiv, SDiv, LShr or AShr. Right shifts divide by `factor`.
    llvm::Instruction::BinaryOps operation;
};

std::optional<Geometric> geometric(const llvm::PHINode &phi, const llvm::Loop &loop) {
    if (phi.getNumIncomingValues() != 2 || !phi.getType()->isIntegerTy()) return std::nullopt;
    const unsigned back = loop.contains(phi.getIncomingBlock(0)) ? 0 : 1;
    const auto *next = llvm::dyn_cast<llvm::BinaryOperator>(phi.getIncomingValue(back));
    if (next == nullptr || next->getOperand(0) != &phi) return std::nullopt;
    llvm::Value *const start = phi.getIncomingValue(1 - back);
    const auto operation = next->getOpcode();
    if (operation == llvm::Instruction::Add && next->getOperand(1) == &phi)
        return Geometric{start, 2, llvm::Instruction::Mul};
    const auto *by = llvm::dyn_cast<llvm::ConstantInt>(next->getOperand(1));
    if (by == nullptr || by->getBitWidth() > 64) return std::nullopt;
    const std::int64_t amount = by->getSExtValue();
    switch (operation) {
        case llvm::Instruction::Mul:
        case llvm::Instruction::UDiv:
        case llvm::Instruction::SDiv:
            if (amount < 2 || amount > 1024) return std::nullopt;
            return Geometric{start, amount, operation};
        case llvm::Instruction::Shl:
        case llvm::Instruction::LShr:
        case llvm::Instruction::AShr:
            if (amount < 1 || amount > 10) return std::nullopt;
            return Geometric{
                start, std::int64_t{1} << amount,
                operation == llvm::Instruction::Shl ? llvm::Instruction::Mul : operation};
        default: return std::nullopt;
    }
}

}  // namespace

std::size_t nodes(const Expression &expression, std::size_t most) {
    std::size_t sum = 1;
    for (const Operand &operand : expression.operands)
        if (sum <= most) sum += nodes(*operand, most);
    return sum;
}

bool bounded(const Expression &expression) {
    const auto operand = [&](std::size_t i) { return bounded(*expression.operands[i]); };
    switch (expression.kind) {
        case Kind::unknown: return expression.width <= 16;
        case Kind::bit_and: {
            const auto mask = [&](std::size_t i) {
                return expression.operands[i]->kind == Kind::constant &&
                       expression.operands[i]->value >= 0;
            };
            return mask(0) || mask(1) || (operand(0) && operand(1));
        }
        case Kind::urem:
        case Kind::srem: return operand(1);
        case Kind::select: return operand(1) && operand(2);
        default:
            return std::all_of(expression.operands.begin(), expression.operands.end(),
                               [](const Operand &part) { return bounded(*part); });
    }
}

Operand Values::unknown(unsigned width, const std::string &reason) {
    if (reason_.empty()) reason_ = reason;
    return leaf(Kind::unknown, width);
}

Operand Values::counter(const void *of) {
    return leaf(Kind::counter, 64, counters_.try_emplace(of, counters_.size()).first->second);
}

Operand Values::value(llvm::Value *what, const llvm::BasicBlock *block, const llvm::Loop *scope,
                      unsigned depth) {
    if (!what->getType()->isIntegerTy() || what->getType()->getIntegerBitWidth() > 64)
        return unknown(64, "an index is not an integer");
    return expression(evolution_.getSCEVAtScope(what, scope), block, scope, depth);
}

Operand Values::expression(const llvm::SCEV *what, const llvm::BasicBlock *block,
                           const llvm::Loop *scope, unsigned depth) {
    if (llvm::isa<llvm::SCEVCouldNotCompute>(what) || !what->getType()->isIntegerTy())
        return unknown(64, "an index is not an integer");
    const unsigned width = what->getType()->getIntegerBitWidth();
    if (width > 64 || depth > most_depth || ++converted_ > most_converted)
        return unknown(std::min(width, 64U), too_large);
    const auto part = [&](const llvm::SCEV *operand) {
        return expression(operand, block, scope, depth + 1);
    };
    const auto parts = [&](Kind kind) {
        std::vector<Operand> operands;
        for (const llvm::SCEV *operand : llvm::cast<llvm::SCEVNAryExpr>(what)->operands())
            operands.push_back(part(operand));
        return node(kind, width, std::move(operands));
    };
    switch (what->getSCEVType()) {
        case llvm::scConstant:
            return constant(llvm::cast<llvm::SCEVConstant>(what)->getAPInt().getSExtValue(), width);
        case llvm::scTruncate:
            return node(Kind::trunc, width,
                        {part(llvm::cast<llvm::SCEVCastExpr>(what)->getOperand())});
        case llvm::scZeroExtend:
            return node(Kind::zext, width,
                        {part(llvm::cast<llvm::SCEVCastExpr>(what)->getOperand())});
        case llvm::scSignExtend:
            return node(Kind::sext, width,
                        {part(llvm::cast<llvm::SCEVCastExpr>(what)->getOperand())});
        case llvm::scAddExpr: {
            const auto *sum = llvm::cast<llvm::SCEVAddExpr>(what);
            if (const Operand rest = remainder(*sum, block, scope, depth)) return rest;
            return parts(Kind::add);
        }
        case llvm::scMulExpr: return parts(Kind::mul);
        case llvm::scUDivExpr: {
            const auto *quotient = llvm::cast<llvm::SCEVUDivExpr>(what);
            return node(Kind::udiv, width, {part(quotient->getLHS()), part(quotient->getRHS())});
        }
        case llvm::scSMaxExpr: return parts(Kind::smax);
        case llvm::scSMinExpr: return parts(Kind::smin);
        case llvm::scUMaxExpr: return parts(Kind::umax);
        case llvm::scUMinExpr:
        case llvm::scSequentialUMinExpr: return parts(Kind::umin);
        case llvm::scAddRecExpr: {
            const auto *series = llvm::cast<llvm::SCEVAddRecExpr>(what);
            const llvm::Loop *loop = series->getLoop();
            const bool inside = scope != nullptr && loop->contains(scope);
            if (!inside) return unknown(width, "an index is the value of a variable after a loop");
            if (!series->isAffine())
                return unknown(width, "an index changes by different steps in a loop");
            // If LLVM guarantees that the value does not wrap around, only values that fit occur.
            const Kind kind = series->hasNoSignedWrap() ? Kind::sum : Kind::add;
            return node(
                kind, width,
                {part(series->getStart()),
                 node(Kind::mul, 0, {part(series->getStepRecurrence(evolution_)), counter(loop)})});
        }
        case llvm::scUnknown:
            return computed(llvm::cast<llvm::SCEVUnknown>(what)->getValue(), width, block, scope,
                            depth + 1);
        default:
            return unknown(width, "an index is computed in a way that cldist does not understand");
    }
}

/// ScalarEvolution writes a % b as a - a / b * b. Returns null if the sum does not have this form.
Operand Values::remainder(const llvm::SCEVAddExpr &sum, const llvm::BasicBlock *block,
                          const llvm::Loop *scope, unsigned depth) {
    const unsigned width = sum.getType()->getIntegerBitWidth();
    for (const llvm::SCEV *operand : sum.operands()) {
        const auto *product = llvm::dyn_cast<llvm::SCEVMulExpr>(operand);
        if (product == nullptr) continue;
        for (const llvm::SCEV *factor : product->operands()) {
            const auto *quotient = llvm::dyn_cast<llvm::SCEVUDivExpr>(factor);
            if (quotient == nullptr) continue;
            const llvm::SCEV *a = quotient->getLHS();
            const llvm::SCEV *b = quotient->getRHS();
            if (product != evolution_.getMulExpr(evolution_.getNegativeSCEV(b), quotient)) continue;
            const llvm::SCEV *rest =
                evolution_.getMinusSCEV(evolution_.getMinusSCEV(&sum, product), a);
            if (rest->getExpressionSize() >= sum.getExpressionSize()) continue;
            const Operand remaining = node(
                Kind::urem, width,
                {expression(a, block, scope, depth + 1), expression(b, block, scope, depth + 1)});
            if (rest->isZero()) return remaining;
            return node(Kind::add, width, {expression(rest, block, scope, depth + 1), remaining});
        }
    }
    return nullptr;
}

Operand Values::computed(llvm::Value *what, unsigned width, const llvm::BasicBlock *block,
                         const llvm::Loop *scope, unsigned depth) {
    const auto part = [&](llvm::Value *operand) { return value(operand, block, scope, depth + 1); };
    if (const auto *argument = llvm::dyn_cast<llvm::Argument>(what)) {
        return width >= 8 ? leaf(Kind::immediate, width, argument->getArgNo())
                          : unknown(width, "an index is a bool");
    }
    const auto *instruction = llvm::dyn_cast<llvm::Instruction>(what);
    if (instruction == nullptr)
        return unknown(width, "an index is a constant that only the device's compiler knows");
    if (depth > most_depth) return unknown(width, too_large);
    if (auto *element = llvm::dyn_cast<llvm::ExtractElementInst>(what)) {
        const auto *argument = llvm::dyn_cast<llvm::Argument>(element->getVectorOperand());
        const auto *index = llvm::dyn_cast<llvm::ConstantInt>(element->getIndexOperand());
        if (argument != nullptr && index != nullptr && width >= 8)
            return leaf(Kind::immediate, width, argument->getArgNo(),
                        static_cast<unsigned>(index->getZExtValue()) * width / 8);
        return unknown(width,
                       llvm::isa<llvm::LoadInst>(element->getVectorOperand())
                           ? "an index depends on data"
                           : "an index is a component of a vector that cldist does not understand");
    }
    if (auto *load = llvm::dyn_cast<llvm::LoadInst>(what)) return loaded(*load, width);
    if (auto *call = llvm::dyn_cast<llvm::CallBase>(what)) return called(*call, width);
    if (auto *freeze = llvm::dyn_cast<llvm::FreezeInst>(what)) return part(freeze->getOperand(0));
    if (auto *choice = llvm::dyn_cast<llvm::SelectInst>(what))
        return selected(*choice, width, block, scope, depth);
    if (auto *phi = llvm::dyn_cast<llvm::PHINode>(what)) {
        if (loops_.isLoopHeader(phi->getParent()))
            return repeated(*phi, width, block, scope, depth);
        std::vector<Operand> operands;
        for (llvm::Value *incoming : phi->incoming_values()) operands.push_back(part(incoming));
        return node(Kind::hull, width, std::move(operands));
    }
    const auto two = [&](Kind kind) {
        return node(kind, width,
                    {part(instruction->getOperand(0)), part(instruction->getOperand(1))});
    };
    switch (instruction->getOpcode()) {
        case llvm::Instruction::UDiv: return two(Kind::udiv);
        case llvm::Instruction::SDiv: return two(Kind::sdiv);
        case llvm::Instruction::URem: return two(Kind::urem);
        case llvm::Instruction::SRem: return two(Kind::srem);
        case llvm::Instruction::And: return two(Kind::bit_and);
        case llvm::Instruction::Or: return two(Kind::bit_or);
        case llvm::Instruction::Xor: return two(Kind::bit_xor);
        case llvm::Instruction::Shl: return two(Kind::shl);
        case llvm::Instruction::LShr: return two(Kind::lshr);
        case llvm::Instruction::AShr: return two(Kind::ashr);
        case llvm::Instruction::FPToSI:
        case llvm::Instruction::FPToUI:
            return unknown(width, "an index is computed with floating-point numbers");
        default:
            return unknown(
                width,
                std::string("an index is computed in a way that cldist does not understand (") +
                    instruction->getOpcodeName() + ")");
    }
}

Operand Values::selected(llvm::SelectInst &choice, unsigned width, const llvm::BasicBlock *block,
                         const llvm::Loop *scope, unsigned depth) {
    const Operand yes = value(choice.getTrueValue(), block, scope, depth + 1);
    const Operand no = value(choice.getFalseValue(), block, scope, depth + 1);
    auto *compare = llvm::dyn_cast<llvm::ICmpInst>(choice.getCondition());
    if (compare != nullptr && compare->getOperand(0)->getType()->isIntegerTy()) {
        const std::string reason = reason_;  // the compared values are no indices
        const Operand said = comparison(*compare, true, block);
        reason_ = reason;
        if (said != nullptr) return node(Kind::select, width, {said, yes, no});
    }
    return node(Kind::hull, width, {yes, no});
}

/// Understands a field of a by-value structure argument that the kernel does not change. Also an
/// element of a constant table: its value is between the smallest and the largest one.
Operand Values::loaded(llvm::LoadInst &load, unsigned width) {
    llvm::APInt offset(layout_.getIndexTypeSizeInBits(load.getPointerOperand()->getType()), 0);
    const llvm::Value *base =
        load.getPointerOperand()->stripAndAccumulateConstantOffsets(layout_, offset, true);
    if (const auto *argument = llvm::dyn_cast<llvm::Argument>(base);
        argument != nullptr && argument->hasByValAttr() && width >= 8 && !offset.isNegative() &&
        only_read(argument))
        return leaf(Kind::immediate, width, argument->getArgNo(),
                    static_cast<unsigned>(offset.getZExtValue()));
    base = llvm::getUnderlyingObject(base);
    if (const auto *table = llvm::dyn_cast<llvm::GlobalVariable>(base);
        table != nullptr && table->isConstant() && table->hasDefinitiveInitializer()) {
        if (const auto all = extremes(table->getInitializer(), width))
            return node(Kind::hull, width,
                        {constant(all->first, width), constant(all->second, width)});
    }
    return unknown(width, llvm::isa<llvm::AllocaInst>(base)
                              ? "an index is read from a private array or structure"
                              : "an index depends on data");
}

Operand Values::called(const llvm::CallBase &call, unsigned width) {
    const llvm::Function *callee = call.getCalledFunction();
    if (callee == nullptr || !callee->isDeclaration())
        return unknown(width, "an index is the result of a function");
    const std::string name = demangled(callee->getName().str()).first;
    if (name == "get_work_dim") return leaf(Kind::work_dim, width);
    const auto id = [](Kind kind, int dimension) { return leaf(kind, 64, dimension); };
    const auto linear = [&](const auto &of, Kind size) {
        const auto above = [&](int dimension, const Operand &outer) {
            return node(Kind::add, 64,
                        {of(dimension), node(Kind::mul, 64, {outer, id(size, dimension)})});
        };
        return above(0, above(1, of(2)));
    };
    if (name == "get_global_linear_id") {
        return linear(
            [&](int d) {
                return node(Kind::add, 64,
                            {id(Kind::global_id, d),
                             node(Kind::mul, 64, {constant(-1), id(Kind::global_offset, d)})});
            },
            Kind::global_size);
    }
    if (name == "get_local_linear_id")
        return linear([&](int d) { return id(Kind::local_id, d); }, Kind::local_size);
    static const std::map<std::string, Kind> by_dimension{
        {"get_global_id", Kind::global_id},
        {"get_group_id", Kind::group_id},
        {"get_local_id", Kind::local_id},
        {"get_global_size", Kind::global_size},
        {"get_local_size", Kind::local_size},
        {"get_enqueued_local_size", Kind::enqueued_local_size},
        {"get_num_groups", Kind::num_groups},
        {"get_global_offset", Kind::global_offset}};
    if (const auto found = by_dimension.find(name);
        found != by_dimension.end() && call.arg_size() == 1) {
        const auto *dimension = llvm::dyn_cast<llvm::ConstantInt>(call.getArgOperand(0));
        if (dimension == nullptr || dimension->getZExtValue() > 2)
            return unknown(
                width, "an index is the result of " + name + ", whose dimension is not 0, 1 or 2");
        return leaf(found->second, width, static_cast<std::int64_t>(dimension->getZExtValue()));
    }
    return unknown(width, "an index is the result of " + name);
}

/// A variable of a loop that ScalarEvolution does not understand. If each round divides it, its
/// values are between the first value and 0, or -1 if the first value is negative. If each round
/// multiplies it, its values are at least the first value.
Operand Values::repeated(llvm::PHINode &phi, unsigned width, const llvm::BasicBlock *block,
                         const llvm::Loop *scope, unsigned depth) {
    const std::string why = "an index changes in a loop in a way that cldist does not understand";
    const llvm::Loop &loop = *loops_.getLoopFor(phi.getParent());
    const auto steps = geometric(phi, loop);
    if (!steps) return unknown(width, why);
    const Operand start = expression(evolution_.getSCEVAtScope(steps->start, loop.getParentLoop()),
                                     block, loop.getParentLoop(), depth);
    const bool is_positive = evolution_.isKnownNonNegative(evolution_.getSCEV(steps->start));
    if (is_positive && steps->operation != llvm::Instruction::Mul)
        return node(Kind::hull, width, {constant(0, width), start});
    switch (steps->operation) {
        case llvm::Instruction::SDiv: return node(Kind::hull, width, {start, constant(0, width)});
        case llvm::Instruction::AShr:
            return node(Kind::hull, width,
                        {start, node(Kind::ashr, width, {start, constant(width - 1, width)})});
        case llvm::Instruction::Mul: break;
        default:  // an unsigned division makes a negative first value positive
            return node(
                Kind::hull, width,
                {start, node(Kind::lshr, width, {start, constant(1, width)}), constant(0, width)});
    }
    const bool inside = scope != nullptr && loop.contains(scope);
    if (!inside || !is_positive) return unknown(width, why);
    const Operand rounds = counter(&phi);
    growing_.insert(rounds->value);
    return node(Kind::add, width, {start, rounds});
}

/// If the loop continues only while a growing value is below an end, the value is always below the
/// end times its factor.
void Values::limit_growing(const llvm::Loop &loop, std::vector<Operand> &conditions) {
    const llvm::BasicBlock *const latch = loop.getLoopLatch();
    if (latch == nullptr) return;
    for (llvm::PHINode &phi : loop.getHeader()->phis()) {
        const auto steps = geometric(phi, loop);
        if (!steps || steps->operation != llvm::Instruction::Mul) continue;
        const auto *jump = llvm::dyn_cast<llvm::BranchInst>(loop.getHeader()->getTerminator());
        if (jump == nullptr || !jump->isConditional()) continue;
        const auto *compare = llvm::dyn_cast<llvm::ICmpInst>(jump->getCondition());
        if (compare == nullptr) continue;
        auto predicate = loop.contains(jump->getSuccessor(0)) ? compare->getPredicate()
                                                              : compare->getInversePredicate();
        llvm::Value *low = compare->getOperand(0);
        llvm::Value *end = compare->getOperand(1);
        if (predicate == llvm::ICmpInst::ICMP_SGT || predicate == llvm::ICmpInst::ICMP_SGE ||
            predicate == llvm::ICmpInst::ICMP_UGT || predicate == llvm::ICmpInst::ICMP_UGE) {
            predicate = llvm::ICmpInst::getSwappedPredicate(predicate);
            std::swap(low, end);
        }
        const bool is_last =
            predicate == llvm::ICmpInst::ICMP_SLE || predicate == llvm::ICmpInst::ICMP_ULE;
        const bool below =
            predicate == llvm::ICmpInst::ICMP_SLT || predicate == llvm::ICmpInst::ICMP_ULT;
        unsigned bits = phi.getType()->getIntegerBitWidth();
        const bool with_sign = llvm::ICmpInst::isSigned(predicate);
        if (const auto *wider = llvm::dyn_cast<llvm::CastInst>(low);
            wider != nullptr && (llvm::isa<llvm::SExtInst>(low) || llvm::isa<llvm::ZExtInst>(low)))
            low = wider->getOperand(0);
        // The value must not reach the sign bit.
        if (!with_sign && bits > 1) --bits;
        if (low != &phi || !(below || is_last) || end->getType()->getIntegerBitWidth() > 64 ||
            !evolution_.isLoopInvariant(evolution_.getSCEV(end), &loop))
            continue;
        const llvm::Loop *const outside = loop.getParentLoop();
        const auto at_entry = [&](llvm::Value *what) {
            return expression(evolution_.getSCEVAtScope(what, outside), loop.getHeader(), outside);
        };
        const Operand rounds = counter(&phi);
        growing_.insert(rounds->value);
        conditions.push_back(
            node(Kind::stops, bits,
                 {rounds, at_entry(steps->start), constant(1),
                  node(Kind::mul, 0,
                       {node(Kind::sum, 64, {at_entry(end), constant(is_last ? 1 : 0)}),
                        constant(steps->factor)})},
                 with_sign ? 1 : 0));
    }
}

bool Values::has_gaps(const Expression &expression) const {
    return (expression.kind == Kind::counter && growing_.contains(expression.value)) ||
           std::any_of(expression.operands.begin(), expression.operands.end(),
                       [&](const Operand &operand) { return has_gaps(*operand); });
}

Operand Values::comparison(llvm::ICmpInst &compare, bool holds, const llvm::BasicBlock *block) {
    const unsigned width = compare.getOperand(0)->getType()->getIntegerBitWidth();
    if (width > 64 || width < 2) return nullptr;
    const Operand a = value(compare.getOperand(0), block);
    const Operand b = value(compare.getOperand(1), block);
    switch (holds ? compare.getPredicate() : compare.getInversePredicate()) {
        case llvm::ICmpInst::ICMP_EQ: return node(Kind::eq, width, {a, b});
        case llvm::ICmpInst::ICMP_NE: return node(Kind::ne, width, {a, b});
        case llvm::ICmpInst::ICMP_SLT: return node(Kind::slt, width, {a, b});
        case llvm::ICmpInst::ICMP_SLE: return node(Kind::sle, width, {a, b});
        case llvm::ICmpInst::ICMP_SGT: return node(Kind::slt, width, {b, a});
        case llvm::ICmpInst::ICMP_SGE: return node(Kind::sle, width, {b, a});
        case llvm::ICmpInst::ICMP_ULT: return node(Kind::ult, width, {a, b});
        case llvm::ICmpInst::ICMP_ULE: return node(Kind::ule, width, {a, b});
        case llvm::ICmpInst::ICMP_UGT: return node(Kind::ult, width, {b, a});
        case llvm::ICmpInst::ICMP_UGE: return node(Kind::ule, width, {b, a});
        default: return nullptr;
    }
}

}  // namespace cldist::analysis
