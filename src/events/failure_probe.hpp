#pragma once

#include <string>
#include <vector>

#include <CL/cl.h>

namespace cldist {

/// Returns true if the platform of `device` survives a failed command for which other commands wait
/// and whose event nobody holds (Quirks::uses_ended_events). The program event-probe tests this in
/// a child process, once per device name and driver version.
bool survives_failed_events(cl_device_id device);

/// Sets the drivers that the child process loads if this process's loader sees only the cluster
/// platform. `place` is a folder with .icd files, an .icd file or a library. `libraries` are the
/// drivers. Call it before survives_failed_events().
void probe_drivers(const std::string &place, const std::vector<std::string> &libraries);

}  // namespace cldist
