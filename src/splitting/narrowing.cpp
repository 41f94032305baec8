// The part of Evaluation that restricts the values of variables by conditions.

#include <algorithm>

#include "splitting/bounds.hpp"

namespace cldist::splitting {

namespace {

constexpr int most_narrowings = 16;

}  // namespace

std::optional<std::vector<Form>> Evaluation::required(const Expression &condition) const {
    if (condition.operands.size() != 2) return std::nullopt;
    const Form a = form(*condition.operands[0]);
    const Form b = form(*condition.operands[1]);
    const auto left = bounds(a);
    const auto right = bounds(b);
    if (!left || !right) return std::nullopt;
    const auto less = [&](Wide by) { return sum(sum(b, a, -1), known(by), -1); };
    switch (condition.kind) {
        case Kind::slt: return std::vector{less(1)};
        case Kind::sle: return std::vector{less(0)};
        case Kind::eq: return std::vector{less(0), sum(a, b, -1)};
        case Kind::ult:
        case Kind::ule: {
            const Wide by = condition.kind == Kind::ult ? 1 : 0;
            // Interpreted as unsigned, negative values are larger than all others.
            if (right->low >= 0) return std::vector{a, less(by)};
            if (right->high < 0 && left->low >= 0) return std::vector<Form>{};
            if (right->high < 0 && left->high < 0) return std::vector{less(by)};
            return std::nullopt;
        }
        default: return std::nullopt;
    }
}

bool Evaluation::always(const Expression &condition) const {
    if (condition.kind == Kind::stops) return true;
    if (condition.kind == Kind::ne) {
        const auto apart =
            bounds(sum(form(*condition.operands[0]), form(*condition.operands[1]), -1));
        return apart && (apart->low > 0 || apart->high < 0);
    }
    const auto forms = required(condition);
    return forms && std::all_of(forms->begin(), forms->end(), [&](const Form &form) {
               const auto all = bounds(form);
               return all && all->low >= 0;
           });
}

/// Removes values of variables for which the form is negative, whatever values the other variables
/// have. Returns false if the form is always negative.
bool Evaluation::not_negative(const Form &form) {
    const auto all = bounds(form);
    if (!all) return true;
    if (all->high < 0) return false;
    if (all->low >= 0) return true;
    // The form is relative to the lower bounds that the variables have now.
    for (const auto &[index, factor] : form.factors) {
        Bounds &values = range(index);
        const Wide size = factor < 0 ? -factor : factor;
        // If the other variables have their best values, this variable may be this many steps away
        // from its best value.
        const Wide steps = all->high / size;
        if (steps >= values.high - values.low) continue;
        if (factor > 0) {
            values.low = values.high - steps;
        } else {
            values.high = values.low + steps;
        }
        changed_ = true;
        return true;  // the form is outdated now; the next round continues
    }
    return true;
}

/// Narrows by a form that must not be 0. If the form has one variable and is 0 at an end of its
/// range, removes this value. Returns false if the form is always 0.
bool Evaluation::trim(const Form &form) {
    if (form.low != form.high || form.factors.size() > 1) return true;
    if (form.factors.empty()) return form.low != 0;
    const auto &[index, factor] = *form.factors.begin();
    Bounds &values = range(index);
    if (form.low == 0) {
        ++values.low;
        changed_ = true;
    } else if (form.low + factor * (values.high - values.low) == 0) {
        --values.high;
        changed_ = true;
    }
    return true;
}

/// Limits the counter of a loop that ends at the first value that is not below the end. Does
/// nothing if the value may wrap around.
void Evaluation::limit_counter(const Expression &condition) {
    const unsigned width = width_of(condition);
    const bool with_sign = condition.value == 1;
    const auto part = [&](std::size_t i) {
        return bounds(form(*condition.operands[i], with_sign));
    };
    const auto start = part(1);
    const auto step = part(2);
    const auto end = part(3);
    const Wide most = with_sign ? highest(width) : two_to(width) - 1;
    if (condition.operands[0]->kind != Kind::counter || !start || !step || !end || step->low <= 0 ||
        end->high + step->high - 1 > most) {
        return;
    }
    const Wide rounds =
        end->high <= start->low ? 0 : (end->high - start->low + step->low - 1) / step->low;
    Bounds &counter = range(first_counter + static_cast<unsigned>(condition.operands[0]->value));
    if (counter.high <= rounds) return;
    counter.high = std::max(rounds, counter.low);
    changed_ = true;
}

bool Evaluation::narrow(const Expression &condition) {
    if (condition.kind == Kind::stops) {
        limit_counter(condition);
        return true;
    }
    if (condition.kind == Kind::ne) {
        const Form apart = sum(form(*condition.operands[0]), form(*condition.operands[1]), -1);
        return !bounds(apart) || trim(apart);
    }
    // Computed again for each form, because narrowing changes the other forms.
    const auto count = required(condition);
    for (std::size_t i = 0; count && i < count->size(); ++i) {
        const auto forms = required(condition);
        if (forms && i < forms->size() && !not_negative((*forms)[i])) return false;
    }
    return true;
}

bool Evaluation::narrow(std::span<const Operand> conditions) {
    changed_ = true;
    for (int round = 0; changed_ && round < most_narrowings; ++round) {
        changed_ = false;
        for (const Operand &condition : conditions) {
            if (!narrow(*condition)) return false;
        }
        // Group and local id restrict the global id.
        for (unsigned d = 0; d < 3; ++d) {
            const Bounds said = id_by_group(d);
            Bounds &id = range(global_id_of + d);
            id = {std::max(id.low, said.low), std::min(id.high, said.high)};
            if (id.low > id.high) return false;
        }
    }
    for (unsigned d = 0; d < 3; ++d) {
        const auto differ = [](const Bounds &a, const Bounds &b) {
            return a.low != b.low || a.high != b.high;
        };
        by_group_[d] = differ(range_of(group_of + d), whole_.at(group_of + d)) ||
                       differ(range_of(local_id_of + d), whole_.at(local_id_of + d));
        const Bounds id = range_of(global_id_of + d);
        id_is_free_[d] = !differ(id, id_by_group(d));
        // The global id restricts the group.
        const Wide size = launch_.local[d];
        const Wide offset = launch_.offset[d];
        Bounds &group = range(group_of + d);
        group = {std::max(group.low, (id.low - offset) / size),
                 std::min(group.high, (id.high - offset) / size)};
        if (group.low > group.high) return false;
    }
    return true;
}

/// The range of the global id that group and local id allow.
Bounds Evaluation::id_by_group(unsigned d) const {
    const Bounds group = range_of(group_of + d);
    const Bounds local = range_of(local_id_of + d);
    const Wide size = launch_.local[d];
    const Wide offset = launch_.offset[d];
    return {offset + group.low * size + local.low, offset + group.high * size + local.high};
}

std::optional<Evaluation::Steps> Evaluation::steps(Form form) const {
    Steps found;
    found.exact = form.low == form.high;
    for (unsigned d = 0; d < 3; ++d) {
        const auto id = form.factors.find(global_id_of + d);
        const bool by_group = by_group_[d] || form.factors.contains(group_of + d) ||
                              form.factors.contains(local_id_of + d);
        if (!by_group) continue;
        // If the global id is restricted further, group and local id are not independent.
        if (!id_is_free_[d]) found.exact = false;
        if (id == form.factors.end()) continue;
        const Wide factor = id->second;
        const Bounds group = range_of(group_of + d);
        const Bounds local = range_of(local_id_of + d);
        Wide shift = id_by_group(d).low - range_of(global_id_of + d).low;
        Wide step = 0;
        if (__builtin_mul_overflow(factor, shift, &shift) ||
            __builtin_mul_overflow(factor, static_cast<Wide>(launch_.local[d]), &step)) {
            return std::nullopt;
        }
        form.factors.erase(id);
        form.low += shift;
        form.high += shift;
        const auto add = [&](unsigned index, Wide by, const Bounds &values) {
            if (values.high == values.low) return;
            Wide &all = form.factors[index];
            all += by;
            if (all == 0) form.factors.erase(index);
        };
        add(group_of + d, step, group);
        add(local_id_of + d, factor, local);
    }
    found.begin = {form.low, form.high};
    if (!bounds(form)) return std::nullopt;
    for (const auto &[index, factor] : form.factors) {
        const Bounds values = range_of(index);
        if (factor < 0) {
            found.begin.low += factor * (values.high - values.low);
            found.begin.high += factor * (values.high - values.low);
        }
        found.steps.emplace_back(factor < 0 ? -factor : factor, values.high - values.low + 1);
    }
    return found;
}

}  // namespace cldist::splitting
