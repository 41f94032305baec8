#pragma once

#include <vector>

namespace cldist {

// A binomial tree of the places 0 to count - 1. Place 0 is the root.

/// The parent: the place without its lowest set bit. Not for the root.
template <typename Place>
[[nodiscard]] constexpr Place parent_in_tree(Place place) {
    return place & (place - 1);
}

/// The children. Children with more places below them come first.
template <typename Place>
[[nodiscard]] std::vector<Place> children_in_tree(Place place, Place count) {
    Place step = 1;
    while (step < count && (place & step) == 0) step <<= 1;
    std::vector<Place> children;
    for (step >>= 1; step > 0; step >>= 1)
        if (place + step < count) children.push_back(place + step);
    return children;
}

}  // namespace cldist
