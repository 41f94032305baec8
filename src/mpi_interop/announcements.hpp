#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/transfer_slots.hpp"

namespace cldist {

struct Collective;

/// The announcements of all processes about the collective commands on one communicator: whether a
/// kernel may carry out the command, a hash of the call, and for collectives with a size per
/// process the sizes. Not thread-safe.
class Announcements {
public:
    /// `boards`: one per process, in the order of the ranks. `rank`: this process's.
    Announcements(std::vector<CollectiveBoard *> boards, std::size_t rank)
        : boards_(std::move(boards)), rank_(rank) {}

    /// Announces the commands from this number on. Call it once.
    void begin(std::uint64_t first);
    [[nodiscard]] bool begun() const { return first_ != 0; }

    /// Announces the command. `oldest` is this process's first command that has not ended. `parts`:
    /// by rank, for collectives with a size per process. Returns false if the call must be repeated
    /// later.
    bool announce(std::uint64_t number, std::uint64_t oldest, bool on_devices,
                  const Collective &what, const std::vector<PartSizes> &parts = {});
    /// Returns true if kernels carry out the command, false if the hosts do, and nothing while an
    /// announcement is missing, also this process's. Throws an Error if another process called
    /// something else.
    [[nodiscard]] std::optional<bool> decision(std::uint64_t number, const Collective &what) const;

private:
    [[nodiscard]] std::uint64_t call_of(std::size_t rank, std::uint64_t number) const;
    /// How the sizes of this process and process `rank` differ.
    [[nodiscard]] std::string difference(std::size_t rank, std::uint64_t number) const;

    const std::vector<CollectiveBoard *> boards_;
    const std::size_t rank_;
    std::uint64_t first_ = 0;  ///< first announced command; 0: none
};

}  // namespace cldist
