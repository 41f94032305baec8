#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CL/cl.h>
#include <nlohmann/json.hpp>

namespace cldist::tool {

/// A device as its index in the lists of platforms and devices. A child process has the same lists.
struct DevicePlace {
    std::size_t platform = 0;
    std::size_t device = 0;
};

/// The word for a type of device, such as "GPU".
[[nodiscard]] const char *type_text(cl_device_type type);

/// Queries that may crash or hang run in a child process, which is this program again: `cldist
/// probe QUESTION …`. This function executes the query in the child and prints the answer, a JSON
/// object, on standard output. Returns the exit status.
///
/// Queries about a device, followed by its place: user-event, pageable-copy, error-code,
/// failed-event, profiling, kernels. About MPI: mpi. About the cluster platform: cluster, followed
/// by the number of a process and the number of processes of its host.
int run_probe(const std::string &question, DevicePlace place);

/// The answer to a query.
struct Answer {
    nlohmann::json value;  ///< null after a failure
    std::string failure;   ///< describes the failure of the child process
};

/// Runs a query in a child process, which is killed after 20 seconds. `variables` ("NAME=VALUE")
/// replace the child's environment.
[[nodiscard]] Answer ask(const std::string &question, DevicePlace place = {},
                         std::vector<std::string> variables = {});

}  // namespace cldist::tool
