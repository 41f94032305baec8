#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CL/cl.h>
#include <nlohmann/json.hpp>

namespace cldist::tool {

/// A device, by its place in the lists of platforms and devices, which a child process has too.
struct DevicePlace {
    std::size_t platform = 0;
    std::size_t device = 0;
};

[[nodiscard]] std::vector<cl_platform_id> all_platforms();
[[nodiscard]] std::vector<cl_device_id> all_devices(cl_platform_id platform);

/// What may crash or hang is asked in a child process, which is this program again: `cldist probe QUESTION …`. Does there
/// what is asked and prints the answer, a JSON object, on standard output. Gives the exit status.
///
/// Questions about a device (its place follows): user-event, pageable-copy, error-code, failed-event, profiling.
/// About MPI: mpi. About the cluster platform: cluster; the number of a process and of the processes of its host follow.
int run_probe(const std::string &question, DevicePlace place);

/// The answer to a question.
struct Answer {
    nlohmann::json value;  ///< null if there is none
    std::string failure;   ///< then: what became of the child, in words
};

/// Asks a child process, which is killed after 20 seconds.
/// `variables` ("NAME=VALUE") take the place of those of its environment.
[[nodiscard]] Answer ask(const std::string &question, DevicePlace place = {}, std::vector<std::string> variables = {});

}  // namespace cldist::tool
