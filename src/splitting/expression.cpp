#include "splitting/expression.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>
#include <utility>

namespace cldist::splitting {

namespace {

constexpr std::array names{"constant",   "immediate",
                           "global_id",  "group_id",
                           "local_id",   "global_size",
                           "local_size", "enqueued_local_size",
                           "num_groups", "global_offset",
                           "work_dim",   "counter",
                           "unknown",    "add",
                           "sum",        "mul",
                           "udiv",       "sdiv",
                           "urem",       "srem",
                           "and",        "or",
                           "xor",        "shl",
                           "lshr",       "ashr",
                           "smin",       "smax",
                           "umin",       "umax",
                           "zext",       "sext",
                           "trunc",      "select",
                           "hull",       "eq",
                           "ne",         "slt",
                           "sle",        "ult",
                           "ule",        "stops"};
static_assert(names.size() == static_cast<std::size_t>(Kind::stops) + 1);

constexpr std::size_t most_depth = 200;

bool is_leaf(Kind kind) { return kind <= Kind::unknown; }
bool has_value(Kind kind) { return is_leaf(kind) || kind == Kind::stops; }

std::string_view word(std::string_view &text) {
    const auto begin = text.find_first_not_of(" \n");
    text.remove_prefix(std::min(begin, text.size()));
    const std::size_t length = !text.empty() && (text[0] == '(' || text[0] == ')')
                                   ? 1
                                   : std::min(text.find_first_of(" \n()"), text.size());
    const auto taken = text.substr(0, length);
    text.remove_prefix(length);
    return taken;
}

template <typename Number>
Number number(std::string_view &text) {
    const auto digits = word(text);
    Number parsed{};
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), parsed);
    if (error != std::errc() || end != digits.data() + digits.size()) {
        throw std::invalid_argument("expected a number, got \"" + std::string(digits) + "\"");
    }
    return parsed;
}

Operand parse(std::string_view &text, std::size_t depth) {
    if (depth > most_depth) throw std::invalid_argument("an expression is nested too deeply");
    if (const auto open = word(text); open != "(") {
        throw std::invalid_argument("expected an expression, got \"" + std::string(open) + "\"");
    }
    const auto name = word(text);
    const auto *const found = std::ranges::find(names, name);
    if (found == names.end())
        throw std::invalid_argument("unknown expression: \"" + std::string(name) + "\"");
    Expression expression;
    expression.kind = static_cast<Kind>(found - names.begin());
    expression.width = number<unsigned>(text);
    if (is_leaf(expression.kind)) {
        expression.value = number<std::int64_t>(text);
        if (expression.kind == Kind::immediate) expression.offset = number<unsigned>(text);
        if (word(text) != ")")
            throw std::invalid_argument("\")\" was expected behind \"" + std::string(name) + "\"");
    } else {
        if (has_value(expression.kind)) expression.value = number<std::int64_t>(text);
        for (;;) {
            auto rest = text;
            if (word(rest) == ")") {
                text = rest;
                break;
            }
            expression.operands.push_back(parse(text, depth + 1));
        }
        const std::size_t count = expression.operands.size();
        const bool right = expression.kind == Kind::stops    ? count == 4
                           : expression.kind == Kind::select ? count == 3
                           : expression.kind == Kind::add || expression.kind == Kind::sum ||
                                   expression.kind == Kind::mul || expression.kind == Kind::hull ||
                                   (expression.kind >= Kind::smin && expression.kind <= Kind::umax)
                               ? count >= 1
                           : expression.kind >= Kind::zext && expression.kind <= Kind::trunc
                               ? count == 1
                               : count == 2;
        if (!right)
            throw std::invalid_argument("\"" + std::string(name) + "\" has " +
                                        std::to_string(count) + " operands");
    }
    return std::make_shared<const Expression>(std::move(expression));
}

std::string joined(const Expression &expression, const std::vector<std::string> &arguments,
                   std::string_view between) {
    std::string all;
    for (const Operand &operand : expression.operands) {
        if (!all.empty()) all += between;
        all += readable(*operand, arguments);
    }
    return all;
}

/// Removes operands that are the neutral constant `value`, but keeps at least one operand.
Expression without(Expression expression, std::int64_t value) {
    auto &operands = expression.operands;
    const Operand last = operands.back();
    std::erase_if(operands, [&](const Operand &operand) {
        return operand->kind == Kind::constant && operand->value == value;
    });
    if (operands.empty()) operands.push_back(last);
    return expression;
}

}  // namespace

