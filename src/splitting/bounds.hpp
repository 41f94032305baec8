#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "splitting/access.hpp"
#include "splitting/expression.hpp"

namespace cldist::splitting {

/// Wider than the integers of kernels, so that sums and products are exact.
__extension__ using Wide = __int128;

/// Values from `low` to `high`, both included.
struct Bounds {
    Wide low = 0;
    Wide high = 0;
};

/// A value: the sum of variables with factors, and of a number from `low` to `high`. Each variable
/// counts from 0 to its largest value.
struct Form {
    std::map<unsigned, Wide> factors;  ///< factors of variables; never 0
    Wide low = 0;
    Wide high = 0;
};

/// Work-groups of equal size in one sub-range. They determine the ids and sizes.
struct Groups {
    std::array<std::size_t, 3> first, last;  ///< groups, both included
    std::array<std::size_t, 3> size;         ///< of each group
};
/// Divides a sub-range into boxes of equal groups. The last group of a dimension is smaller if the
/// global size is no multiple of the local size.
std::vector<Groups> equal_groups(const Launch &launch, const SubRange &part);

/// Computes ranges of a kernel's values in the work-items of some groups that satisfy conditions.
///
/// Variables are treated as independent. The results contain all possible values, and perhaps more.
class Evaluation {
public:
    Evaluation(const Launch &launch, const Groups &groups, std::span<const Immediate> arguments);

    /// Removes values that violate the conditions. Returns false if the conditions never hold.
    bool narrow(std::span<const Operand> conditions);
    /// Returns true if the condition holds whenever it is evaluated.
    [[nodiscard]] bool always(const Expression &condition) const;

    [[nodiscard]] Form form(const Expression &expression) const;
    [[nodiscard]] std::optional<Bounds> bounds(const Form &form) const;

    /// A form's values as a start and steps. `exact` is true if each combination of steps belongs
    /// to a work-item that satisfies the conditions. Returns nothing if the numbers overflow.
    struct Steps {
        Bounds begin;
        std::vector<std::pair<Wide, Wide>> steps;  ///< stride, count
        bool exact = false;
    };
    [[nodiscard]] std::optional<Steps> steps(Form form) const;

private:
    // Numbers of variables: for each dimension the global id, the group and the local id. The
    // latter two together determine the global id. Counters follow.
    static constexpr unsigned global_id_of = 0;
    static constexpr unsigned group_of = 3;
    static constexpr unsigned local_id_of = 6;
    static constexpr unsigned first_counter = 9;

    static Wide two_to(unsigned exponent) { return Wide{1} << exponent; }
    static Wide lowest(unsigned width) { return -two_to(width - 1); }
    static Wide highest(unsigned width) { return two_to(width - 1) - 1; }
    static unsigned width_of(const Expression &expression) {
        return expression.width == 0 ? 64 : expression.width;
    }

    [[nodiscard]] Form variable(unsigned index) const;
    [[nodiscard]] Form known(Wide value) const { return {{}, value, value}; }
    [[nodiscard]] Form between(Wide low, Wide high) const { return {{}, low, high}; }
    [[nodiscard]] Form any(unsigned width) const;
    [[nodiscard]] Form wrapped(Form form, unsigned width) const;
    [[nodiscard]] Form sum(const Form &a, const Form &b, int sign = 1) const;
    [[nodiscard]] std::optional<Form> product(const Form &a, const Form &b) const;
    [[nodiscard]] Form quotient(const Expression &expression) const;
    [[nodiscard]] Form remainder(const Expression &expression) const;
    [[nodiscard]] Form bits(const Expression &expression) const;
    [[nodiscard]] Form extreme(const Expression &expression) const;
    [[nodiscard]] Form unsigned_form(const Expression &expression) const;
    [[nodiscard]] Form form(const Expression &expression, bool with_sign) const {
        return with_sign ? form(expression) : unsigned_form(expression);
    }
    [[nodiscard]] Form modulo(const Form &form, Wide divisor) const;
    [[nodiscard]] Form immediate(const Expression &expression) const;
    /// The forms that are not negative if the condition holds. Nothing if it is not understood.
    [[nodiscard]] std::optional<std::vector<Form>> required(const Expression &condition) const;
    void gather_ids(Form &form) const;
    bool narrow(const Expression &condition);
    void limit_counter(const Expression &condition);
    bool not_negative(const Form &form);
    bool trim(const Form &form);
    Bounds &range(unsigned index);
    [[nodiscard]] Bounds range_of(unsigned index) const;
    [[nodiscard]] Bounds id_by_group(unsigned dimension) const;

    const Launch &launch_;
    const Groups groups_;
    const std::span<const Immediate> arguments_;
    std::map<unsigned, Bounds> ranges_;  // of variables
    std::map<unsigned, Bounds> whole_;   // of ids, before narrowing
    std::array<bool, 3> by_group_{};     // the dimension's group or local id was narrowed
    // The global id is restricted only by group and local id.
    std::array<bool, 3> id_is_free_{true, true, true};
    bool changed_ = false;
};

}  // namespace cldist::splitting
