#include <algorithm>
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
#include "analysis/builtins.hpp"
#include "analysis/names.hpp"
#include "analysis/reached.hpp"
#include "analysis/source_lines.hpp"
#include "analysis/values.hpp"

namespace cldist::analysis {

using namespace splitting;

namespace {

namespace space {
constexpr unsigned private_memory = 0;
constexpr unsigned global = 1;
constexpr unsigned constant = 2;
constexpr unsigned local = 3;
}  // namespace space

const char *const access_functions =
    "write access functions for it (clSetKernelAccessFunctions), or make its indices sums of ids, "
    "loop counters and arguments";

constexpr std::size_t most_nodes = 2000;  // size limit for the expressions of one access

class Analysis {
public:
    Analysis(llvm::Function &function, llvm::FunctionAnalysisManager &manager,
             const SourceLines &source)
        : function_(function),
          source_(source),
          evolution_(manager.getResult<llvm::ScalarEvolutionAnalysis>(function)),
          loops_(manager.getResult<llvm::LoopAnalysis>(function)),
          dominators_(manager.getResult<llvm::DominatorTreeAnalysis>(function)),
          layout_(function.getParent()->getDataLayout()),
          values_(evolution_, loops_, layout_),
          reach_(values_, evolution_, loops_, dominators_,
                 manager.getResult<llvm::PostDominatorTreeAnalysis>(function)) {}

    KernelDescription describe() {
        kernel_.name = function_.getName().str();
        arguments();
        const llvm::ReversePostOrderTraversal<const llvm::Function *> order(&function_);
        if (llvm::containsIrreducibleCFG<const llvm::BasicBlock *>(order, loops_))
            refuse("its control flow is not structured (goto)");
        for (llvm::Instruction &instruction : llvm::instructions(function_)) {
            if (!kernel_.why_not.empty()) break;
            if (dominators_.isReachableFromEntry(instruction.getParent())) look_at(instruction);
        }
        if (!kernel_.why_not.empty()) kernel_.accesses.clear();
        return std::move(kernel_);
    }

private:
    // ---- Properties of the kernel

    void refuse(const std::string &why, const llvm::Instruction *where = nullptr,
                const std::string &advice = access_functions) {
        if (!kernel_.why_not.empty()) return;
        kernel_.why_not = why + at_line(where);
        kernel_.advice = advice;
    }

    static unsigned line_of(const llvm::Instruction &instruction) {
        return instruction.getDebugLoc() ? instruction.getDebugLoc().getLine() : 0;
    }
    static std::string at_line(const llvm::Instruction *where) {
        return where != nullptr && line_of(*where) != 0
                   ? " (line " + std::to_string(line_of(*where)) + ")"
                   : "";
    }

    void arguments() {
        const llvm::MDNode *types = function_.getMetadata("kernel_arg_base_type");
        for (const llvm::Argument &argument : function_.args()) {
            const unsigned index = argument.getArgNo();
            ArgumentDescription described;
            described.name =
                argument.hasName() ? argument.getName().str() : "argument " + std::to_string(index);
            if (argument.getType()->isPointerTy() && !argument.hasByValAttr()) {
                const unsigned memory = argument.getType()->getPointerAddressSpace();
                described.buffer = memory == space::global || memory == space::constant;
            }
            if (types != nullptr && index < types->getNumOperands()) {
                const std::string type =
                    llvm::cast<llvm::MDString>(types->getOperand(index))->getString().str();
                if (type.starts_with("sampler")) described.buffer = false;
                for (const char *kind : {"image", "queue_t", "clk_event_t", "reserve_id_t"}) {
                    if (type.starts_with(kind))
                        refuse(described.name + " is of type " + type, nullptr,
                               "use a buffer instead");
                }
            }
            if (const llvm::MDNode *qualifiers = function_.getMetadata("kernel_arg_type_qual");
                qualifiers != nullptr && index < qualifiers->getNumOperands() &&
                llvm::cast<llvm::MDString>(qualifiers->getOperand(index))
                    ->getString()
                    .contains("pipe")) {
                refuse(described.name + " is a pipe", nullptr, "use a buffer instead");
            }
            kernel_.arguments.push_back(std::move(described));
        }
    }

