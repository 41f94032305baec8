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
    global_id,  ///< and what follows, up to work_dim: of dimension `value`
    group_id,
    local_id,
    global_size,
    local_size,
    enqueued_local_size,
    num_groups,
    global_offset,
    work_dim,
    counter,  ///< how often the body of loop `value` was run before, in its present run
    unknown,
    add,
    sum,  ///< an addition that is known not to pass the range of its width
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
    select,  ///< operands: a condition, the value if it holds, the value if not
    hull,    ///< one of its operands
    eq,      ///< and what follows: conditions
    ne,
    slt,
    sle,
    ult,
    ule,
    stops,  ///< operands: counter, start, step, end. The loop goes on only while start + step * counter is below the end, compared with
            ///< a sign if `value` is 1; it follows, and restricts nothing
};

struct Expression;
using Operand = std::shared_ptr<const Expression>;

/// What a kernel computes with whole numbers. Values are those of `width` bits, taken as signed; what passes their range wraps
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

/// Whether it has a part of this kind.
bool has(const Expression &expression, Kind kind);

/// As text that parse_expression() takes: "(add 64 (global_id 64 0) (constant 64 1))".
std::string text_of(const Expression &expression);
/// Takes it from the beginning of `text`. Throws std::invalid_argument if it is none.
Operand parse_expression(std::string_view &text);

/// For readers: "4*(get_global_id(0) + n)". Immediates have the names of `arguments`.
std::string readable(const Expression &expression, const std::vector<std::string> &arguments);

}  // namespace cldist::splitting
