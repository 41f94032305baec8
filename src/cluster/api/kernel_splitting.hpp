/// How kernels of an aggregate device are split: found when they are created, alike in all
/// processes.
#pragma once

#include <memory>
#include <string>

#include "cluster/objects/program.hpp"
#include "cluster/split/splitting.hpp"
#include "cluster/world/exchange.hpp"

namespace cldist::cluster {

/// Whether the accesses of the program's kernels can be derived. False if the analysis can't
/// compile the program. Collective.
bool agree_on_accesses(const Exchange &exchange, const ProgramObject &program);

/// Null unless the program's device is an aggregate. Collective.
std::shared_ptr<Splitting> agree_on_splitting(const Exchange &exchange,
                                              const ProgramObject &program, const KernelInfo &info);

/// The same kernel, with access functions that the program has set.
std::shared_ptr<Splitting> splitting_by_functions(
    const KernelObject &kernel, std::shared_ptr<const splitting::AccessModel> model);

}  // namespace cldist::cluster
