#pragma once

#include <string>
#include <vector>

#include <CL/cl.h>

namespace cldist {

/// Whether the platform of `device` survives that a command fails on which others wait whose events nobody holds. PoCL
/// 3.1 does not. Tried once per platform and version, in a child process (the program event-probe).
bool survives_failed_events(cl_device_id device);

/// The drivers that the child process shall find, where this process's loader knows the cluster platform alone: a folder with
/// .icd files, an .icd file or a library, and the libraries. Before the first question.
void probe_drivers(const std::string &place, const std::vector<std::string> &libraries);

}  // namespace cldist