    void look_at(llvm::Instruction &instruction) {
        values_.begin_work();
        if (auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) {
            if (load->isAtomic()) return atomic(*load, load->getPointerOperand());
            access(*load, load->getPointerOperand(), store_size(load->getType()), false);
        } else if (auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction)) {
            if (store->isAtomic()) return atomic(*store, store->getPointerOperand());
            access(*store, store->getPointerOperand(),
                   store_size(store->getValueOperand()->getType()), true);
        } else if (auto *update = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction)) {
            atomic(*update, update->getPointerOperand());
        } else if (auto *exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&instruction)) {
            atomic(*exchange, exchange->getPointerOperand());
        } else if (auto *call = llvm::dyn_cast<llvm::CallBase>(&instruction)) {
            look_at_call(*call);
        } else if (instruction.mayReadOrWriteMemory() && !llvm::isa<llvm::FenceInst>(instruction)) {
            refuse(std::string("it has an instruction that cldist does not understand, ") +
                       instruction.getOpcodeName(),
                   &instruction);
        }
    }

    Operand store_size(llvm::Type *type) const {
        return constant(static_cast<std::int64_t>(layout_.getTypeStoreSize(type)));
    }

    void look_at_call(llvm::CallBase &call) {
        const llvm::Function *callee = call.getCalledFunction();
        if (callee == nullptr) return refuse("it calls an unknown function", &call);
        if (auto *transfer = llvm::dyn_cast<llvm::MemTransferInst>(&call)) {
            const Operand bytes = values_.value(transfer->getLength(), call.getParent());
            access(call, transfer->getRawSource(), bytes, false);
            return access(call, transfer->getRawDest(), bytes, true);
        }
        if (auto *set = llvm::dyn_cast<llvm::MemSetInst>(&call)) {
            return access(call, set->getRawDest(),
                          values_.value(set->getLength(), call.getParent()), true);
        }
        if (callee->isIntrinsic()) {
            if (touches_buffers(call)) refuse("it calls " + callee->getName().str(), &call);
            return;
        }
        const auto [name, parameters] = demangled(callee->getName().str());
        if (!callee->isDeclaration())
            return refuse("it calls " + name + ", which calls itself", &call);
        if (name == "printf")
            return refuse("it calls printf, and cldist cannot keep the order of the output", &call,
                          "remove printf");
        if (parameters.empty()) return refuse("it calls " + name + ", which is unknown", &call);
        if (name.starts_with("atomic_") || name.starts_with("atom_")) {
            for (llvm::Value *operand : call.args()) {
                if (operand->getType()->isPointerTy()) atomic(call, operand);
            }
            return;
        }
        if (name == "prefetch" || name == "wait_group_events") return;
        if (name.starts_with("vload") || name.starts_with("vstore"))
            return vector_access(call, name);
        if (name == "async_work_group_copy") {
            const std::uint64_t size = pointee_size(parameters);
            if (size == 0) return refuse("it calls " + name, &call);
            const Operand bytes = node(Kind::mul, 64,
                                       {constant(static_cast<std::int64_t>(size)),
                                        values_.value(call.getArgOperand(2), call.getParent())});
            access(call, call.getArgOperand(1), bytes, false);
            return access(call, call.getArgOperand(0), bytes, true);
        }
        if (touches_buffers(call))
            refuse("it calls " + name + " with a pointer to global memory", &call);
    }

    static bool touches_buffers(const llvm::CallBase &call) {
        return std::any_of(call.arg_begin(), call.arg_end(), [](const llvm::Use &operand) {
            if (!operand->getType()->isPtrOrPtrVectorTy()) return false;
            // Since OpenCL 2, built-in functions take generic pointers, even to private variables.
            const llvm::Value *const pointer =
                operand->getType()->isPointerTy() ? operand->stripInBoundsOffsets() : operand.get();
            const unsigned memory = pointer->getType()->getPointerAddressSpace();
            return memory != space::private_memory && memory != space::local;
        });
    }

    void vector_access(llvm::CallBase &call, const std::string &name) {
        const bool written = name.starts_with("vstore");
        const bool aligned = name.starts_with("vloada") || name.starts_with("vstorea");
        const bool half = name.find("_half") != std::string::npos;
        const unsigned first = written ? 1 : 0;
        if (call.arg_size() < first + 2) return refuse("it calls " + name, &call);
        llvm::Type *type = written ? call.getArgOperand(0)->getType() : call.getType();
        const auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
        const std::int64_t count = vector == nullptr ? 1 : vector->getNumElements();
        const std::int64_t element =
            half ? 2 : static_cast<std::int64_t>(layout_.getTypeStoreSize(type->getScalarType()));
        const std::int64_t distance = element * (aligned && count == 3 ? 4 : count);
        const Operand index = values_.value(call.getArgOperand(first), call.getParent());
        llvm::Value *const pointer = call.getArgOperand(first + 1);
        const Operand offset = node(Kind::mul, 64, {constant(distance), index});
        access(call, pointer, constant(written ? element * count : distance), written, offset);
        // Some devices write the fourth element, too.
        if (written && distance > element * count)
            access(call, pointer, constant(distance), true, offset, false);
    }

    // ---- Accesses

    struct Place {
        llvm::Value *base = nullptr;
        std::vector<Operand> offset;
    };

    /// The memory that a pointer refers to, as seen from a block. Without a base if it is unknown.
    Place place_of(llvm::Value *pointer, const llvm::BasicBlock *block) {
        Place place;
        for (unsigned depth = 0; depth < most_depth; ++depth) {
            const llvm::SCEV *address =
                evolution_.getSCEVAtScope(pointer, loops_.getLoopFor(block));
            const llvm::SCEV *base = evolution_.getPointerBase(address);
            const auto *unknown = llvm::dyn_cast<llvm::SCEVUnknown>(base);
            if (unknown == nullptr) return {};
            const llvm::SCEV *offset = evolution_.getMinusSCEV(address, base);
            if (llvm::isa<llvm::SCEVCouldNotCompute>(offset)) return {};
            place.offset.push_back(values_.expression(offset, block));
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

    /// Returns true for memory that other work-groups can't access.
    static bool own_memory(const llvm::Value *base) {
        const unsigned memory = base->getType()->getPointerAddressSpace();
        return memory == space::private_memory || memory == space::local;
    }

    void atomic(llvm::Instruction &instruction, llvm::Value *pointer) {
        const Place place = place_of(pointer, instruction.getParent());
        if (place.base == nullptr || !own_memory(place.base))
            refuse("it has atomic operations on global memory", &instruction,
                   "let each work-group combine its values in local memory and write one result");
    }

    void access(llvm::Instruction &instruction, llvm::Value *pointer, const Operand &bytes,
                bool written, const Operand &more = nullptr, bool sure = true) {
        const llvm::BasicBlock *block = instruction.getParent();
        if (own_memory(pointer)) return;
        values_.take_reason();
        Place place = place_of(pointer, block);
        const std::string reason = values_.take_reason();
        if (place.base != nullptr && own_memory(place.base)) return;
        if (const auto *variable = llvm::dyn_cast_or_null<llvm::GlobalVariable>(place.base)) {
            if (!variable->isConstant())
                refuse("it uses " + variable->getName().str() + ", which launches share",
                       &instruction, "pass a buffer as an argument instead");
            return;
        }
        const auto *argument = llvm::dyn_cast_or_null<llvm::Argument>(place.base);
        if (argument == nullptr || !kernel_.arguments[argument->getArgNo()].buffer) {
            if (written)
                return refuse("cldist cannot determine to which argument a written pointer belongs",
                              &instruction, "write to each argument by its own name, inside an if");
            for (std::size_t i = 0; i < kernel_.arguments.size(); ++i) {
                if (kernel_.arguments[i].buffer)
                    whole(i, "cldist cannot determine to which argument a pointer belongs",
                          instruction);
            }
            return;
        }
        AccessDescription access;
        access.argument = argument->getArgNo();
        access.written = written;
        access.line = line_of(instruction);
        access.text = text_of_access(instruction, pointer);
        access.bytes = bytes;
        if (more != nullptr) place.offset.push_back(more);
        access.offset =
            place.offset.size() == 1 ? place.offset[0] : node(Kind::add, 64, place.offset);
        const Reached &reached = reach_.when(block);
        access.conditions = reached.conditions;
        std::size_t size = nodes(*access.offset, most_nodes) + nodes(*bytes, most_nodes);
        for (const Operand &condition : access.conditions) size += nodes(*condition, most_nodes);
        const bool small = size <= most_nodes;
        const auto has_gaps = [&](const Operand &operand) { return values_.has_gaps(*operand); };
        access.certain = small && sure && reached.certain && !has_gaps(access.offset) &&
                         !has_gaps(bytes) &&
                         std::none_of(access.conditions.begin(), access.conditions.end(), has_gaps);
        if (!small || !bounded(*access.offset) || !bounded(*bytes)) {
            const std::string &name = kernel_.arguments[access.argument].name;
            const std::string why =
                !small           ? "the expression of an index is too large"
                : reason.empty() ? "the number of bytes that it reads or writes depends on data"
                                 : reason;
            if (written)
                return refuse("cldist cannot determine where it writes in " + name + ": " + why,
                              &instruction);
            return whole(access.argument, why, instruction);
        }
        kernel_.accesses.push_back(std::move(access));
    }

    std::string text_of_access(const llvm::Instruction &instruction,
                               const llvm::Value *pointer) const {
        const auto *address = llvm::dyn_cast<llvm::Instruction>(pointer);
        const bool is_call = llvm::isa<llvm::CallBase>(instruction);
        const llvm::DebugLoc &place = !is_call && address != nullptr && address->getDebugLoc()
                                          ? address->getDebugLoc()
                                          : instruction.getDebugLoc();
        if (!place || place.getLine() != line_of(instruction)) return {};
        return source_.access_at(place->getFilename().str(), place.getLine(), place.getCol());
    }

    void whole(std::size_t argument, const std::string &why, const llvm::Instruction &where) {
        std::string &reason = kernel_.arguments[argument].why_whole;
        if (reason.empty()) reason = why + at_line(&where);
    }

    llvm::Function &function_;
    const SourceLines &source_;
    llvm::ScalarEvolution &evolution_;
    llvm::LoopInfo &loops_;
    llvm::DominatorTree &dominators_;
    const llvm::DataLayout &layout_;
    Values values_;
    Reach reach_;
    KernelDescription kernel_;
};

}  // namespace

