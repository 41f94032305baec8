#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace cldist::cluster {

/// A rank.
using Process = std::uint32_t;
/// The number of a device's memory over all processes. Native devices that share native buffers, as
/// in one native context, may have the same number.
using MemoryId = std::uint32_t;

/// Which process has which memories, and which host has which processes; the same in all processes.
/// Processes of one host stand side by side in the order of places, and so do the memories of one
/// process.
class Topology {
public:
    /// `host_of_process` has the number of each process's host, `process_of_memory` that of each
    /// memory's process.
    Topology(const std::vector<std::uint32_t> &host_of_process,
             const std::vector<Process> &process_of_memory);

    [[nodiscard]] std::uint32_t processes() const {
        return static_cast<std::uint32_t>(hosts_.size());
    }
    [[nodiscard]] std::uint32_t memories() const {
        return static_cast<std::uint32_t>(memories_.size());
    }
    [[nodiscard]] Process process_of(MemoryId memory) const { return memories_[memory].process; }
    [[nodiscard]] std::uint32_t host_of(Process process) const { return hosts_[process]; }
    /// Its number among those of its process.
    [[nodiscard]] std::uint32_t local_number(MemoryId memory) const {
        return memories_[memory].place - memories_[memory].in_process.begin;
    }
    [[nodiscard]] std::uint32_t memories_in(Process process) const { return memories_in_[process]; }

    /// Places are numbers of memories, in an order in which near memories are neighbours.
    struct Places {
        std::uint32_t begin;
        std::uint32_t end;
    };
    [[nodiscard]] std::uint32_t place_of(MemoryId memory) const { return memories_[memory].place; }
    [[nodiscard]] MemoryId memory_at(std::uint32_t place) const { return order_[place]; }
    [[nodiscard]] Places same_process(MemoryId memory) const {
        return memories_[memory].in_process;
    }
    [[nodiscard]] Places same_host(MemoryId memory) const { return memories_[memory].on_host; }

    /// A process's place in the tree by which what `root` has reaches all processes.
    struct Branch {
        std::optional<Process> parent;  ///< none for the root
        /// Other hosts first, then those with most below them first.
        std::vector<Process> children;
    };
    /// Each host gets the message once from another host, and forwards it in a tree. Both trees are
    /// binomial.
    [[nodiscard]] Branch branch(Process root, Process of) const;

private:
    struct MemoryEntry {
        Process process;
        std::uint32_t place;
        Places in_process;
        Places on_host;
    };

    std::vector<std::uint32_t> hosts_;        // of each process
    std::vector<std::uint32_t> memories_in_;  // each process
    std::vector<MemoryEntry> memories_;       // by number
    std::vector<MemoryId> order_;             // by place
    // The processes of each host; hosts by their first process.
    std::vector<std::vector<Process>> members_;
    std::vector<std::uint32_t> members_of_process_;  // index into members_ of each process
    std::vector<std::uint32_t> number_on_host_;      // of each process
};

}  // namespace cldist::cluster
