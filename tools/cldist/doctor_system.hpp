#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "finding.hpp"

namespace cldist::tool {

/// What of a host matters. What could not be read is nothing.
struct HostFacts {
    unsigned ranks = 1;            ///< of the job, on this host
    unsigned cores = 1;            ///< that this job may run on
    unsigned cores_of_a_rank = 1;  ///< that a rank is bound to; the fewest
    double quota_cores = 0;        ///< what the container's limit on processor time amounts to; 0 if there is none
    bool rdma = false;             ///< it has a network card of the InfiniBand kind
    std::optional<std::uint64_t> locked_memory;  ///< bytes; nothing: unlimited
    std::optional<std::uint64_t> open_files;     ///< nothing: unlimited
    std::optional<std::uint64_t> shm_total;      ///< bytes of /dev/shm
    std::optional<std::uint64_t> shm_free;
    std::optional<std::string> ptrace_scope;  ///< the contents of /proc/sys/kernel/yama/ptrace_scope
    bool reads_own_memory = true;             ///< process_vm_readv works at all
    std::optional<std::string> huge_pages;    ///< the contents of transparent_hugepage/enabled
    std::vector<std::string> governors;       ///< the different ones of all cores
};

/// Asks the system. `ranks` of the job run on this host.
[[nodiscard]] HostFacts host_facts(unsigned ranks);

/// One line for each of them. Pure.
[[nodiscard]] Findings judge_host(const HostFacts &facts);

/// The CLDIST_ variables of an environment of "NAME=value" strings. Pure.
[[nodiscard]] Findings judge_settings(const std::vector<std::string_view> &environment);

/// The cores that are left to each rank, at least 1.
[[nodiscard]] unsigned cores_per_rank(const HostFacts &facts);

/// Where a document of this project is: installed, or in its source folder.
[[nodiscard]] std::string document(const char *name);

/// "64 MiB", "1.5 GiB".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

}  // namespace cldist::tool
