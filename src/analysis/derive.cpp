#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/Analysis/CFG.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/PostDominators.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>
#include <llvm/Passes/PassBuilder.h>

#include "analysis/analysis.hpp"

namespace cldist::analysis {

using namespace splitting;

namespace {

namespace space {
constexpr unsigned private_memory = 0;
constexpr unsigned global = 1;
constexpr unsigned constant = 2;
constexpr unsigned local = 3;
}  // namespace space

constexpr unsigned most_depth = 40;
constexpr std::size_t most_nodes = 2000;  // of the expressions of one access

/// Name and parameters of a function that clang has mangled: "_Z6vload4mPU3AS1Kf" is {"vload4", "mPU3AS1Kf"}. Names of other
/// functions have no parameters.
std::pair<std::string, std::string> demangled(const std::string &name) {
    if (name.compare(0, 2, "_Z") != 0) return {name, {}};
    std::size_t digits = 2;
    std::size_t length = 0;
    while (digits < name.size() && name[digits] >= '0' && name[digits] <= '9')
        length = 10 * length + (name[digits++] - '0');
    if (digits + length > name.size()) return {name, {}};
    return {name.substr(digits, length), name.substr(digits + length)};
}

/// Size of what the first parameter points to; 0 if it is not a pointer to numbers or vectors of them.
std::uint64_t pointee_size(const std::string &parameters) {
    std::size_t at = 0;
    const auto skip = [&](const char *text) {
        const std::string_view word(text);
        if (parameters.compare(at, word.size(), word) != 0) return false;
        at += word.size();
        return true;
    };
    if (!skip("P")) return 0;
    if (skip("U3AS")) ++at;
    while (skip("K") || skip("V")) {
    }
    std::uint64_t count = 1;
    if (skip("Dv")) {
        count = 0;
        while (at < parameters.size() && parameters[at] >= '0' && parameters[at] <= '9')
            count = 10 * count + (parameters[at++] - '0');
        if (count == 3) count = 4;
        if (!skip("_")) return 0;
    }
    if (skip("Dh")) return 2 * count;
    if (at >= parameters.size()) return 0;
    switch (parameters[at]) {
        case 'c':
        case 'a':
        case 'h': return count;
        case 's':
        case 't': return 2 * count;
        case 'i':
        case 'j':
        case 'f': return 4 * count;
        case 'l':
        case 'm':
        case 'd': return 8 * count;
        default: return 0;
    }
}

bool starts_with(const std::string &text, const char *beginning) { return text.rfind(beginning, 0) == 0; }

std::size_t nodes(const Expression &expression) {
    std::size_t sum = 1;
    for (const Operand &operand : expression.operands) sum += nodes(*operand);
    return sum;
}

/// Whether its values are few enough to be of use, whatever those are that are not known.
bool bounded(const Expression &expression) {
    const auto operand = [&](std::size_t i) { return bounded(*expression.operands[i]); };
    switch (expression.kind) {
        case Kind::unknown: return expression.width <= 16;
        case Kind::bit_and: {
            const auto mask = [&](std::size_t i) {
                return expression.operands[i]->kind == Kind::constant && expression.operands[i]->value >= 0;
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

class Analysis {
public:
    Analysis(llvm::Function &function, llvm::FunctionAnalysisManager &manager)
        : function_(function),
          evolution_(manager.getResult<llvm::ScalarEvolutionAnalysis>(function)),
          loops_(manager.getResult<llvm::LoopAnalysis>(function)),
          dominators_(manager.getResult<llvm::DominatorTreeAnalysis>(function)),
          post_dominators_(manager.getResult<llvm::PostDominatorTreeAnalysis>(function)),
          layout_(function.getParent()->getDataLayout()) {}

    KernelDescription describe() {
        kernel_.name = function_.getName().str();
        arguments();
        const llvm::ReversePostOrderTraversal<const llvm::Function *> order(&function_);
        if (llvm::containsIrreducibleCFG<const llvm::BasicBlock *>(order, loops_))
            refuse("its control flow is not structured");
        for (llvm::Instruction &instruction : llvm::instructions(function_)) {
            if (!kernel_.why_not.empty()) break;
            if (dominators_.isReachableFromEntry(instruction.getParent())) look_at(instruction);
        }
        if (!kernel_.why_not.empty()) kernel_.accesses.clear();
        return std::move(kernel_);
    }

private:
    // ---- What the kernel is ------------------------------------------------------------------------------------------

    void refuse(const std::string &why, const llvm::Instruction *where = nullptr) {
        if (kernel_.why_not.empty()) kernel_.why_not = why + at_line(where);
    }

    static unsigned line_of(const llvm::Instruction &instruction) {
        return instruction.getDebugLoc() ? instruction.getDebugLoc().getLine() : 0;
    }
    static std::string at_line(const llvm::Instruction *where) {
        return where != nullptr && line_of(*where) != 0 ? " (line " + std::to_string(line_of(*where)) + ")" : "";
    }

    void arguments() {
        const llvm::MDNode *types = function_.getMetadata("kernel_arg_base_type");
        for (const llvm::Argument &argument : function_.args()) {
            const unsigned index = argument.getArgNo();
            ArgumentDescription described;
            described.name = argument.hasName() ? argument.getName().str() : "argument " + std::to_string(index);
            if (argument.getType()->isPointerTy() && !argument.hasByValAttr()) {
                const unsigned memory = argument.getType()->getPointerAddressSpace();
                described.buffer = memory == space::global || memory == space::constant;
            }
            if (types != nullptr && index < types->getNumOperands()) {
                const std::string type = llvm::cast<llvm::MDString>(types->getOperand(index))->getString().str();
                if (starts_with(type, "sampler")) described.buffer = false;
                for (const char *kind : {"image", "queue_t", "clk_event_t", "reserve_id_t"}) {
                    if (starts_with(type, kind)) refuse(described.name + " is of type " + type);
                }
            }
            if (const llvm::MDNode *qualifiers = function_.getMetadata("kernel_arg_type_qual");
                qualifiers != nullptr && index < qualifiers->getNumOperands() &&
                llvm::cast<llvm::MDString>(qualifiers->getOperand(index))->getString().contains("pipe")) {
                refuse(described.name + " is a pipe");
            }
            kernel_.arguments.push_back(std::move(described));
        }
    }

    void look_at(llvm::Instruction &instruction) {
        if (auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) {
            if (load->isAtomic()) return atomic(*load, load->getPointerOperand());
            access(*load, load->getPointerOperand(), store_size(load->getType()), false);
        } else if (auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction)) {
            if (store->isAtomic()) return atomic(*store, store->getPointerOperand());
            access(*store, store->getPointerOperand(), store_size(store->getValueOperand()->getType()), true);
        } else if (auto *update = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction)) {
            atomic(*update, update->getPointerOperand());
        } else if (auto *exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&instruction)) {
            atomic(*exchange, exchange->getPointerOperand());
        } else if (auto *call = llvm::dyn_cast<llvm::CallBase>(&instruction)) {
            look_at_call(*call);
        } else if (instruction.mayReadOrWriteMemory() && !llvm::isa<llvm::FenceInst>(instruction)) {
            refuse(std::string("it has an instruction that is not understood, ") + instruction.getOpcodeName(),
                   &instruction);
        }
    }

    Operand store_size(llvm::Type *type) const {
        return constant(static_cast<std::int64_t>(layout_.getTypeStoreSize(type)));
    }

    void look_at_call(llvm::CallBase &call) {
        const llvm::Function *callee = call.getCalledFunction();
        if (callee == nullptr) return refuse("it calls what is not known", &call);
        if (auto *transfer = llvm::dyn_cast<llvm::MemTransferInst>(&call)) {
            const Operand bytes = value(transfer->getLength(), call.getParent());
            access(call, transfer->getRawSource(), bytes, false);
            return access(call, transfer->getRawDest(), bytes, true);
        }
        if (auto *set = llvm::dyn_cast<llvm::MemSetInst>(&call)) {
            return access(call, set->getRawDest(), value(set->getLength(), call.getParent()), true);
        }
        if (callee->isIntrinsic()) {
            if (touches_buffers(call)) refuse("it calls " + callee->getName().str(), &call);
            return;
        }
        const auto [name, parameters] = demangled(callee->getName().str());
        if (!callee->isDeclaration()) return refuse("it calls " + name + ", which calls itself", &call);
        if (name == "printf") return refuse("it calls printf, whose output has an order", &call);
        if (parameters.empty()) return refuse("it calls " + name + ", which is not known", &call);
        if (starts_with(name, "atomic_") || starts_with(name, "atom_")) {
            for (llvm::Value *operand : call.args()) {
                if (operand->getType()->isPointerTy()) atomic(call, operand);
            }
            return;
        }
        if (name == "prefetch" || name == "wait_group_events") return;
        if (starts_with(name, "vload") || starts_with(name, "vstore")) return vector_access(call, name);
        if (name == "async_work_group_copy") {
            const std::uint64_t size = pointee_size(parameters);
            if (size == 0) return refuse("it calls " + name, &call);
            const Operand bytes =
                node(Kind::mul, 64,
                     {constant(static_cast<std::int64_t>(size)), value(call.getArgOperand(2), call.getParent())});
            access(call, call.getArgOperand(1), bytes, false);
            return access(call, call.getArgOperand(0), bytes, true);
        }
        if (touches_buffers(call)) refuse("it calls " + name + " with a pointer to global memory", &call);
    }

    static bool touches_buffers(const llvm::CallBase &call) {
        return std::any_of(call.arg_begin(), call.arg_end(), [](const llvm::Use &operand) {
            if (!operand->getType()->isPtrOrPtrVectorTy()) return false;
            // Of OpenCL 2 on, built-in functions take generic pointers, also to private variables.
            const llvm::Value *const pointer =
                operand->getType()->isPointerTy() ? operand->stripInBoundsOffsets() : operand.get();
            const unsigned memory = pointer->getType()->getPointerAddressSpace();
            return memory != space::private_memory && memory != space::local;
        });
    }

    void vector_access(llvm::CallBase &call, const std::string &name) {
        const bool written = starts_with(name, "vstore");
        const bool aligned = starts_with(name, "vloada") || starts_with(name, "vstorea");
        const bool half = name.find("_half") != std::string::npos;
        const unsigned first = written ? 1 : 0;
        if (call.arg_size() < first + 2) return refuse("it calls " + name, &call);
        llvm::Type *type = written ? call.getArgOperand(0)->getType() : call.getType();
        const auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
        const std::int64_t count = vector == nullptr ? 1 : vector->getNumElements();
        const std::int64_t element =
            half ? 2 : static_cast<std::int64_t>(layout_.getTypeStoreSize(type->getScalarType()));
        const std::int64_t distance = element * (aligned && count == 3 ? 4 : count);
        const Operand index = value(call.getArgOperand(first), call.getParent());
        llvm::Value *const pointer = call.getArgOperand(first + 1);
        const Operand offset = node(Kind::mul, 64, {constant(distance), index});
        access(call, pointer, constant(written ? element * count : distance), written, offset);
        // Some devices write the fourth element, too.
        if (written && distance > element * count) access(call, pointer, constant(distance), true, offset, false);
    }

    // ---- Accesses ----------------------------------------------------------------------------------------------------

    struct Place {
        llvm::Value *base = nullptr;
        std::vector<Operand> offset;
    };

    /// Where a pointer points, as seen from a block.
    Place place_of(llvm::Value *pointer, const llvm::BasicBlock *block) {
        Place place;
        for (unsigned depth = 0; depth < most_depth; ++depth) {
            const llvm::SCEV *address = evolution_.getSCEVAtScope(pointer, loops_.getLoopFor(block));
            const llvm::SCEV *base = evolution_.getPointerBase(address);
            const auto *unknown = llvm::dyn_cast<llvm::SCEVUnknown>(base);
            if (unknown == nullptr) return {};
            const llvm::SCEV *offset = evolution_.getMinusSCEV(address, base);
            if (llvm::isa<llvm::SCEVCouldNotCompute>(offset)) return {};
            place.offset.push_back(expression(offset, block));
            place.base = unknown->getValue();
            if (auto *cast = llvm::dyn_cast<llvm::AddrSpaceCastOperator>(place.base)) {
                pointer = cast->getPointerOperand();
            } else if (auto *freeze = llvm::dyn_cast<llvm::FreezeInst>(place.base)) {
                pointer = freeze->getOperand(0);
            } else {
                return place;
            }
        }
        return {};
    }

    /// Memory that no other work-group sees.
    static bool own_memory(const llvm::Value *base) {
        const unsigned memory = base->getType()->getPointerAddressSpace();
        return memory == space::private_memory || memory == space::local;
    }

    void atomic(llvm::Instruction &instruction, llvm::Value *pointer) {
        const Place place = place_of(pointer, instruction.getParent());
        if (place.base == nullptr || !own_memory(place.base))
            refuse("it has atomic operations on global memory", &instruction);
    }

    void access(llvm::Instruction &instruction, llvm::Value *pointer, const Operand &bytes, bool written,
                const Operand &more = nullptr, bool sure = true) {
        const llvm::BasicBlock *block = instruction.getParent();
        if (own_memory(pointer)) return;
        Place place = place_of(pointer, block);
        if (place.base != nullptr && own_memory(place.base)) return;
        if (const auto *variable = llvm::dyn_cast_or_null<llvm::GlobalVariable>(place.base)) {
            if (!variable->isConstant())
                refuse("it uses " + variable->getName().str() + ", which launches share", &instruction);
            return;
        }
        const auto *argument = llvm::dyn_cast_or_null<llvm::Argument>(place.base);
        if (argument == nullptr || !kernel_.arguments[argument->getArgNo()].buffer) {
            if (written)
                return refuse("where it writes is not understood: which argument a pointer belongs to", &instruction);
            for (std::size_t i = 0; i < kernel_.arguments.size(); ++i) {
                if (kernel_.arguments[i].buffer)
                    whole(i, "which argument a pointer belongs to is not understood", instruction);
            }
            return;
        }
        AccessDescription access;
        access.argument = argument->getArgNo();
        access.written = written;
        access.line = line_of(instruction);
        access.bytes = bytes;
        if (more != nullptr) place.offset.push_back(more);
        access.offset = place.offset.size() == 1 ? place.offset[0] : node(Kind::add, 64, place.offset);
        const Reached &reached = reached_when(block);
        access.conditions = reached.conditions;
        access.certain = sure && reached.certain;
        std::size_t size = nodes(*access.offset) + nodes(*bytes);
        for (const Operand &condition : access.conditions) size += nodes(*condition);
        const bool small = size <= most_nodes;
        if (!small || !bounded(*access.offset) || !bounded(*bytes)) {
            const std::string &name = kernel_.arguments[access.argument].name;
            const std::string why = small ? "an index depends on data" : "an index is too large an expression";
            if (written) return refuse("where it writes in " + name + " is not understood: " + why, &instruction);
            return whole(access.argument, why, instruction);
        }
        kernel_.accesses.push_back(std::move(access));
    }

    void whole(std::size_t argument, const std::string &why, const llvm::Instruction &where) {
        std::string &reason = kernel_.arguments[argument].why_whole;
        if (reason.empty()) reason = why + at_line(&where);
    }

    // ---- When a block is reached -------------------------------------------------------------------------------------

    struct Reached {
        std::vector<Operand> conditions;
        bool certain = true;  // when they hold
    };

    const Reached &reached_when(const llvm::BasicBlock *block) {
        const auto [at, first] = reached_.try_emplace(block);
        Reached &reached = at->second;
        if (!first) return reached;
        for (const llvm::Loop *loop = loops_.getLoopFor(block); loop != nullptr; loop = loop->getParentLoop()) {
            rounds(*loop, reached);
        }
        // Up the tree of dominators, through each branch that must have been taken.
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

    /// A loop's counter is at most how often its back edge is taken.
    void rounds(const llvm::Loop &loop, Reached &reached) {
        const auto limit = [&](const llvm::SCEV *count) {
            const llvm::SCEV *at_entry = evolution_.getSCEVAtScope(count, loop.getParentLoop());
            const Operand most = expression(at_entry, loop.getHeader(), loop.getParentLoop());
            reached.conditions.push_back(node(Kind::ule, 64, {counter(loop), node(Kind::zext, 64, {most})}));
        };
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

    /// The counter of a loop that goes on at `exit` while a sum is below an end.
    void stops(const llvm::Loop &loop, const llvm::BasicBlock &exit, Reached &reached) {
        const auto *jump = llvm::dyn_cast<llvm::BranchInst>(exit.getTerminator());
        if (jump == nullptr || !jump->isConditional()) return;
        auto *compare = llvm::dyn_cast<llvm::ICmpInst>(jump->getCondition());
        if (compare == nullptr || !compare->getOperand(0)->getType()->isIntegerTy()) return;
        const bool goes_on = loop.contains(jump->getSuccessor(0));
        auto predicate = goes_on ? compare->getPredicate() : compare->getInversePredicate();
        const auto *series = llvm::dyn_cast<llvm::SCEVAddRecExpr>(evolution_.getSCEV(compare->getOperand(0)));
        llvm::Value *end = compare->getOperand(1);
        if (predicate == llvm::ICmpInst::ICMP_SGT || predicate == llvm::ICmpInst::ICMP_UGT) {
            predicate = llvm::ICmpInst::getSwappedPredicate(predicate);
            series = llvm::dyn_cast<llvm::SCEVAddRecExpr>(evolution_.getSCEV(compare->getOperand(1)));
            end = compare->getOperand(0);
        }
        const bool below = predicate == llvm::ICmpInst::ICMP_SLT || predicate == llvm::ICmpInst::ICMP_ULT;
        const unsigned width = end->getType()->getIntegerBitWidth();
        const llvm::SCEV *limit = evolution_.getSCEV(end);
        if (!below || width > 64 || series == nullptr || series->getLoop() != &loop || !series->isAffine() ||
            !evolution_.isLoopInvariant(limit, &loop)) {
            return;
        }
        const llvm::Loop *outside = loop.getParentLoop();
        const auto at_entry = [&](const llvm::SCEV *what) {
            return expression(evolution_.getSCEVAtScope(what, outside), loop.getHeader(), outside);
        };
        reached.conditions.push_back(node(Kind::stops, width,
                                          {counter(loop), at_entry(series->getStart()),
                                           at_entry(series->getStepRecurrence(evolution_)), at_entry(limit)},
                                          predicate == llvm::ICmpInst::ICMP_SLT ? 1 : 0));
    }

    /// Adds what the branch at the end of `from` says if `here` is reached; whether that is all that decides it.
    bool branch(const llvm::BasicBlock &from, const llvm::BasicBlock *here, const llvm::BasicBlock *block,
                Reached &reached) {
        const llvm::Instruction *end = from.getTerminator();
        const auto leads_here = [&](const llvm::BasicBlock *next) {
            return dominators_.dominates(llvm::BasicBlockEdge(&from, next), here);
        };
        if (const auto *jump = llvm::dyn_cast<llvm::BranchInst>(end); jump != nullptr && jump->isConditional()) {
            if (jump->getSuccessor(0) == jump->getSuccessor(1)) return false;
            for (const unsigned i : {0U, 1U}) {
                if (!leads_here(jump->getSuccessor(i))) continue;
                const bool all = condition(jump->getCondition(), i == 0, block, reached.conditions);
                return all && post_dominators_.dominates(here, jump->getSuccessor(i));
            }
        }
        if (const auto *choice = llvm::dyn_cast<llvm::SwitchInst>(end)) {
            for (const auto &one : choice->cases()) {
                if (one.getCaseSuccessor() == choice->getDefaultDest() || !leads_here(one.getCaseSuccessor())) continue;
                const unsigned width = choice->getCondition()->getType()->getIntegerBitWidth();
                if (width > 64) return false;
                reached.conditions.push_back(
                    node(Kind::eq, width,
                         {value(choice->getCondition(), block), constant(one.getCaseValue()->getSExtValue(), width)}));
                return post_dominators_.dominates(here, one.getCaseSuccessor());
            }
        }
        return false;
    }

    /// Adds what follows from the condition's being `holds`; whether it is all that does.
    bool condition(llvm::Value *what, bool holds, const llvm::BasicBlock *block, std::vector<Operand> &conditions,
                   unsigned depth = 0) {
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
            wider != nullptr && compare->isEquality() && wider->getOperand(0)->getType()->isIntegerTy(1)) {
            if (const auto *zero = llvm::dyn_cast<llvm::ConstantInt>(compare->getOperand(1));
                zero != nullptr && zero->isZero()) {
                const bool same = compare->getPredicate() == llvm::ICmpInst::ICMP_NE;
                return condition(wider->getOperand(0), same == holds, block, conditions, depth + 1);
            }
        }
        const Operand said = comparison(*compare, holds, block);
        if (said == nullptr) return false;
        conditions.push_back(said);
        return true;
    }

    Operand comparison(llvm::ICmpInst &compare, bool holds, const llvm::BasicBlock *block) {
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

    // ---- What is computed --------------------------------------------------------------------------------------------

    Operand counter(const llvm::Loop &loop) {
        const auto number = counters_.try_emplace(&loop, static_cast<unsigned>(counters_.size())).first->second;
        return leaf(Kind::counter, 64, number);
    }

    Operand value(llvm::Value *what, const llvm::BasicBlock *block) {
        return value(what, block, loops_.getLoopFor(block), 0);
    }
    Operand value(llvm::Value *what, const llvm::BasicBlock *block, const llvm::Loop *scope, unsigned depth) {
        if (!what->getType()->isIntegerTy() || what->getType()->getIntegerBitWidth() > 64)
            return leaf(Kind::unknown, 64);
        return expression(evolution_.getSCEVAtScope(what, scope), block, scope, depth);
    }
    Operand expression(const llvm::SCEV *what, const llvm::BasicBlock *block) {
        return expression(what, block, loops_.getLoopFor(block), 0);
    }

    /// The value as seen from a block, of whose loops `scope` is the innermost that counts.
    Operand expression(const llvm::SCEV *what, const llvm::BasicBlock *block, const llvm::Loop *scope,
                       unsigned depth = 0) {
        if (llvm::isa<llvm::SCEVCouldNotCompute>(what) || !what->getType()->isIntegerTy())
            return leaf(Kind::unknown, 64);
        const unsigned width = what->getType()->getIntegerBitWidth();
        if (width > 64 || depth > most_depth) return leaf(Kind::unknown, std::min(width, 64U));
        const auto part = [&](const llvm::SCEV *operand) { return expression(operand, block, scope, depth + 1); };
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
                return node(Kind::trunc, width, {part(llvm::cast<llvm::SCEVCastExpr>(what)->getOperand())});
            case llvm::scZeroExtend:
                return node(Kind::zext, width, {part(llvm::cast<llvm::SCEVCastExpr>(what)->getOperand())});
            case llvm::scSignExtend:
                return node(Kind::sext, width, {part(llvm::cast<llvm::SCEVCastExpr>(what)->getOperand())});
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
                if (!inside || !series->isAffine()) return leaf(Kind::unknown, width);
                // Without wrapping around, as is said, only what fits is met.
                const Kind kind = series->hasNoSignedWrap() ? Kind::sum : Kind::add;
                return node(kind, width,
                            {part(series->getStart()),
                             node(Kind::mul, 0, {part(series->getStepRecurrence(evolution_)), counter(*loop)})});
            }
            case llvm::scUnknown:
                return computed(llvm::cast<llvm::SCEVUnknown>(what)->getValue(), width, block, scope, depth + 1);
            default: return leaf(Kind::unknown, width);
        }
    }

    /// ScalarEvolution writes a % b as a - a / b * b. Null if the sum is not of this kind.
    Operand remainder(const llvm::SCEVAddExpr &sum, const llvm::BasicBlock *block, const llvm::Loop *scope,
                      unsigned depth) {
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
                const llvm::SCEV *rest = evolution_.getMinusSCEV(evolution_.getMinusSCEV(&sum, product), a);
                if (rest->getExpressionSize() >= sum.getExpressionSize()) continue;
                const Operand remaining =
                    node(Kind::urem, width,
                         {expression(a, block, scope, depth + 1), expression(b, block, scope, depth + 1)});
                if (rest->isZero()) return remaining;
                return node(Kind::add, width, {expression(rest, block, scope, depth + 1), remaining});
            }
        }
        return nullptr;
    }

