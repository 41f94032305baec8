#pragma once

#include "cluster/objects/queue.hpp"
#include "cluster/split/splitting.hpp"

namespace cldist::cluster {

/// For CLDIST_CHECK_ACCESS. Called before the launch. Logs bytes that a part reads according to its
/// accesses, although nothing has written them.
void check_contents(const KernelObject &kernel, const SplitLaunch &split,
                    const SplitLaunch::PartOfLaunch &part, const Schedule &schedule);
/// For CLDIST_CHECK_ACCESS. Runs a part on copies of its buffers, after the bytes that it reads
/// have arrived. Logs bytes that it reads undeclared (its output depends on them) or writes
/// undeclared. Also logs bytes that it leaves unchanged although they are declared as written and
/// not as read. The part's own buffers stay unchanged. Waits for the device. `with_local`: the
/// native launch gets the local size, too.
void check_part(const QueueObject &lane, const KernelObject &kernel, const SplitLaunch &split,
                const SplitLaunch::PartOfLaunch &part, bool with_local);

}  // namespace cldist::cluster
