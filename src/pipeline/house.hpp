#pragma once

namespace cldist {

/// Starts, once, the thread that lets go of device resources and file lanes that nobody has used for ten seconds. It is a
/// thread of its own, and nobody waits for it for long, because NVIDIA's driver (580) sometimes never returns from the
/// release of a context. When the program ends it stops.
void keep_house();

/// Lets go of all device resources that nobody uses now; returns once they are gone, or after five seconds.
void clear_house();

}  // namespace cldist
