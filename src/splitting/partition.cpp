#include "splitting/partition.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace cldist::splitting {

namespace {

/// A box of work-groups.
struct Groups {
    std::array<std::size_t, 3> begin, end;

    [[nodiscard]] std::size_t count(unsigned dimension) const {
        return end[dimension] - begin[dimension];
    }
};

class Partition {
public:
    Partition(const Launch &launch, std::span<const double> shares)
        : launch_(launch), parts_(shares.size()) {
        const auto share = [&](std::size_t part) {
            return shares[part] > 0 && std::isfinite(shares[part]) ? shares[part] : 0.0;
        };
        for (std::size_t part = 0; part < shares.size(); ++part) {
            if (share(part) > 0) working_.push_back(part);
        }
        const bool equal = working_.empty();
        if (equal) {
            working_.resize(shares.size());
            std::iota(working_.begin(), working_.end(), std::size_t{0});
        }
        // If there are fewer groups than parts, the parts with the largest shares get them.
        const double groups = static_cast<double>(launch.groups(0)) *
                              static_cast<double>(launch.groups(1)) *
                              static_cast<double>(launch.groups(2));
        if (groups < static_cast<double>(working_.size())) {
            std::ranges::stable_sort(
                working_, [&](std::size_t a, std::size_t b) { return share(a) > share(b); });
            working_.resize(static_cast<std::size_t>(groups));
            std::ranges::sort(working_);
        }
        // A part with less than half of the smallest possible piece would end much later than the
        // others, so it gets nothing.
        double all = 0;
        for (const std::size_t part : working_) all += share(part);
        const auto highest = static_cast<double>(launch.groups(launch.dimensions - 1));
        while (!equal && working_.size() > 1) {
            const auto least = std::ranges::min_element(
                working_, [&](std::size_t a, std::size_t b) { return share(a) < share(b); });
            const double pieces =
                highest >= static_cast<double>(working_.size()) ? highest : groups;
            if (share(*least) / all * pieces >= 0.5) break;
            all -= share(*least);
            working_.erase(least);
        }
        sums_.push_back(0);
        for (const std::size_t part : working_)
            sums_.push_back(sums_.back() + (equal ? 1.0 : share(part)));
    }

    std::vector<SubRange> cut() && {
        if (working_.empty()) return std::move(parts_);
        const Groups all{{0, 0, 0}, {launch_.groups(0), launch_.groups(1), launch_.groups(2)}};
        const unsigned highest = launch_.dimensions - 1;
        if (all.count(highest) >= working_.size()) {
            slice(all, highest);
        } else {
            halve(all, 0, working_.size());
        }
        return std::move(parts_);
    }

private:
    /// The sum of the shares of the working parts [first, last).
    [[nodiscard]] double sum(std::size_t first, std::size_t last) const {
        return sums_[last] - sums_[first];
    }

    void slice(const Groups &box, unsigned dimension) {
        const std::size_t count = box.count(dimension);
        Groups slice = box;
        for (std::size_t i = 0; i < working_.size(); ++i) {
            slice.begin[dimension] = i == 0 ? 0 : slice.end[dimension];
            const double end =
                std::floor(static_cast<double>(count) * (sum(0, i + 1) / sums_.back()) + 0.5);
            slice.end[dimension] =
                i + 1 == working_.size()
                    ? count
                    : std::clamp(static_cast<std::size_t>(end), slice.begin[dimension], count);
            give(working_[i], slice);
        }
    }

    /// Distributes the box to the parts [first, last). It cuts the box in two where this fits the
    /// shares best, and continues with both pieces.
    void halve(const Groups &box, std::size_t first, std::size_t last) {
        if (last - first == 1) return give(working_[first], box);
        Cut best;
        for (unsigned dimension = launch_.dimensions; dimension-- > 0;)
            consider(box, dimension, first, last, best);
        Groups low = box;
        Groups high = box;
        low.end[best.dimension] = high.begin[best.dimension] =
            box.begin[best.dimension] + best.groups;
        halve(low, first, best.part);
        halve(high, best.part, last);
    }

    struct Cut {
        double error = INFINITY;
        unsigned dimension = 0;
        std::size_t groups = 0;
        std::size_t part = 0;
    };
    void consider(const Groups &box, unsigned dimension, std::size_t first, std::size_t last,
                  Cut &best) const {
        const std::size_t count = box.count(dimension);
        if (count < 2) return;
        double across = 1;  // groups per layer
        for (unsigned other = 0; other < 3; ++other)
            across *= other == dimension ? 1.0 : static_cast<double>(box.count(other));
        for (std::size_t part = first + 1; part < last; ++part) {
            const double share = sum(first, part) / sum(first, last);
            // Each part gets at least one group.
            const double least = std::ceil(static_cast<double>(part - first) / across);
            const double most =
                static_cast<double>(count) - std::ceil(static_cast<double>(last - part) / across);
            if (least > most) continue;
            const double groups =
                std::clamp(std::floor(share * static_cast<double>(count) + 0.5), least, most);
            const double error = std::fabs(groups / static_cast<double>(count) - share);
            // Rounding errors must not prefer a lower dimension.
            if (error < best.error - 1e-9)
                best = {error, dimension, static_cast<std::size_t>(groups), part};
        }
    }

    void give(std::size_t part, const Groups &box) {
        for (unsigned d = 0; d < 3; ++d) {
            parts_[part].begin[d] = box.begin[d] * launch_.local[d];
            // The last group may be smaller.
            parts_[part].end[d] =
                box.end[d] == launch_.groups(d) ? launch_.global[d] : box.end[d] * launch_.local[d];
        }
        if (parts_[part].empty()) parts_[part] = {};
    }

    const Launch &launch_;
    std::vector<SubRange> parts_;
    std::vector<std::size_t> working_;  // parts that get work-items
    std::vector<double> sums_;          // cumulative sums of their shares, starting with 0
};

}  // namespace

std::vector<SubRange> partition(const Launch &launch, std::span<const double> shares) {
    return Partition(launch, shares).cut();
}

}  // namespace cldist::splitting
