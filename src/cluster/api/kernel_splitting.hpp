/// How the launches of an aggregate device's kernels are split. Decided when a kernel is created,
/// with the same result in all processes.
#pragma once

#include <memory>

#include "cluster/objects/program.hpp"
#include "cluster/split/splitting.hpp"
#include "cluster/world/exchange.hpp"

namespace cldist::cluster {

/// Returns whether the accesses of the program's kernels can be derived; false if the analysis
/// cannot compile the program. Collective.
bool agree_on_accesses(const Exchange &exchange, const ProgramObject &program);

/// Returns null unless the program's device is an aggregate. Collective.
std::shared_ptr<Splitting> agree_on_splitting(const Exchange &exchange,
                                              const ProgramObject &program, const KernelInfo &info);

/// Returns the kernel's splitting with access functions that the program has set.
std::shared_ptr<Splitting> splitting_by_functions(
    const KernelObject &kernel, std::shared_ptr<const splitting::AccessModel> model);

}  // namespace cldist::cluster