Operand constant(std::int64_t value, unsigned width) { return leaf(Kind::constant, width, value); }

Operand leaf(Kind kind, unsigned width, std::int64_t value, unsigned offset) {
    return std::make_shared<const Expression>(Expression{kind, width, value, offset, {}});
}

Operand node(Kind kind, unsigned width, std::vector<Operand> operands, std::int64_t value) {
    return std::make_shared<const Expression>(
        Expression{kind, width, value, 0, std::move(operands)});
}

bool has(const Expression &expression, Kind kind) {
    return expression.kind == kind ||
           std::ranges::any_of(expression.operands,
                               [&](const Operand &operand) { return has(*operand, kind); });
}

std::string text_of(const Expression &expression) {
    std::string text = "(" + std::string(names.at(static_cast<std::size_t>(expression.kind))) +
                       " " + std::to_string(expression.width);
    if (has_value(expression.kind)) text += " " + std::to_string(expression.value);
    if (expression.kind == Kind::immediate) text += " " + std::to_string(expression.offset);
    for (const Operand &operand : expression.operands) text += " " + text_of(*operand);
    return text + ")";
}

unsigned take_number(std::string_view &text) { return number<unsigned>(text); }
Operand parse_expression(std::string_view &text) { return parse(text, 0); }

std::string readable(const Expression &expression, const std::vector<std::string> &arguments) {
    const auto of_dimension = [&](const char *function) {
        return "get_" + std::string(function) + "(" + std::to_string(expression.value) + ")";
    };
    const auto infix = [&](const char *sign) {
        return "(" + joined(expression, arguments, sign) + ")";
    };
    const auto call = [&](const char *function) {
        return function + ("(" + joined(expression, arguments, ", ")) + ")";
    };
    switch (expression.kind) {
        case Kind::constant: return std::to_string(expression.value);
        case Kind::immediate: {
            const auto index = static_cast<std::size_t>(expression.value);
            std::string name =
                index < arguments.size() ? arguments[index] : "argument " + std::to_string(index);
            return expression.offset == 0 ? name : name + "@" + std::to_string(expression.offset);
        }
        case Kind::global_id:
        case Kind::group_id:
        case Kind::local_id:
        case Kind::global_size:
        case Kind::local_size:
        case Kind::enqueued_local_size:
        case Kind::num_groups:
        case Kind::global_offset:
            return of_dimension(names.at(static_cast<std::size_t>(expression.kind)));
        case Kind::work_dim: return "get_work_dim()";
        case Kind::counter: return "k" + std::to_string(expression.value);
        case Kind::unknown: return "?";
        case Kind::add:
        case Kind::sum:
            return without(expression, 0).operands.size() == 1
                       ? joined(without(expression, 0), arguments, "")
                       : "(" + joined(without(expression, 0), arguments, " + ") + ")";
        case Kind::mul: return joined(without(expression, 1), arguments, "*");
        case Kind::udiv:
        case Kind::sdiv: return infix(" / ");
        case Kind::urem:
        case Kind::srem: return infix(" % ");
        case Kind::bit_and: return infix(" & ");
        case Kind::bit_or: return infix(" | ");
        case Kind::bit_xor: return infix(" ^ ");
        case Kind::shl: return infix(" << ");
        case Kind::lshr:
        case Kind::ashr: return infix(" >> ");
        case Kind::smin:
        case Kind::umin: return call("min");
        case Kind::smax:
        case Kind::umax: return call("max");
        case Kind::zext:
        case Kind::sext:
        case Kind::trunc: return readable(*expression.operands[0], arguments);
        case Kind::select:
            return "(" + readable(*expression.operands[0], arguments) + " ? " +
                   readable(*expression.operands[1], arguments) + " : " +
                   readable(*expression.operands[2], arguments) + ")";
        case Kind::hull: return call("between");
        case Kind::eq: return joined(expression, arguments, " == ");
        case Kind::ne: return joined(expression, arguments, " != ");
        case Kind::slt:
        case Kind::ult: return joined(expression, arguments, " < ");
        case Kind::sle:
        case Kind::ule: return joined(expression, arguments, " <= ");
        case Kind::stops: return "";
    }
    return "?";
}

}  // namespace cldist::splitting