    Operand computed(llvm::Value *what, unsigned width, const llvm::BasicBlock *block, const llvm::Loop *scope,
                     unsigned depth) {
        const Operand unknown = leaf(Kind::unknown, width);
        const auto part = [&](llvm::Value *operand) { return value(operand, block, scope, depth + 1); };
        if (const auto *argument = llvm::dyn_cast<llvm::Argument>(what)) {
            return width >= 8 ? leaf(Kind::immediate, width, argument->getArgNo()) : unknown;
        }
        const auto *instruction = llvm::dyn_cast<llvm::Instruction>(what);
        if (instruction == nullptr || depth > most_depth) return unknown;
        if (auto *element = llvm::dyn_cast<llvm::ExtractElementInst>(what)) {
            const auto *argument = llvm::dyn_cast<llvm::Argument>(element->getVectorOperand());
            const auto *index = llvm::dyn_cast<llvm::ConstantInt>(element->getIndexOperand());
            if (argument == nullptr || index == nullptr || width < 8) return unknown;
            return leaf(Kind::immediate, width, argument->getArgNo(),
                        static_cast<unsigned>(index->getZExtValue()) * width / 8);
        }
        if (auto *load = llvm::dyn_cast<llvm::LoadInst>(what)) return loaded(*load, width);
        if (auto *call = llvm::dyn_cast<llvm::CallBase>(what)) return called(*call, width, part);
        if (auto *freeze = llvm::dyn_cast<llvm::FreezeInst>(what)) return part(freeze->getOperand(0));
        if (auto *choice = llvm::dyn_cast<llvm::SelectInst>(what)) {
            const Operand yes = part(choice->getTrueValue());
            const Operand no = part(choice->getFalseValue());
            auto *compare = llvm::dyn_cast<llvm::ICmpInst>(choice->getCondition());
            if (compare != nullptr && compare->getOperand(0)->getType()->isIntegerTy()) {
                if (const Operand said = comparison(*compare, true, block))
                    return node(Kind::select, width, {said, yes, no});
            }
            return node(Kind::hull, width, {yes, no});
        }
        if (auto *phi = llvm::dyn_cast<llvm::PHINode>(what)) {
            if (loops_.isLoopHeader(phi->getParent())) return unknown;
            std::vector<Operand> operands;
            for (llvm::Value *incoming : phi->incoming_values()) operands.push_back(part(incoming));
            return node(Kind::hull, width, std::move(operands));
        }
        const auto two = [&](Kind kind) {
            return node(kind, width, {part(instruction->getOperand(0)), part(instruction->getOperand(1))});
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
            default: return unknown;
        }
    }

