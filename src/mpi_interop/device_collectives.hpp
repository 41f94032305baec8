#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "mpi_interop/device_links.hpp"
#include "pipeline/collective_kernels.hpp"

namespace cldist {

struct Collective;
struct CollectiveSide;

/// A device-ordered collective.
struct OrderedCollective {
    OrderedCollective(std::shared_ptr<DeviceLinks> links, cl_command_queue on, const void *line)
        : command(std::move(links), Direction::collective, 0, OrderedCommand::Position::at_call,
                  line),
          queue(on) {}

    OrderedCommand command;
    const cl_command_queue queue;
    std::uint64_t number = 0;        ///< among the commands of the line
    std::optional<bool> on_devices;  ///< whether kernels carry it out, once decided
};

/// Returns this process's part in a collective, without addresses and values of flags. `block` is
/// the largest piece. All processes get the same number of work-groups and, for each two of them,
/// the same number of rounds.
[[nodiscard]] CollectiveWork plan_collective(const Collective &what, const CollectiveSide &send,
                                             const CollectiveSide &recv, int rank, int size,
                                             std::size_t block, bool on_cpu);

/// The operator and type of a reduction in OpenCL C. Nothing if the kernels do not know them.
[[nodiscard]] std::optional<CollectiveKernels::Combination> combination_of(const Collective &what);

/// The device-ordered collectives of one communicator. Each process announces for each command
/// whether its kernel may carry it out. If all kernels may, they do; otherwise the hosts carry it
/// out. Announcements begin after the processes have seen, in a collective of the hosts, that all
/// of them are ready. Thread-safe.
class DeviceCollectives {
public:
    /// Takes an arena. `world_ranks` are the members.
    DeviceCollectives(std::shared_ptr<DeviceLinks> links, std::vector<int> world_ranks, int rank);
    DeviceCollectives(const DeviceCollectives &) = delete;
    DeviceCollectives &operator=(const DeviceCollectives &) = delete;
    ~DeviceCollectives();

    static constexpr int most_members = CollectiveWork::most_members;
    [[nodiscard]] const DeviceLinks::Arena &arena() const { return arena_; }
    /// The members' arenas, in the order of the ranks. Once.
    void agree(std::vector<DeviceLinks::Arena> arenas);

    /// Returns true if a command on the device and queue may be device-ordered now. Otherwise
    /// prepares it.
    bool ready(const std::shared_ptr<DeviceResources> &resources, cl_command_queue queue);
    /// Returns true if ready() has found that this process reaches all members.
    [[nodiscard]] bool prepared() const;
    /// All members are prepared. Announcements begin with the next command.
    void activate();

    [[nodiscard]] CollectiveWork plan(const Collective &what, const CollectiveSide &send,
                                      const CollectiveSide &recv) const;
    [[nodiscard]] const std::shared_ptr<DeviceLinks> &links() const { return links_; }

    /// Adds the next command of the line. Sets the addresses and values in `work`. `queue` is null
    /// if the host carries it out.
    void enter(std::uint64_t number, CollectiveWork &work, cl_command_queue queue);
    void leave(std::uint64_t number);
    /// Tells the others whether a kernel may carry out the command. Returns false if the command
    /// must try again later.
    bool announce(std::uint64_t number, bool on_devices);
    /// Whether kernels carry out the command. Nothing while an announcement is missing.
    [[nodiscard]] std::optional<bool> decision(std::uint64_t number) const;

private:
    [[nodiscard]] std::size_t block() const;

    const std::shared_ptr<DeviceLinks> links_;
    const std::vector<int> world_ranks_;
    const int rank_;
    DeviceLinks::Arena arena_;

    mutable std::mutex mutex_;
    std::vector<DeviceLinks::Arena> arenas_;  ///< empty until agree(), or if a member has none
    /// That each two processes have done, by the other's rank.
    std::vector<std::uint32_t> rounds_;
    bool prepared_ = false;
    std::uint64_t last_ = 0;                             ///< number of the last command
    std::uint64_t first_ = 0;                            ///< the first that is announced; 0: none
    std::map<std::uint64_t, cl_command_queue> pending_;  ///< null: carried out by the host
    std::vector<CollectiveBoard *> boards_;              ///< of the members
    std::vector<DeviceLinks::ArenaAddress> addresses_;   ///< of their arenas
};

}  // namespace cldist
