#pragma once

#include <span>
#include <vector>

#include "splitting/launch.hpp"

namespace cldist::splitting {

/// Cuts a launch into one part for each share, in their order; the parts are disjoint and have all work-items between them.
/// Shares are relative, as 1, 1, 2; one that is 0, negative or no number gets an empty part, and all parts are equal if none is
/// above 0.
///
/// The highest dimension is cut, as in DistCL, so that a part is mostly one range of rows; where it has fewer work-groups
/// than there are parts, lower dimensions are cut, too. No work-group is cut. Sizes are rounded to work-groups; a part
/// whose share is less than half of one, or of a layer of them where whole layers are cut, is empty. The same arguments give
/// the same parts, in every process.
std::vector<SubRange> partition(const Launch &launch, std::span<const double> shares);

}  // namespace cldist::splitting
