#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/config.hpp"
#include "doctor_system.hpp"
#include "finding.hpp"
#include "pipeline/profile_file.hpp"
#include "probes.hpp"

namespace cldist::tool {

/// Facts about the OpenCL loader.
struct LoaderFacts {
    std::size_t platforms = 0;           ///< seen by this process
    std::vector<std::string> installed;  ///< names of *.icd files
    /// variables that select platforms, with their values
    std::vector<std::pair<std::string, std::string>> environment;
    bool openmpi_job = false;  ///< started by Open MPI's mpirun
};

/// Facts about PoCL's CPU device: each rank computes with `threads` threads.
struct PoclFacts {
    unsigned threads = 1;
    bool limited = false;  ///< by POCL_MAX_PTHREAD_COUNT
};

// These functions are pure.
[[nodiscard]] Finding judge_loader(const LoaderFacts &facts);
[[nodiscard]] Finding judge_pocl(const PoclFacts &facts, const HostFacts &host);
/// `device` is printed in front of each fact, such as "device 0.1".
[[nodiscard]] Findings judge_user_event(const std::string &device, const Answer &answer);
[[nodiscard]] Findings judge_pageable_copy(const std::string &device, const Answer &answer);
[[nodiscard]] Findings judge_error_code(const std::string &device, const Answer &answer);
[[nodiscard]] Findings judge_failed_event(const std::string &device, const Answer &answer);
[[nodiscard]] Finding judge_profile(const std::string &device, const FoundProfile &found);
[[nodiscard]] Findings judge_profiling(const std::string &device, const Answer &answer);

/// A GPU: can kernels move messages between processes of one host?
[[nodiscard]] Finding judge_kernels(const std::string &device, const Answer &answer,
                                    Path requested);

/// Examines platforms, devices, and the behaviour of their drivers. Takes some seconds.
[[nodiscard]] Findings opencl_findings(const HostFacts &host, bool openmpi_job);

}  // namespace cldist::tool
