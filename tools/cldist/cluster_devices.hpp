#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "finding.hpp"
#include "probes.hpp"

namespace cldist::tool {

/// The platform and devices that a process of the cluster platform would find on its host.
struct ClusterAnswer {
    /// The reason why a program does not see the platform, or empty.
    std::string platform_failure;
    std::string places;                 ///< CLDIST_NATIVE_ICDS
    std::string choice;                 ///< CLDIST_DEVICES
    std::string choice_failure;         ///< the error in that setting, or empty
    std::vector<std::string> left_out;  ///< drivers that can't be opened, with the reason
    std::vector<std::string> there;     ///< the host's devices: "pthread-haswell (CPU)"
    std::vector<std::string> mine;      ///< the devices that the process gets, in the same form

    bool operator==(const ClusterAnswer &) const = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ClusterAnswer, platform_failure, places, choice, choice_failure,
                                   left_out, there, mine)

/// The folder that contains only cldist-cluster.icd, with a slash at its end. Throws
/// std::runtime_error if it is missing.
[[nodiscard]] std::string vendors();

/// Examines the host as process `number` of `processes`: loads the platform and the host's drivers.
/// Must be called only in a child process started by ask_cluster(), before any other OpenCL call.
[[nodiscard]] ClusterAnswer look_as_process(std::size_t number, std::size_t processes);

/// Runs look_as_process() in a child process, in the environment that `cldist run` gives to
/// programs. Unless empty, `devices` replaces CLDIST_DEVICES.
[[nodiscard]] Answer ask_cluster(std::size_t number, std::size_t processes,
                                 const std::string &devices = {});

/// The reason in one line why a program can't run with these devices, and the exit status.
struct Refusal {
    std::string text;
    int status = 0;  ///< 0: the program can run; then `text` is a warning or empty

    bool operator==(const Refusal &) const = default;
};
[[nodiscard]] Refusal refusal_of(const Answer &answer);

/// The findings of `cldist doctor` about the cluster platform.
[[nodiscard]] Finding judge_cluster(const Answer &answer);
[[nodiscard]] Finding cluster_finding();

/// `cldist devices`, in each process of its job: rank 0 prints the devices of all processes.
/// Returns the exit status.
int list_devices();

}  // namespace cldist::tool