    /// A part of a structure that is an argument by value, which the kernel does not change.
    Operand loaded(llvm::LoadInst &load, unsigned width) {
        const Operand unknown = leaf(Kind::unknown, width);
        llvm::APInt offset(layout_.getIndexTypeSizeInBits(load.getPointerOperand()->getType()), 0);
        const llvm::Value *base = load.getPointerOperand()->stripAndAccumulateConstantOffsets(layout_, offset, true);
        const auto *argument = llvm::dyn_cast<llvm::Argument>(base);
        if (argument == nullptr || !argument->hasByValAttr() || width < 8 || offset.isNegative()) return unknown;
        if (!only_read(argument)) return unknown;
        return leaf(Kind::immediate, width, argument->getArgNo(), static_cast<unsigned>(offset.getZExtValue()));
    }
    static bool only_read(const llvm::Value *pointer) {
        return std::all_of(pointer->user_begin(), pointer->user_end(), [&](const llvm::User *user) {
            if (llvm::isa<llvm::LoadInst>(user)) return true;
            if (llvm::isa<llvm::GetElementPtrInst>(user) || llvm::isa<llvm::BitCastInst>(user)) return only_read(user);
            if (const auto *transfer = llvm::dyn_cast<llvm::MemTransferInst>(user))
                return transfer->getRawDest() != pointer;
            const auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(user);
            return call != nullptr && call->isLifetimeStartOrEnd();
        });
    }

