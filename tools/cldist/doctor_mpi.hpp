#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mpi.h>

#include "doctor_system.hpp"
#include "finding.hpp"
#include "probes.hpp"

namespace cldist::tool {

/// How the launcher started this process.
struct Launch {
    bool by_launcher = false;
    bool by_openmpi = false;
    int size = 1;  ///< number of processes; 1 if the launcher does not set it
};
[[nodiscard]] Launch find_launch();

/// Two ranks, and the number of pairs of the same two hosts that they represent.
struct Pair {
    int a;
    int b;
    std::size_t of = 1;

    bool operator==(const Pair &) const = default;
};

/// The pairs of ranks to measure: all pairs, or if these are more than `most`, one within each host
/// and one for each two hosts, at most `most`. `hosts` is the host of each rank as a number. Pure.
[[nodiscard]] std::vector<Pair> choose_pairs(const std::vector<int> &hosts, std::size_t most);

/// Whether Open MPI's setting `btl` allows shared memory. Pure.
[[nodiscard]] bool leaves_shared_memory(std::string_view btl);

/// The device that a rank would use.
struct RankDevice {
    std::string host;
    int host_number = 0;   ///< equal for ranks of one host
    std::string name;      ///< such as "device 0.3, NVIDIA H200"; empty if there is none
    std::string identity;  ///< equal for ranks of one host that use the same device
    bool is_cpu = false;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankDevice, name, identity, is_cpu)
/// One line for each rank. Pure.
[[nodiscard]] Findings judge_ranks(const std::vector<RankDevice> &ranks);

/// The version of the MPI library, in one line. MPI need not be initialised.
[[nodiscard]] Finding describe_mpi_library();
[[nodiscard]] Finding judge_thread_level(bool multiple);
/// For a process that no launcher started. Tries MPI in a child process.
[[nodiscard]] Findings mpi_findings_alone();

/// The MPI job that this process belongs to, between MPI_Init and MPI_Finalize. All calls are
/// collective.
class Job {
public:
    Job();
    Job(const Job &) = delete;
    Job &operator=(const Job &) = delete;
    ~Job();

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return size_; }
    /// Whether this rank examines its host, as the lowest rank of each host does.
    [[nodiscard]] bool looks_at_host() const { return host_rank_ == 0; }
    /// The number of this rank on its host.
    [[nodiscard]] int host_rank() const { return host_rank_; }
    /// The number of ranks on this host.
    [[nodiscard]] int host_size() const {
        int size = 1;
        MPI_Comm_size(host_, &size);
        return size;
    }
    /// The host of each rank, as a number.
    [[nodiscard]] const std::vector<int> &hosts() const { return hosts_; }
    /// The host of each rank; in rank 0 only.
    [[nodiscard]] const std::vector<std::string> &host_names() const { return host_names_; }
    [[nodiscard]] HostFacts host_facts() const;

    /// Findings that concern all ranks: library, thread level, launcher.
    [[nodiscard]] Findings job_findings(const Launch &launch) const;
    /// Judges whether ranks that wait in MPI calls take CPU time from the other ranks of this host.
    [[nodiscard]] Finding judge_idle(const HostFacts &facts) const;
    /// The host of each rank, and the device that it would use.
    [[nodiscard]] Findings rank_findings() const;
    [[nodiscard]] Findings pair_findings() const;

    /// Waits for all ranks without using CPU time, which would disturb measurements.
    void wait_for_all() const;
    /// The texts of all ranks in rank 0; empty in other ranks.
    [[nodiscard]] std::vector<std::string> gather(const std::string &text) const;

private:
    int rank_ = 0;
    int size_ = 1;
    int host_rank_ = 0;
    MPI_Comm host_ = MPI_COMM_NULL;
    std::vector<int> hosts_;               ///< of each rank, as a number
    std::vector<std::string> host_names_;  ///< of each rank; in rank 0 only
    std::string shared_memory_setting_;    ///< Open MPI's `btl`
};

}  // namespace cldist::tool
