#include "splitting/bounds.hpp"

#include <algorithm>

namespace cldist::splitting {

namespace {

constexpr Wide most_rounds_of_loop = Wide{1} << 62;

Wide floor_of(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

/// Returns the smallest 2^k - 1 that is at least `value`.
Wide ones(Wide value) {
    Wide all = 0;
    while (all < value) all = 2 * all + 1;
    return all;
}

bool is_known(const Form &form) { return form.factors.empty() && form.low == form.high; }

}  // namespace

std::vector<Groups> equal_groups(const Launch &launch, const SubRange &part) {
    if (part.empty()) return {};
    std::vector<Groups> all{Groups{}};
    for (unsigned d = 0; d < 3; ++d) {
        const std::size_t size = launch.local[d];
        const std::size_t first = part.begin[d] / size;
        const std::size_t full = part.end[d] / size;  // groups before it have full size
        const std::size_t rest = part.end[d] % size;
        std::vector<Groups> more;
        for (Groups groups : all) {
            if (full > first) {
                groups.first[d] = first;
                groups.last[d] = full - 1;
                groups.size[d] = size;
                more.push_back(groups);
            }
            if (rest != 0) {
                groups.first[d] = groups.last[d] = full;
                groups.size[d] = rest;
                more.push_back(groups);
            }
        }
        all = std::move(more);
    }
    return all;
}

Evaluation::Evaluation(const Launch &launch, const Groups &groups,
                       std::span<const Immediate> arguments)
    : launch_(launch), groups_(groups), arguments_(arguments) {
    for (unsigned d = 0; d < 3; ++d) {
        const Wide first = groups.first[d];
        const Wide last = groups.last[d];
        const Wide size = groups.size[d];
        const Wide local = launch.local[d];
        const Wide offset = launch.offset[d];
        ranges_[global_id_of + d] = {offset + first * local, offset + last * local + size - 1};
        ranges_[group_of + d] = {first, last};
        ranges_[local_id_of + d] = {0, size - 1};
    }
    whole_ = ranges_;
}

Bounds &Evaluation::range(unsigned index) {
    return ranges_.try_emplace(index, Bounds{0, most_rounds_of_loop}).first->second;
}
Bounds Evaluation::range_of(unsigned index) const {
    const auto at = ranges_.find(index);
    return at == ranges_.end() ? Bounds{0, most_rounds_of_loop} : at->second;
}

Form Evaluation::variable(unsigned index) const {
    const Bounds range = range_of(index);
    Form form = known(range.low);
    if (range.high > range.low) form.factors.emplace(index, 1);
    return form;
}

Form Evaluation::any(unsigned width) const { return between(lowest(width), highest(width)); }

std::optional<Bounds> Evaluation::bounds(const Form &form) const {
    Bounds all{form.low, form.high};
    for (const auto &[index, factor] : form.factors) {
        const Bounds range = range_of(index);
        Wide most = 0;
        if (__builtin_mul_overflow(factor, range.high - range.low, &most)) return std::nullopt;
        Wide &end = factor < 0 ? all.low : all.high;
        if (__builtin_add_overflow(end, most, &end)) return std::nullopt;
    }
    return all;
}

Form Evaluation::wrapped(Form form, unsigned width) const {
    const auto all = bounds(form);
    if (!all) return any(width == 0 ? 64 : width);
    if (width == 0) return form;
    const Wide turns = floor_of(all->low - lowest(width), two_to(width));
    if (turns != floor_of(all->high - lowest(width), two_to(width))) return any(width);
    form.low -= turns * two_to(width);
    form.high -= turns * two_to(width);
    return form;
}

/// Replaces group id * local size + local id by the global id.
void Evaluation::gather_ids(Form &form) const {
    for (unsigned d = 0; d < 3; ++d) {
        const auto group = form.factors.find(group_of + d);
        const auto local = form.factors.find(local_id_of + d);
        if (group == form.factors.end() || local == form.factors.end()) continue;
        const Wide factor = local->second;
        const Wide size = launch_.local[d];
        Wide same = 0;
        if (__builtin_mul_overflow(factor, size, &same) || group->second != same) continue;
        const Bounds id = range_of(global_id_of + d);
        const Wide shift = id.low - static_cast<Wide>(launch_.offset[d]) -
                           size * range_of(group_of + d).low - range_of(local_id_of + d).low;
        Wide by = 0;
        if (__builtin_mul_overflow(factor, shift, &by)) continue;
        form.factors.erase(group);
        form.factors.erase(local);
        form.low += by;
        form.high += by;
        if (id.high > id.low) {
            Wide &all = form.factors[global_id_of + d];
            all += factor;
            if (all == 0) form.factors.erase(global_id_of + d);
        }
    }
}

Form Evaluation::sum(const Form &a, const Form &b, int sign) const {
    Form all = a;
    all.low += sign > 0 ? b.low : -b.high;
    all.high += sign > 0 ? b.high : -b.low;
    for (const auto &[index, factor] : b.factors) {
        Wide &here = all.factors[index];
        here += sign * factor;
        if (here == 0) all.factors.erase(index);
    }
    gather_ids(all);
    return all;
}

std::optional<Form> Evaluation::product(const Form &a, const Form &b) const {
    if (!is_known(a) && is_known(b)) return product(b, a);
    if (is_known(a)) {
        Form all;
        const Wide by = a.low;
        if (by == 0) return all;
        if (__builtin_mul_overflow(b.low, by, &all.low) ||
            __builtin_mul_overflow(b.high, by, &all.high))
            return std::nullopt;
        if (by < 0) std::swap(all.low, all.high);
        for (const auto &[index, factor] : b.factors) {
            if (__builtin_mul_overflow(factor, by, &all.factors[index])) return std::nullopt;
        }
        return all;
    }
    const auto left = bounds(a);
    const auto right = bounds(b);
    if (!left || !right) return std::nullopt;
    std::array<Wide, 4> corners{};
    if (__builtin_mul_overflow(left->low, right->low, &corners[0]) ||
        __builtin_mul_overflow(left->low, right->high, &corners[1]) ||
        __builtin_mul_overflow(left->high, right->low, &corners[2]) ||
        __builtin_mul_overflow(left->high, right->high, &corners[3])) {
        return std::nullopt;
    }
    const auto [low, high] = std::ranges::minmax_element(corners);
    return between(*low, *high);
}

/// The value of the expression, interpreted as unsigned.
Form Evaluation::unsigned_form(const Expression &expression) const {
    const unsigned width = width_of(expression);
    Form value = form(expression);
    const auto all = bounds(value);
    if (!all) return between(0, two_to(width) - 1);
    if (all->low >= 0) return value;
    if (all->high >= 0) return between(0, two_to(width) - 1);
    value.low += two_to(width);
    value.high += two_to(width);
    return value;
}

/// The remainder of a division that rounds down.
Form Evaluation::modulo(const Form &form, Wide divisor) const {
    const auto all = bounds(form);
    if (!all) return between(0, divisor - 1);
    const Wide times = floor_of(all->low, divisor);
    if (times != floor_of(all->high, divisor)) return between(0, divisor - 1);
    Form rest = form;
    rest.low -= times * divisor;
    rest.high -= times * divisor;
    return rest;
}

Form Evaluation::quotient(const Expression &expression) const {
    const unsigned width = width_of(expression);
    const bool with_sign = expression.kind == Kind::sdiv;
    const Form a = form(*expression.operands[0], with_sign);
    const auto divisor = bounds(form(*expression.operands[1], with_sign));
    const auto all = bounds(a);
    // The result of a division by 0 is unspecified.
    if (!divisor || !all || divisor->low <= 0) return any(width);
    const Wide by = divisor->low;
    if (by == divisor->high) {
        const auto whole = [&](Wide part) { return part % by == 0; };
        const bool exact =
            a.low == a.high && whole(a.low) &&
            std::ranges::all_of(a.factors, [&](const auto &at) { return whole(at.second); });
        if (exact) {
            Form divided = a;
            divided.low /= by;
            divided.high /= by;
            for (auto &[index, factor] : divided.factors) factor /= by;
            return wrapped(std::move(divided), width);
        }
    }
    const std::array corners{all->low / by, all->low / divisor->high, all->high / by,
                             all->high / divisor->high};
    const auto [low, high] = std::ranges::minmax_element(corners);
    return wrapped(between(*low, *high), width);
}

Form Evaluation::remainder(const Expression &expression) const {
    const unsigned width = width_of(expression);
    const bool with_sign = expression.kind == Kind::srem;
    const Form a = form(*expression.operands[0], with_sign);
    const auto divisor = bounds(form(*expression.operands[1], with_sign));
    const auto all = bounds(a);
    if (!divisor || !all || divisor->low <= 0) return any(width);
    const Wide most = divisor->high - 1;
    if (all->low < 0)
        return between(std::max(all->low, -most), std::clamp<Wide>(all->high, 0, most));
    if (divisor->low == divisor->high) {
        const Form rest = modulo(a, divisor->low);
        if (!rest.factors.empty() || is_known(rest)) return wrapped(rest, width);
    }
    return wrapped(between(0, std::min(all->high, most)), width);
}

Form Evaluation::bits(const Expression &expression) const {
    const unsigned width = width_of(expression);
    const Form a = form(*expression.operands[0]);
    const Form b = form(*expression.operands[1]);
    const auto left = bounds(a);
    const auto right = bounds(b);
    if (!left || !right) return any(width);
    switch (expression.kind) {
        case Kind::bit_and: {
            const auto masked = [&](const Form &value, const Form &mask) -> std::optional<Form> {
                if (!is_known(mask)) return std::nullopt;
                if (mask.low >= 0 && ones(mask.low) == mask.low) return modulo(value, mask.low + 1);
                const auto all = bounds(value);
                const Wide step = -mask.low;
                if (step > 0 && ones(step - 1) == step - 1) {
                    return between(floor_of(all->low, step) * step,
                                   floor_of(all->high, step) * step);
                }
                return std::nullopt;
            };
            if (const auto form = masked(a, b)) return *form;
            if (const auto form = masked(b, a)) return *form;
            if (left->low >= 0 && right->low >= 0)
                return between(0, std::min(left->high, right->high));
            if (left->low >= 0) return between(0, left->high);
            if (right->low >= 0) return between(0, right->high);
            return any(width);
        }
        case Kind::bit_or:
        case Kind::bit_xor:
            if (left->low < 0 || right->low < 0) return any(width);
            return between(expression.kind == Kind::bit_or ? std::max(left->low, right->low) : 0,
                           ones(std::max(left->high, right->high)));
        case Kind::shl: {
            if (right->low < 0 || right->high >= static_cast<Wide>(width)) return any(width);
            const auto low = static_cast<unsigned>(right->low);
            const auto high = static_cast<unsigned>(right->high);
            const auto shifted = product(a, between(two_to(low), two_to(high)));
            return shifted ? wrapped(*shifted, width) : any(width);
        }
        default: {  // ashr, lshr
            if (right->low < 0 || right->high >= static_cast<Wide>(width)) return any(width);
            const Form value =
                expression.kind == Kind::lshr ? unsigned_form(*expression.operands[0]) : a;
            const auto all = bounds(value);
            if (!all) return any(width);
            const auto low = static_cast<unsigned>(right->low);
            const auto high = static_cast<unsigned>(right->high);
            const std::array corners{
                floor_of(all->low, two_to(low)), floor_of(all->low, two_to(high)),
                floor_of(all->high, two_to(low)), floor_of(all->high, two_to(high))};
            const auto [least, most] = std::ranges::minmax_element(corners);
            return wrapped(between(*least, *most), width);
        }
    }
}

Form Evaluation::extreme(const Expression &expression) const {
    const unsigned width = width_of(expression);
    const bool smaller = expression.kind == Kind::smin || expression.kind == Kind::umin;
    const bool with_sign = expression.kind == Kind::smin || expression.kind == Kind::smax;
    std::optional<Form> best;
    Bounds best_bounds;
    for (const Operand &operand : expression.operands) {
        Form value = form(*operand, with_sign);
        const auto all = bounds(value);
        if (!all) return any(width);
        const bool first = smaller ? best_bounds.high <= all->low : best_bounds.low >= all->high;
        const bool second = smaller ? all->high <= best_bounds.low : all->low >= best_bounds.high;
        if (best && first) continue;
        if (!best || second) {
            best = std::move(value);
            best_bounds = *all;
            continue;
        }
        best_bounds = smaller ? Bounds{std::min(best_bounds.low, all->low),
                                       std::min(best_bounds.high, all->high)}
                              : Bounds{std::max(best_bounds.low, all->low),
                                       std::max(best_bounds.high, all->high)};
        best = between(best_bounds.low, best_bounds.high);
    }
    return wrapped(*best, width);
}

Form Evaluation::immediate(const Expression &expression) const {
    const auto index = static_cast<std::size_t>(expression.value);
    const std::size_t bytes = width_of(expression) / 8;
    if (index >= arguments_.size() || arguments_[index].value.size() < expression.offset + bytes ||
        bytes > 8 || bytes == 0) {
        return any(width_of(expression));
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) {  // spir64 and the hosts are little-endian
        value |= static_cast<std::uint64_t>(arguments_[index].value[expression.offset + i])
                 << (8 * i);
    }
    return wrapped(known(value), width_of(expression));
}

Form Evaluation::form(const Expression &expression) const {
    const unsigned width = width_of(expression);
    const auto d = static_cast<unsigned>(expression.value);
    const auto is_size = [&](Wide value) {
        return d < 3 ? wrapped(known(value), width) : any(width);
    };
    switch (expression.kind) {
        case Kind::constant: return known(expression.value);
        case Kind::immediate: return immediate(expression);
        case Kind::global_id:
            return d < 3 ? wrapped(variable(global_id_of + d), width) : any(width);
        case Kind::group_id:
            if (d < 3 && launch_.local[d] == 1) {  // the global id without the offset
                return wrapped(sum(variable(global_id_of + d), known(launch_.offset[d]), -1),
                               width);
            }
            return d < 3 ? wrapped(variable(group_of + d), width) : any(width);
        case Kind::local_id:
            if (d < 3 && groups_.first[d] == groups_.last[d]) {  // the global id minus a constant
                const Wide first = static_cast<Wide>(launch_.offset[d]) +
                                   static_cast<Wide>(groups_.first[d]) * launch_.local[d];
                return wrapped(sum(variable(global_id_of + d), known(first), -1), width);
            }
            return d < 3 ? wrapped(variable(local_id_of + d), width) : any(width);
        case Kind::global_size: return is_size(d < 3 ? launch_.global[d] : 1);
        case Kind::local_size: return is_size(d < 3 ? groups_.size[d] : 1);
        case Kind::enqueued_local_size: return is_size(d < 3 ? launch_.local[d] : 1);
        case Kind::num_groups: return is_size(d < 3 ? launch_.groups(d) : 1);
        case Kind::global_offset: return is_size(d < 3 ? launch_.offset[d] : 0);
        case Kind::work_dim: return known(launch_.dimensions);
        case Kind::counter: return variable(first_counter + d);
        case Kind::unknown: return any(width);
        case Kind::add:
        case Kind::sum: {
            Form all;
            for (const Operand &operand : expression.operands) {
                all = sum(all, form(*operand));
                if (!bounds(all)) return any(width);
            }
            return expression.kind == Kind::sum ? all : wrapped(std::move(all), width);
        }
        case Kind::mul: {
            std::optional<Form> all = known(1);
            for (const Operand &operand : expression.operands) {
                all = product(*all, form(*operand));
                if (!all || !bounds(*all)) return any(width);
            }
            return wrapped(std::move(*all), expression.width);
        }
        case Kind::udiv:
        case Kind::sdiv: return quotient(expression);
        case Kind::urem:
        case Kind::srem: return remainder(expression);
        case Kind::bit_and:
        case Kind::bit_or:
        case Kind::bit_xor:
        case Kind::shl:
        case Kind::lshr:
        case Kind::ashr: return bits(expression);
        case Kind::smin:
        case Kind::smax:
        case Kind::umin:
        case Kind::umax: return extreme(expression);
        case Kind::zext: return unsigned_form(*expression.operands[0]);
        case Kind::sext: return form(*expression.operands[0]);
        case Kind::trunc: return wrapped(form(*expression.operands[0]), width);
        case Kind::select:
            if (always(*expression.operands[0])) return form(*expression.operands[1]);
            [[fallthrough]];
        case Kind::hull: {
            std::optional<Bounds> all;
            const std::size_t first = expression.kind == Kind::select ? 1 : 0;
            for (std::size_t i = first; i < expression.operands.size(); ++i) {
                const auto here = bounds(form(*expression.operands[i]));
                if (!here) return any(width);
                all = all ? Bounds{std::min(all->low, here->low), std::max(all->high, here->high)}
                          : *here;
            }
            return between(all->low, all->high);
        }
        default: return between(0, 1);  // a condition
    }
}

}  // namespace cldist::splitting