    template <typename Part>
    Operand called(llvm::CallBase &call, unsigned width, const Part &part) {
        const Operand unknown = leaf(Kind::unknown, width);
        const llvm::Function *callee = call.getCalledFunction();
        if (callee == nullptr || !callee->isDeclaration()) return unknown;
        const auto [name, parameters] = demangled(callee->getName().str());
        if (name == "get_work_dim") return leaf(Kind::work_dim, width);
        const auto id = [](Kind kind, int dimension) { return leaf(kind, 64, dimension); };
        const auto linear = [&](const auto &of, Kind size) {
            const auto above = [&](int dimension, const Operand &outer) {
                return node(Kind::add, 64, {of(dimension), node(Kind::mul, 64, {outer, id(size, dimension)})});
            };
            return above(0, above(1, of(2)));
        };
        if (name == "get_global_linear_id") {
            return linear(
                [&](int d) {
                    return node(
                        Kind::add, 64,
                        {id(Kind::global_id, d), node(Kind::mul, 64, {constant(-1), id(Kind::global_offset, d)})});
                },
                Kind::global_size);
        }
        if (name == "get_local_linear_id")
            return linear([&](int d) { return id(Kind::local_id, d); }, Kind::local_size);
        static const std::map<std::string, Kind> by_dimension{
            {"get_global_id", Kind::global_id},   {"get_group_id", Kind::group_id},
            {"get_local_id", Kind::local_id},     {"get_global_size", Kind::global_size},
            {"get_local_size", Kind::local_size}, {"get_enqueued_local_size", Kind::enqueued_local_size},
            {"get_num_groups", Kind::num_groups}, {"get_global_offset", Kind::global_offset}};
        if (const auto found = by_dimension.find(name); found != by_dimension.end() && call.arg_size() == 1) {
            const auto *dimension = llvm::dyn_cast<llvm::ConstantInt>(call.getArgOperand(0));
            if (dimension == nullptr || dimension->getZExtValue() > 2) return unknown;
            return leaf(found->second, width, static_cast<std::int64_t>(dimension->getZExtValue()));
        }
        if (parameters.empty()) return unknown;
        const bool with_sign =
            parameters[0] == 'i' || parameters[0] == 'l' || parameters[0] == 's' || parameters[0] == 'c';
        const Kind least = with_sign ? Kind::smin : Kind::umin;
        const Kind most = with_sign ? Kind::smax : Kind::umax;
        const auto operand = [&](unsigned i) { return part(call.getArgOperand(i)); };
        if (name == "min" && call.arg_size() == 2) return node(least, width, {operand(0), operand(1)});
        if (name == "max" && call.arg_size() == 2) return node(most, width, {operand(0), operand(1)});
        return unknown;
    }

