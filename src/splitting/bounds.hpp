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

/// Wider than what kernels compute with, so that sums and products are exact.
__extension__ using Wide = __int128;

/// Values from `low` to `high`, both included.
struct Bounds {
    Wide low = 0;
    Wide high = 0;
};

/// One value: a sum of variables, each from 0 to its last value, and of something from `low` to `high`.
struct Form {
    std::map<unsigned, Wide> factors;  ///< of variables, none of them 0
    Wide low = 0;
    Wide high = 0;
};

/// Work-groups of equal size, of one sub-range: what ids and sizes are there.
struct Groups {
    std::array<std::size_t, 3> first, last;  ///< groups, both included
    std::array<std::size_t, 3> size;         ///< of each of them
};
/// A sub-range has others at the end of a dimension whose global size is no multiple of the local size.
std::vector<Groups> equal_groups(const Launch &launch, const SubRange &part);

/// What is known of the values that a kernel computes in work-items of some groups, while some conditions hold.
///
/// Variables are independent of each other: a value is never outside of what is found here, but not all that is found here need
/// be there.
class Evaluation {
public:
    Evaluation(const Launch &launch, const Groups &groups, std::span<const Immediate> arguments);

    /// Takes away what does not come with these conditions; false if they never hold.
    bool narrow(std::span<const Operand> conditions);
    /// Whether the condition holds wherever it is looked at.
    [[nodiscard]] bool always(const Expression &condition) const;

    [[nodiscard]] Form form(const Expression &expression) const;
    [[nodiscard]] std::optional<Bounds> bounds(const Form &form) const;

    /// A form's values as a begin and steps; `exact` if each combination of steps is one of a work-item that meets the
    /// conditions. Nothing if they are not to be counted.
    struct Steps {
        Bounds begin;
        std::vector<std::pair<Wide, Wide>> steps;  ///< stride, count
        bool exact = false;
    };
    [[nodiscard]] std::optional<Steps> steps(Form form) const;

private:
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
    [[nodiscard]] Form modulo(const Form &form, Wide divisor) const;
    [[nodiscard]] Form immediate(const Expression &expression) const;
    /// The forms that are not negative where the condition holds; nothing if it says nothing that is understood.
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
    std::map<unsigned, Bounds> ranges_;                 // of variables
    std::map<unsigned, Bounds> whole_;                  // of ids, before anything was narrowed
    std::array<bool, 3> by_group_{};                    // group or local id of the dimension were narrowed
    std::array<bool, 3> id_is_free_{true, true, true};  // the global id is no closer bound than by these
    bool changed_ = false;
};

}  // namespace cldist::splitting