Descriptions derive(llvm::Module &module, const std::string &source) {
    const SourceLines lines(source);
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
    // Passes that ScalarEvolution needs. They neither move accesses nor change loops.
    const auto run = [&](const char *passes) {
        llvm::ModulePassManager manager;
        llvm::cantFail(builder.parsePassPipeline(manager, passes));
        manager.run(module, module_analyses);
    };
    run("always-inline,function(sroa,early-cse)");
    llvm::FunctionPassManager unroll;
    llvm::cantFail(builder.parsePassPipeline(
        unroll,
        "loop-simplify,lcssa,loop(loop-unroll-full),sroa,early-cse,instsimplify,simplifycfg"));
    for (llvm::Function &function : module) {
        if (function.isDeclaration()) continue;
        // Unrolls loops over dimensions, so that each dimension is a constant.
        if (asks_for_any_dimension(function)) {
            // Removes metadata with which clang forbids unrolling at -O1.
            for (llvm::BasicBlock &block : function)
                block.getTerminator()->setMetadata(llvm::LLVMContext::MD_loop, nullptr);
            unroll.run(function, function_analyses);
        }
        lower_builtins(function);
        gather_work_item_calls(function);
    }
    module_analyses.clear();
    function_analyses.clear();
    run("function(early-cse,scalarizer,simplifycfg,sroa,early-cse,instsimplify,loop-simplify)");

    Descriptions kernels;
    for (llvm::Function &function : module) {
        if (function.isDeclaration() || function.getCallingConv() != llvm::CallingConv::SPIR_KERNEL)
            continue;
        KernelDescription kernel = Analysis(function, function_analyses, lines).describe();
        kernels.emplace(kernel.name, std::move(kernel));
    }
    return kernels;
}

}  // namespace cldist::analysis