    llvm::Function &function_;
    llvm::ScalarEvolution &evolution_;
    llvm::LoopInfo &loops_;
    llvm::DominatorTree &dominators_;
    llvm::PostDominatorTree &post_dominators_;
    const llvm::DataLayout &layout_;
    KernelDescription kernel_;
    std::map<const llvm::BasicBlock *, Reached> reached_;
    std::map<const llvm::Loop *, unsigned> counters_;
};

}  // namespace

namespace {

/// Puts calls of work-item functions in front of all else, one of each: ScalarEvolution then sees that they are the same
/// everywhere.
void gather_work_item_calls(llvm::Function &function) {
    std::map<std::pair<const llvm::Function *, const llvm::Value *>, llvm::CallInst *> first;
    for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
        auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
        if (call == nullptr || call->getCalledFunction() == nullptr) continue;
        const std::string name = demangled(call->getCalledFunction()->getName().str()).first;
        if (!starts_with(name, "get_") || call->arg_size() > 1 || !call->getType()->isIntegerTy()) continue;
        const llvm::Value *dimension = call->arg_size() == 0 ? nullptr : call->getArgOperand(0);
        if (dimension != nullptr && !llvm::isa<llvm::ConstantInt>(dimension)) continue;
        const auto [at, is_first] = first.try_emplace({call->getCalledFunction(), dimension}, call);
        if (is_first) {
            call->moveBefore(function.getEntryBlock(), function.getEntryBlock().getFirstInsertionPt());
        } else {
            call->replaceAllUsesWith(at->second);
            call->eraseFromParent();
        }
    }
}

}  // namespace

