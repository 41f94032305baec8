// Descriptions of kernels for users.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "splitting/description.hpp"

namespace cldist::splitting {

namespace {

using Names = std::vector<std::string>;

struct Term {
    std::int64_t count;  ///< integer factor
    bool varies;         ///< differs between work-items or rounds of a loop
};
/// A sum of products, by the text of the product. The empty text is the constant.
using Sum = std::map<std::string, Term>;

constexpr std::size_t most_terms = 16;

void add_to(Sum &sum, const Sum &other, std::int64_t factor) {
    for (const auto &[name, term] : other) {
        Term &here = sum.try_emplace(name, Term{0, term.varies}).first->second;
        here.count += factor * term.count;
        if (here.count == 0) sum.erase(name);
    }
}

Sum product(const Sum &a, const Sum &b) {
    Sum all;
    for (const auto &[x, of_x] : a)
        for (const auto &[y, of_y] : b) {
            const std::string name =
                x.empty() || y.empty() ? x + y : std::min(x, y) + "*" + std::max(x, y);
            add_to(all, {{name, {of_x.count * of_y.count, of_x.varies || of_y.varies}}}, 1);
        }
    return all;
}

bool varies(const Expression &expression) {
    for (const Kind kind :
         {Kind::global_id, Kind::group_id, Kind::local_id, Kind::counter, Kind::unknown})
        if (has(expression, kind)) return true;
    return false;
}

Sum sum_of(const Expression &expression, const Names &names) {
    const auto one = [&] { return Sum{{readable(expression, names), {1, varies(expression)}}}; };
    switch (expression.kind) {
        case Kind::constant:
            return expression.value == 0 ? Sum() : Sum{{"", {expression.value, false}}};
        case Kind::zext:
        case Kind::sext:
        case Kind::trunc: return sum_of(*expression.operands[0], names);
        case Kind::add:
        case Kind::sum: {
            Sum all;
            for (const Operand &operand : expression.operands)
                add_to(all, sum_of(*operand, names), 1);
            return all;
        }
        case Kind::mul: {
            Sum all{{"", {1, false}}};
            for (const Operand &operand : expression.operands) {
                const Sum factor = sum_of(*operand, names);
                if (all.size() * factor.size() > most_terms) return one();
                all = product(all, factor);
            }
            return all;
        }
        default: return one();
    }
}

/// Prints the constant last.
std::string text_of(const Sum &sum) {
    std::string text;
    const auto add = [&](const std::string &name, std::int64_t count) {
        const std::uint64_t size =
            count < 0 ? -static_cast<std::uint64_t>(count) : static_cast<std::uint64_t>(count);
        text += text.empty() ? (count < 0 ? "-" : "") : (count < 0 ? " - " : " + ");
        if (name.empty() || size != 1) text += std::to_string(size) + (name.empty() ? "" : "*");
        text += name;
    };
    for (const auto &[name, term] : sum)
        if (!name.empty()) add(name, term.count);
    if (const auto constant = sum.find(""); constant != sum.end()) add("", constant->second.count);
    return text.empty() ? "0" : text;
}

std::optional<Sum> divided(Sum sum, std::int64_t by) {
    for (auto &[name, term] : sum) {
        if (term.count % by != 0) return std::nullopt;
        term.count /= by;
    }
    return sum;
}

bool is_same_everywhere(const Sum &sum) {
    return std::ranges::none_of(sum, [](const auto &part) { return part.second.varies; });
}

/// An access in elements of `size` bytes.
struct Elements {
    std::int64_t size;
    Sum first;  ///< index of the first element
};

std::optional<Elements> elements_of(const AccessDescription &access, const Names &names) {
    const Sum bytes = sum_of(*access.bytes, names);
    if (bytes.size() != 1 || !bytes.begin()->first.empty() || bytes.begin()->second.count <= 0)
        return std::nullopt;
    const std::int64_t size = bytes.begin()->second.count;
    auto first = divided(sum_of(*access.offset, names), size);
    if (!first) return std::nullopt;
    return Elements{size, std::move(*first)};
}

std::string place_of(const AccessDescription &access, const Names &names) {
    const std::string name = names[access.argument];
    std::string text = access.text;
    if (access.line != 0)
        text += std::string(text.empty() ? "" : " ") + "(line " + std::to_string(access.line) + ")";
    if (!text.empty()) text += ": ";
    if (const auto elements = elements_of(access, names)) {
        text += name + "[" + text_of(elements->first) + "]";
        return text + " of " + std::to_string(elements->size) +
               (elements->size == 1 ? " byte" : " bytes");
    }
    return text + text_of(sum_of(*access.bytes, names)) + " bytes from byte " +
           text_of(sum_of(*access.offset, names)) + " of " + name;
}

std::string text_of_condition(const Expression &condition, const Names &names) {
    static const std::map<Kind, const char *> signs{{Kind::eq, " == "}, {Kind::ne, " != "},
                                                    {Kind::slt, " < "}, {Kind::sle, " <= "},
                                                    {Kind::ult, " < "}, {Kind::ule, " <= "}};
    const auto sign = signs.find(condition.kind);
    if (sign == signs.end()) return readable(condition, names);
    return text_of(sum_of(*condition.operands[0], names)) + sign->second +
           text_of(sum_of(*condition.operands[1], names));
}

std::string conditions_of(const AccessDescription &access, const Names &names) {
    // The number of rounds is redundant if the loop's own condition is printed.
    const auto is_said_elsewhere = [&](const Operand &rounds) {
        if (rounds->kind != Kind::ule || rounds->operands[0]->kind != Kind::counter) return false;
        const std::string counter = readable(*rounds->operands[0], names);
        return std::ranges::any_of(access.conditions, [&](const Operand &other) {
            return other != rounds && other->kind != Kind::stops && has(*other, Kind::counter) &&
                   text_of_condition(*other, names).find(counter) != std::string::npos;
        });
    };
    std::string conditions;
    for (const Operand &condition : access.conditions) {
        if (has(*condition, Kind::unknown) || has(*condition, Kind::hull) ||
            condition->kind == Kind::stops || is_said_elsewhere(condition))
            continue;
        conditions +=
            (conditions.empty() ? " if " : " and ") + text_of_condition(*condition, names);
    }
    return conditions;
}

/// Describes the elements that a sub-range reads and its neighbours may have written. It covers
/// elements at a constant distance from the elements that the same work-item writes.
std::string exchanged(const KernelDescription &kernel, const Names &names) {
    std::string text;
    for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
        const ArgumentDescription &argument = kernel.arguments[i];
        if (!argument.buffer) continue;
        if (!argument.why_whole.empty()) {
            text += "    all of " + argument.name + ", to every device\n";
            continue;
        }
        std::set<std::string> distances;
        bool is_understood = true;
        std::string written;
        for (const AccessDescription &read : kernel.accesses) {
            if (read.argument != i || read.written) continue;
            const auto elements = elements_of(read, names);
            std::optional<Sum> nearest;
            for (const AccessDescription &write : kernel.accesses) {
                const auto target = write.written ? elements_of(write, names) : std::nullopt;
                if (!elements || !target || target->size != elements->size) continue;
                Sum distance = elements->first;
                add_to(distance, target->first, -1);
                if (!is_same_everywhere(distance) ||
                    (nearest && nearest->size() <= distance.size()))
                    continue;
                nearest = std::move(distance);
                written = kernel.arguments[write.argument].name;
            }
            is_understood = is_understood && nearest.has_value();
            if (nearest && !nearest->empty()) distances.insert(text_of(*nearest));
        }
        if (!is_understood) {
            text += "    of " + argument.name +
                    ", bytes that depend on the launch (CLDIST_EXPLAIN=1 prints them)\n";
        } else if (!distances.empty()) {
            text += "    of " + argument.name + ", at the edges of sub-ranges, the elements at";
            for (const std::string &distance : distances)
                text += (distance == *distances.begin() ? " " : ", ") +
                        (distance[0] == '-' ? distance : "+" + distance);
            text += " from those written in " + written + "\n";
        }
    }
    return text;
}

}  // namespace

