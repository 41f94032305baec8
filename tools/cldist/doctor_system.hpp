#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "finding.hpp"

namespace cldist::tool {

/// The relevant facts about a host. Facts that could not be read are empty.
struct HostFacts {
    unsigned ranks = 1;  ///< of the job on this host
    unsigned cores = 1;  ///< usable by this job
    /// The smallest number of cores that a rank is bound to.
    unsigned cores_of_a_rank = 1;
    /// The container's limit on CPU time in cores; 0 if there is none.
    double quota_cores = 0;
    bool rdma = false;                           ///< the host has an InfiniBand-like network card
    std::optional<std::uint64_t> locked_memory;  ///< in bytes; empty: unlimited
    std::optional<std::uint64_t> open_files;     ///< empty: unlimited
    std::optional<std::uint64_t> shm_total;      ///< size of /dev/shm in bytes
    std::optional<std::uint64_t> shm_free;
    /// The contents of /proc/sys/kernel/yama/ptrace_scope.
    std::optional<std::string> ptrace_scope;
    bool reads_own_memory = true;           ///< whether process_vm_readv works at all
    std::optional<std::string> huge_pages;  ///< the contents of transparent_hugepage/enabled
    std::vector<std::string> governors;     ///< the distinct governors of all cores
};

/// Reads the facts from the system. `ranks` is the number of the job's ranks on this host.
[[nodiscard]] HostFacts host_facts(unsigned ranks);

/// One finding for each fact. Pure.
[[nodiscard]] Findings judge_host(const HostFacts &facts);

/// Judges the CLDIST_ variables of an environment of "NAME=value" strings. Pure.
[[nodiscard]] Findings judge_settings(const std::vector<std::string_view> &environment);

/// The number of cores for each rank, at least 1.
[[nodiscard]] unsigned cores_per_rank(const HostFacts &facts);

/// The path of a document: in the installation, or in the source folder.
[[nodiscard]] std::string document(const char *name);

/// The findings with a reference to the section of troubleshooting.md after the advice, if there is
/// one.
[[nodiscard]] Findings with_sections(Findings findings);

/// "64 MiB", "1.5 GiB".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

}  // namespace cldist::tool