Descriptions derive(llvm::Module &module) {
    for (llvm::Function &function : module) {
        if (function.isDeclaration()) continue;
        function.removeFnAttr(llvm::Attribute::NoInline);
        function.removeFnAttr(llvm::Attribute::OptimizeNone);
        function.addFnAttr(llvm::Attribute::AlwaysInline);
    }
    llvm::LoopAnalysisManager loop_analyses;
    llvm::FunctionAnalysisManager function_analyses;
    llvm::CGSCCAnalysisManager graph_analyses;
    llvm::ModuleAnalysisManager module_analyses;
    llvm::PassBuilder builder;
    builder.registerModuleAnalyses(module_analyses);
    builder.registerCGSCCAnalyses(graph_analyses);
    builder.registerFunctionAnalyses(function_analyses);
    builder.registerLoopAnalyses(loop_analyses);
    builder.crossRegisterProxies(loop_analyses, function_analyses, graph_analyses, module_analyses);
    // What ScalarEvolution wants, and nothing that moves accesses or changes loops.
    const auto run = [&](const char *passes) {
        llvm::ModulePassManager manager;
        llvm::cantFail(builder.parsePassPipeline(manager, passes));
        manager.run(module, module_analyses);
    };
    run("always-inline,function(sroa,early-cse)");
    for (llvm::Function &function : module) {
        if (!function.isDeclaration()) gather_work_item_calls(function);
    }
    module_analyses.clear();
    function_analyses.clear();
    run("function(early-cse,simplifycfg,sroa,early-cse,instsimplify,loop-simplify)");

    Descriptions kernels;
    for (llvm::Function &function : module) {
        if (function.isDeclaration() || function.getCallingConv() != llvm::CallingConv::SPIR_KERNEL) continue;
        KernelDescription kernel = Analysis(function, function_analyses).describe();
        kernels.emplace(kernel.name, std::move(kernel));
    }
    return kernels;
}

}  // namespace cldist::analysis
