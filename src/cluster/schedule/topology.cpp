#include "cluster/schedule/topology.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "base/binomial_tree.hpp"

namespace cldist::cluster {

namespace {

/// The position of `index` among `count` elements, counted cyclically from `first`.
std::uint32_t from(std::uint32_t first, std::uint32_t index, std::uint32_t count) {
    return (index + count - first) % count;
}

}  // namespace

Topology::Topology(const std::vector<std::uint32_t> &host_of_process,
                   const std::vector<Process> &process_of_memory)
    : hosts_(host_of_process),
      memories_in_(host_of_process.size()),
      memories_(process_of_memory.size()),
      order_(process_of_memory.size()),
      members_of_process_(host_of_process.size()),
      number_on_host_(host_of_process.size()) {
    std::unordered_map<std::uint32_t, std::uint32_t> numbers;
    for (Process process = 0; process < processes(); ++process) {
        const auto [at, is_new] =
            numbers.try_emplace(hosts_[process], static_cast<std::uint32_t>(members_.size()));
        if (is_new) members_.emplace_back();
        number_on_host_[process] = static_cast<std::uint32_t>(members_[at->second].size());
        members_[at->second].push_back(process);
        members_of_process_[process] = at->second;
    }

    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::stable_sort(order_, [&](MemoryId a, MemoryId b) {
        const Process p = process_of_memory[a];
        const Process q = process_of_memory[b];
        return std::tie(members_of_process_[p], p) < std::tie(members_of_process_[q], q);
    });
    // Sets `member` of each memory to the run of places with the same key.
    const auto set_runs = [&](const auto &key, auto member) {
        for (std::uint32_t begin = 0; begin < memories();) {
            std::uint32_t end = begin;
            while (end < memories() && key(order_[end]) == key(order_[begin])) {
                ++end;
            }
            for (std::uint32_t place = begin; place < end; ++place) {
                memories_[order_[place]].*member = {begin, end};
            }
            begin = end;
        }
    };
    set_runs([&](MemoryId d) { return process_of_memory[d]; }, &MemoryEntry::in_process);
    set_runs([&](MemoryId d) { return hosts_[process_of_memory[d]]; }, &MemoryEntry::on_host);
    for (std::uint32_t place = 0; place < memories(); ++place) {
        MemoryEntry &entry = memories_[order_[place]];
        entry.place = place;
        entry.process = process_of_memory[order_[place]];
        ++memories_in_[entry.process];
    }
}

Topology::Branch Topology::branch(Process root, Process of) const {
    const auto hosts = static_cast<std::uint32_t>(members_.size());
    const std::uint32_t root_host = members_of_process_[root];
    const std::uint32_t host = members_of_process_[of];
    const auto leader_of = [&](std::uint32_t h) {
        return h == root_host ? root : members_[h].front();
    };
    const std::vector<Process> &mates = members_[host];
    const auto count = static_cast<std::uint32_t>(mates.size());
    const std::uint32_t leader_index = number_on_host_[leader_of(host)];
    // The position among the host's processes, counted from the leader.
    const std::uint32_t number = from(leader_index, number_on_host_[of], count);

    Branch branch;
    if (number > 0) {
        branch.parent = mates[(leader_index + parent_in_tree(number)) % count];
    } else {
        const std::uint32_t host_number = from(root_host, host, hosts);
        if (host_number > 0)
            branch.parent = leader_of((root_host + parent_in_tree(host_number)) % hosts);
        for (const std::uint32_t n : children_in_tree(host_number, hosts))
            branch.children.push_back(leader_of((root_host + n) % hosts));
    }
    for (const std::uint32_t n : children_in_tree(number, count))
        branch.children.push_back(mates[(leader_index + n) % count]);
    return branch;
}

}  // namespace cldist::cluster