std::string readable(const KernelDescription &kernel) {
    std::string text = "kernel " + kernel.name + ": " +
                       (kernel.why_not.empty() ? "can be split"
                                               : "runs unsplit on one device: " + kernel.why_not) +
                       "\n";
    if (!kernel.advice.empty()) text += "  to have it split: " + kernel.advice + "\n";
    if (!kernel.why_not.empty()) return text;
    Names names;
    for (const ArgumentDescription &argument : kernel.arguments) names.push_back(argument.name);
    for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
        const ArgumentDescription &argument = kernel.arguments[i];
        if (!argument.buffer) continue;
        text += "  " + argument.name + "\n";
        if (!argument.why_whole.empty())
            text += "    reads the whole buffer: " + argument.why_whole + "\n";
        std::set<std::string> said;
        for (const AccessDescription &access : kernel.accesses) {
            if (access.argument != i || (!access.written && !argument.why_whole.empty())) continue;
            const std::string line =
                std::string("    ") +
                (access.written ? access.certain ? "writes " : "may write " : "reads ") +
                place_of(access, names) + conditions_of(access, names) + "\n";
            if (said.insert(line).second) text += line;
        }
        if (said.empty() && argument.why_whole.empty()) text += "    is not used\n";
    }
    const std::string moved = exchanged(kernel, names);
    return text + (moved.empty() ? "  devices exchange nothing\n" : "  devices exchange\n" + moved);
}

}  // namespace cldist::splitting
