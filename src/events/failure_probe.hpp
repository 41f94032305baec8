#pragma once

#include <CL/cl.h>

namespace cldist {

/// Whether the platform of `device` survives that a command fails on which others wait whose events nobody holds. PoCL
/// 3.1 does not. Tried once per platform and version, in a child process (the program event-probe).
bool survives_failed_events(cl_device_id device);

}  // namespace cldist
