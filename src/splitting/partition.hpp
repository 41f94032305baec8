#pragma once

#include <span>
#include <vector>

#include "splitting/launch.hpp"

namespace cldist::splitting {

/// Cuts a launch into one part per share, in the same order. The parts are disjoint and together
/// contain all work-items. Shares are relative, such as 1, 1, 2. A share that is not positive and
/// finite gives an empty part. If there are only such shares, all parts are equal.
///
/// The highest dimension is cut, as in DistCL, so that a part is usually one range of rows. If it
/// has fewer work-groups than there are parts, lower dimensions are cut, too. Work-groups are never
/// cut. Sizes are rounded to work-groups. A part is empty if its share is less than half of the
/// smallest piece: a work-group, or a layer of work-groups if whole layers are cut. The result
/// depends only on the arguments and is equal in every process.
std::vector<SubRange> partition(const Launch &launch, std::span<const double> shares);

}  // namespace cldist::splitting
