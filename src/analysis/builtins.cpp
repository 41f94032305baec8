#include "analysis/builtins.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Intrinsics.h>

#include "analysis/names.hpp"

namespace cldist::analysis {

namespace {

/// Name and parameters of the called function. Without parameters if it is not built in.
std::pair<std::string, std::string> builtin_of(const llvm::CallInst &call) {
    const llvm::Function *const callee = call.getCalledFunction();
    if (callee == nullptr || !callee->isDeclaration() || callee->isIntrinsic()) return {};
    return demangled(callee->getName().str());
}

bool is_of_dimension(const std::string &name) {
    static constexpr std::array<const char *, 8> names = {
        "get_global_id",   "get_local_id",     "get_group_id",
        "get_global_size", "get_local_size",   "get_enqueued_local_size",
        "get_num_groups",  "get_global_offset"};
    return std::any_of(names.begin(), names.end(), [&](const char *one) { return name == one; });
}

bool asks_for_any_dimension(const llvm::CallInst &call) {
    return is_of_dimension(builtin_of(call).first) && call.arg_size() == 1 &&
           call.getType()->isIntegerTy() && !llvm::isa<llvm::ConstantInt>(call.getArgOperand(0));
}

llvm::Value *of_any_dimension(llvm::CallInst &call, const std::string &name,
                              llvm::IRBuilder<> &builder) {
    llvm::Value *const dimension = call.getArgOperand(0);
    const bool is_size = name.find("_size") != std::string::npos || name == "get_num_groups";
    llvm::Value *value = llvm::ConstantInt::get(call.getType(), is_size ? 1 : 0);
    for (int d = 2; d >= 0; --d) {
        llvm::Value *const which =
            llvm::ConstantInt::get(dimension->getType(), static_cast<std::uint64_t>(d));
        llvm::CallInst *const there =
            builder.CreateCall(call.getFunctionType(), call.getCalledOperand(), {which});
        there->setCallingConv(call.getCallingConv());
        there->setAttributes(call.getAttributes());
        value = builder.CreateSelect(builder.CreateICmpEQ(dimension, which), there, value);
    }
    return value;
}

/// Replaces the call by instructions. Returns null if the function is unknown.
llvm::Value *lowered(llvm::CallInst &call) {
    const auto [name, parameters] = builtin_of(call);
    if (parameters.empty()) return nullptr;
    llvm::IRBuilder<> builder(&call);
    if (asks_for_any_dimension(call)) return of_any_dimension(call, name, builder);
    llvm::Type *const type = call.getType();
    if (!type->isIntOrIntVectorTy() || call.arg_size() == 0) return nullptr;
    for (const llvm::Use &operand : call.args())
        if (!operand->getType()->isIntOrIntVectorTy()) return nullptr;
    const bool with_sign = is_signed(parameters);
    if (name.starts_with("convert_") && name.find("_sat") == std::string::npos &&
        call.arg_size() == 1)
        return builder.CreateIntCast(call.getArgOperand(0), type, with_sign);
    const auto *const vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
    // A vector function may take a scalar operand, which applies to all elements.
    const auto operand = [&](unsigned i) {
        llvm::Value *const value = call.getArgOperand(i);
        return vector == nullptr || value->getType()->isVectorTy()
                   ? value
                   : builder.CreateVectorSplat(vector->getNumElements(), value);
    };
    const auto least = [&](llvm::Value *a, llvm::Value *b) {
        return builder.CreateBinaryIntrinsic(
            with_sign ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, a, b);
    };
    const auto most = [&](llvm::Value *a, llvm::Value *b) {
        return builder.CreateBinaryIntrinsic(
            with_sign ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, a, b);
    };
    const std::size_t count = call.arg_size();
    // For numbers with more than 24 bits the result is undefined.
    if (name == "mul24" && count == 2) return builder.CreateMul(operand(0), operand(1));
    if (name == "mad24" && count == 3)
        return builder.CreateAdd(builder.CreateMul(operand(0), operand(1)), operand(2));
    if (name == "min" && count == 2) return least(operand(0), operand(1));
    if (name == "max" && count == 2) return most(operand(0), operand(1));
    if (name == "clamp" && count == 3) return least(most(operand(0), operand(1)), operand(2));
    if (name == "abs" && count == 1)
        return with_sign ? most(operand(0), builder.CreateNeg(operand(0))) : operand(0);
    if (name == "select" && count == 3) {
        llvm::Value *const choice = operand(2);
        llvm::Value *const zero = llvm::Constant::getNullValue(choice->getType());
        return builder.CreateSelect(vector == nullptr ? builder.CreateICmpNE(choice, zero)
                                                      : builder.CreateICmpSLT(choice, zero),
                                    operand(1), operand(0));
    }
    return nullptr;
}

}  // namespace

bool asks_for_any_dimension(llvm::Function &function) {
    for (const llvm::Instruction &instruction : llvm::instructions(function))
        if (const auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
            call != nullptr && asks_for_any_dimension(*call))
            return true;
    return false;
}

void lower_builtins(llvm::Function &function) {
    for (llvm::Instruction &instruction :
         llvm::make_early_inc_range(llvm::instructions(function))) {
        auto *const call = llvm::dyn_cast<llvm::CallInst>(&instruction);
        if (call == nullptr) continue;
        llvm::Value *const value = lowered(*call);
        if (value == nullptr || value->getType() != call->getType()) continue;
        call->replaceAllUsesWith(value);
        call->eraseFromParent();
    }
}

void gather_work_item_calls(llvm::Function &function) {
    std::map<std::pair<const llvm::Function *, const llvm::Value *>, llvm::CallInst *> first;
    for (llvm::Instruction &instruction :
         llvm::make_early_inc_range(llvm::instructions(function))) {
        auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
        if (call == nullptr || call->getCalledFunction() == nullptr) continue;
        const std::string name = demangled(call->getCalledFunction()->getName().str()).first;
        if (!name.starts_with("get_") || call->arg_size() > 1 || !call->getType()->isIntegerTy())
            continue;
        const llvm::Value *dimension = call->arg_size() == 0 ? nullptr : call->getArgOperand(0);
        if (dimension != nullptr && !llvm::isa<llvm::ConstantInt>(dimension)) continue;
        const auto [at, is_first] = first.try_emplace({call->getCalledFunction(), dimension}, call);
        if (is_first) {
            call->moveBefore(function.getEntryBlock(),
                             function.getEntryBlock().getFirstInsertionPt());
        } else {
            call->replaceAllUsesWith(at->second);
            call->eraseFromParent();
        }
    }
}

}  // namespace cldist::analysis
