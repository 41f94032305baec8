#pragma once

#include "cluster/objects/queue.hpp"
#include "cluster/split/splitting.hpp"

namespace cldist::cluster {

/// CLDIST_CHECK_ACCESS: names what is wrong in what a kernel's parts are said to read and write.
///
/// Before the launch: names the bytes that a part is said to read and nobody has written.
void check_contents(const KernelObject &kernel, const SplitLaunch &split,
                    const SplitLaunch::PartOfLaunch &part, const Schedule &schedule);
/// Runs a part on copies of its memory, after the bytes that it is said to read have arrived.
/// Reports bytes that it reads without being said to: its output depends on them. Also reports
/// bytes that it writes without being said to, and bytes that it leaves unchanged although they are
/// said to be written, and not to be read. The memory itself is unchanged. Waits for the device.
/// `with_local`: the launch has its local size natively, too.
void check_part(const QueueObject &lane, const KernelObject &kernel, const SplitLaunch &split,
                const SplitLaunch::PartOfLaunch &part, bool with_local);

}  // namespace cldist::cluster
