#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace cldist::cluster {

/// A rank.
using Process = std::uint32_t;
/// The global number of a device memory. Native devices that share native buffers, for example in
/// one native context, may have the same number.
using MemoryId = std::uint32_t;

/// Maps memories to processes and processes to hosts; the same in all processes. Each memory has a
/// place, and the places of one process, and of one host, are contiguous.
class Topology {
public:
    /// `host_of_process` is indexed by process, `process_of_memory` by memory.
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
    /// The memory's number within its process.
    [[nodiscard]] std::uint32_t local_number(MemoryId memory) const {
        return memories_[memory].place - memories_[memory].in_process.begin;
    }
    [[nodiscard]] std::uint32_t memories_in(Process process) const { return memories_in_[process]; }

    /// Places are the positions of memories in an order in which near memories are neighbours.
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

    /// A process's node in the broadcast tree of `root`.
    struct Branch {
        std::optional<Process> parent;  ///< none for the root
        /// Children on other hosts come first; within each group, larger subtrees come first.
        std::vector<Process> children;
    };
    /// Each host receives the message once from another host and forwards it to its processes in a
    /// tree. Both trees are binomial.
    [[nodiscard]] Branch branch(Process root, Process of) const;

private:
    struct MemoryEntry {
        Process process;
        std::uint32_t place;
        Places in_process;
        Places on_host;
    };

    std::vector<std::uint32_t> hosts_;        // by process
    std::vector<std::uint32_t> memories_in_;  // by process
    std::vector<MemoryEntry> memories_;       // by number
    std::vector<MemoryId> order_;             // by place
    // The processes of each host. Hosts are in the order of their first processes.
    std::vector<std::vector<Process>> members_;
    std::vector<std::uint32_t> members_of_process_;  // index into members_, by process
    std::vector<std::uint32_t> number_on_host_;      // by process
};

}  // namespace cldist::cluster
