#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cldist::splitting {

enum class Kind {
    constant,
    immediate,  ///< `width` / 8 bytes of argument `value`, from byte `offset`
    global_id,  ///< of dimension `value`, like the following kinds up to work_dim
    group_id,
    local_id,
    global_size,
    local_size,
    enqueued_local_size,
    num_groups,
    global_offset,
    work_dim,
    counter,  ///< previous rounds of loop `value` in its current execution
    unknown,
    add,
    sum,  ///< an addition that can't overflow its width
    mul,
    udiv,
    sdiv,
    urem,
    srem,
    bit_and,
    bit_or,
    bit_xor,
    shl,
    lshr,
    ashr,
    smin,
    smax,
    umin,
    umax,
    zext,
    sext,
    trunc,
    select,  ///< operands: condition, value if it holds, value otherwise
    hull,    ///< any value between its operands
    eq,      ///< from here on conditions
    ne,
    slt,
    sle,
    ult,
    ule,
    /// Operands: counter, start, step, end. The loop continues only while start + step * counter is
    /// below the end. The comparison is signed if `value` is 1. The condition follows from others
    /// and does not restrict the work-items.
    stops,
};

struct Expression;
using Operand = std::shared_ptr<const Expression>;

/// A whole number that a kernel computes. Values have `width` bits and are signed. They wrap
/// around, except in a product of width 0.
struct Expression {
    Kind kind = Kind::unknown;
    unsigned width = 64;
    std::int64_t value = 0;
    unsigned offset = 0;
    std::vector<Operand> operands{};
};

Operand constant(std::int64_t value, unsigned width = 64);
Operand leaf(Kind kind, unsigned width, std::int64_t value = 0, unsigned offset = 0);
Operand node(Kind kind, unsigned width, std::vector<Operand> operands, std::int64_t value = 0);

/// Returns true if the expression contains this kind.
bool has(const Expression &expression, Kind kind);

/// The text form for parse_expression(), for example "(add 64 (global_id 64 0) (constant 64 1))".
std::string text_of(const Expression &expression);
/// Remove a number or an expression from the start of `text`. Throw std::invalid_argument if there
/// is none.
unsigned take_number(std::string_view &text);
Operand parse_expression(std::string_view &text);

/// For users, for example "4*(get_global_id(0) + n)". Immediates have the names in `arguments`.
std::string readable(const Expression &expression, const std::vector<std::string> &arguments);

}  // namespace cldist::splitting
