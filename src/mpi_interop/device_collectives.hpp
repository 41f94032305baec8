#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "mpi_interop/announcements.hpp"
#include "mpi_interop/device_links.hpp"
#include "mpi_interop/ordered_command.hpp"
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
    std::uint64_t number = 0;        ///< position in the line
    std::optional<bool> on_devices;  ///< true if kernels carry it out; empty until decided
};

/// Returns this process's part in a collective, without addresses and flag values. `block` is the
/// largest piece, in bytes. All processes get the same number of work-groups, and both processes of
/// each pair get the same number of rounds.
[[nodiscard]] CollectiveWork plan_collective(const Collective &what, const CollectiveSide &send,
                                             const CollectiveSide &recv, int rank, int size,
                                             std::size_t block, bool on_cpu);

/// The operator and type of a reduction in OpenCL C; empty for other kinds. Nothing if the kernels
/// do not support them.
[[nodiscard]] std::optional<CollectiveKernels::Combination> combination_of(const Collective &what);

/// The device-ordered collectives of one communicator. For each command, each process announces
/// whether its kernel may carry it out. If all kernels may, they do. Otherwise the hosts do.
/// Announcements begin after a collective of the hosts has shown that all are ready. Thread-safe.
class DeviceCollectives {
public:
    /// Takes an arena. `world_ranks` are the members.
    DeviceCollectives(std::shared_ptr<DeviceLinks> links, std::vector<int> world_ranks, int rank);
    ~DeviceCollectives();

    static constexpr int most_members = CollectiveWork::most_members;
    [[nodiscard]] const DeviceLinks::Arena &arena() const { return arena_; }
    /// Sets the members' arenas, in the order of the ranks. Call it once.
    void agree(std::vector<DeviceLinks::Arena> arenas);
    /// After agree(): returns true if every member has an arena, so that kernels may carry out
    /// commands. The same in all processes.
    [[nodiscard]] bool agreed() const;

    /// Returns true if a command on the device and queue may be device-ordered now. Otherwise
    /// prepares for later commands.
    bool ready(const std::shared_ptr<DeviceResources> &resources, cl_command_queue queue);
    /// Returns true if ready() has found that this process reaches all members.
    [[nodiscard]] bool prepared() const;
    /// Call it when all members are prepared. Announcements begin with the next command.
    void activate();

    [[nodiscard]] CollectiveWork plan(const Collective &what, const CollectiveSide &send,
                                      const CollectiveSide &recv) const;
    [[nodiscard]] const std::shared_ptr<DeviceLinks> &links() const { return links_; }

    /// Adds the next command of the line, and sets the addresses and flag values in `work`. `queue`
    /// is null if this process's host carries it out.
    void enter(std::uint64_t number, CollectiveWork &work, cl_command_queue queue);
    void leave(std::uint64_t number);
    /// See Announcements.
    bool announce(std::uint64_t number, bool on_devices, const Collective &what,
                  const std::vector<PartSizes> &parts);
    [[nodiscard]] std::optional<bool> decision(std::uint64_t number, const Collective &what) const;

private:
    [[nodiscard]] std::size_t block() const;

    const std::shared_ptr<DeviceLinks> links_;
    const std::vector<int> world_ranks_;
    const int rank_;
    DeviceLinks::Arena arena_;

    mutable std::mutex mutex_;
    std::vector<DeviceLinks::Arena> arenas_;  ///< empty until agree(), or if a member has none
    /// By rank: the rounds with that process in all commands.
    std::vector<std::uint32_t> rounds_;
    std::uint64_t last_ = 0;                             ///< number of the last command
    std::map<std::uint64_t, cl_command_queue> pending_;  ///< null: host
    std::optional<Announcements> announcements_;         ///< empty until prepared
    std::vector<DeviceLinks::ArenaAddress> addresses_;   ///< the members' arenas'
};

}  // namespace cldist
