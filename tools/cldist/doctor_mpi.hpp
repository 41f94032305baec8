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

/// How the launcher says it started this process.
struct Launch {
    bool by_launcher = false;
    bool by_openmpi = false;
    int size = 1;  ///< processes; 1 if the launcher does not tell
};
[[nodiscard]] Launch find_launch();

/// Two ranks, and how many pairs of the same two hosts they stand for.
struct Pair {
    int a;
    int b;
    std::size_t of = 1;

    bool operator==(const Pair &) const = default;
};

/// Which pairs are measured: all, or where these are too many one of each two hosts, at most `most`. `hosts` has the host of
/// each rank as a number. Pure.
[[nodiscard]] std::vector<Pair> choose_pairs(const std::vector<int> &hosts, std::size_t most);

/// Whether Open MPI's setting `btl` leaves shared memory in use. Pure.
[[nodiscard]] bool leaves_shared_memory(std::string_view btl);

/// Which device a rank would take.
struct RankDevice {
    std::string host;
    int host_number = 0;   ///< the same for ranks of one host
    std::string name;      ///< "device 0.3, NVIDIA H200"; empty if there is none
    std::string identity;  ///< the same for ranks of one host that take the same device
    bool processor = false;
};
/// One line for each rank. Pure.
[[nodiscard]] Findings judge_ranks(const std::vector<RankDevice> &ranks);

/// The version of the MPI library, in one line. MPI need not be initialised.
[[nodiscard]] Finding describe_mpi_library();
[[nodiscard]] Finding judge_thread_level(bool multiple);
/// Of a process that no launcher started; MPI is tried in a child process.
[[nodiscard]] Findings mpi_findings_alone();

/// The MPI job that this process belongs to, between MPI_Init and MPI_Finalize. All calls are collective.
class Job {
public:
    Job();
    Job(const Job &) = delete;
    Job &operator=(const Job &) = delete;
    ~Job();

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return size_; }
    /// The lowest rank of each host looks at the host.
    [[nodiscard]] bool looks_at_host() const { return host_rank_ == 0; }
    /// The number of this rank among those of its host.
    [[nodiscard]] int host_rank() const { return host_rank_; }
    /// How many ranks are on this host.
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

    /// What is the same for all: library, thread level, whether the launcher fits.
    [[nodiscard]] Findings job_findings(const Launch &launch) const;
    /// Waiting ranks on this host.
    [[nodiscard]] Finding judge_idle(const HostFacts &facts) const;
    /// Where each rank is and which device it would take.
    [[nodiscard]] Findings rank_findings() const;
    [[nodiscard]] Findings pair_findings() const;

    /// Waits for all, without taking processor time from those that measure.
    void wait_for_all() const;
    /// The texts of all ranks, in rank 0; in others nothing.
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
