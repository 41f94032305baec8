#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "finding.hpp"
#include "probes.hpp"

namespace cldist::tool {

/// What a process of the cluster platform would find on its host.
struct ClusterAnswer {
    std::string platform_failure;       ///< why a program does not see the platform, or nothing
    std::string places;                 ///< CLDIST_NATIVE_ICDS
    std::string choice;                 ///< CLDIST_DEVICES
    std::string choice_failure;         ///< what is wrong with that, or nothing
    std::vector<std::string> left_out;  ///< drivers that can't be opened, with the reason
    std::vector<std::string> there;     ///< the host's devices: "pthread-haswell (CPU)"
    std::vector<std::string> mine;      ///< those that the process gets, in the same form

    bool operator==(const ClusterAnswer &) const = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ClusterAnswer, platform_failure, places, choice, choice_failure, left_out, there,
                                   mine)

/// The folder with nothing but cldist-cluster.icd, with a slash at its end. Throws std::runtime_error if it is not there.
[[nodiscard]] std::string vendors();

/// Looks as process `number` of the `processes` of this host: loads the platform and the host's drivers. To be called
/// only in a child process that ask_cluster() started, before any other call of OpenCL.
[[nodiscard]] ClusterAnswer look_as_process(std::size_t number, std::size_t processes);

/// Lets a child process look, in the environment that `cldist run` gives to programs. `devices` stands in place of
/// CLDIST_DEVICES unless it is empty.
[[nodiscard]] Answer ask_cluster(std::size_t number, std::size_t processes, const std::string &devices = {});

/// Why a program can't be run with what was found, in one line, and the exit status that says so.
struct Refusal {
    std::string text;
    int status = 0;  ///< 0: it can; then `text` is a warning, or nothing

    bool operator==(const Refusal &) const = default;
};
[[nodiscard]] Refusal refusal_of(const Answer &answer);

/// For doctor.
[[nodiscard]] Finding judge_cluster(const Answer &answer);
[[nodiscard]] Finding cluster_finding();

/// `cldist devices` in each process of its job: rank 0 prints what all processes get. Gives the exit status.
int list_devices();

}  // namespace cldist::tool
