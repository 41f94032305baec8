#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cldist::collectives {

enum class Kind {
    broadcast,
    scatter,
    gather,
    all_gather,
    all_to_all,
    reduce,
    all_reduce,
    reduce_scatter,
    scan
};
constexpr Kind all_kinds[] = {Kind::broadcast,  Kind::scatter,        Kind::gather,
                              Kind::all_gather, Kind::all_to_all,     Kind::reduce,
                              Kind::all_reduce, Kind::reduce_scatter, Kind::scan};
[[nodiscard]] const char *name_of(Kind kind);

/// The algorithm of the processes, or of the devices if there is only one process.
enum class Algorithm {
    /// From one source, which the cluster platform does through a tree, or to one destination.
    linear,
    parts,          ///< each receives or combines one part, and then all exchange their parts
    pairwise,       ///< each reads from all others, from a different one in each step
    through_first,  ///< the first combines all sources and sends the result to the others
    tree,           ///< like through_first, but each step halves the number of partial results
    chain           ///< one after the other
};
[[nodiscard]] const char *name_of(Algorithm algorithm);

/// The algorithm for `devices` devices in `processes` runs (runs_of()). `bytes` is bytes_to_copy.
[[nodiscard]] Algorithm choose(Kind kind, std::size_t processes, std::size_t devices,
                               std::size_t bytes);

/// `offset` bytes into a source, a destination, or the library's memory for destination `index`.
enum class Role { source, destination, own };
struct Place {
    Role role;
    std::size_t index;
    std::size_t offset;
};

/// Copies `from` to `to`, or combines `from` with the contents of `to`, on the queue of destination
/// `queue`. Steps are listed in a valid sequential order.
struct Step {
    bool combines;
    std::size_t queue;
    Place to;
    Place from;
    std::size_t size;
};

struct Schedule {
    std::vector<Step> steps;
    std::vector<std::size_t> own;  ///< bytes of the library's memory for each destination
};

struct Task {
    Kind kind;
    std::size_t n;
    std::size_t bytes;
    std::size_t element = 1;
    bool in_place = false;  ///< a destination is the same memory as its source
    /// For each destination's device: its process (for a broadcast: its host). Empty if there is
    /// only one process. Neighbouring devices of one process combine first, and one of them
    /// receives data for all of them.
    std::vector<std::uint32_t> processes{};
};

/// Neighbouring devices of one process (for a broadcast: of one host).
struct Run {
    std::size_t begin;
    std::size_t end;
};
[[nodiscard]] std::vector<Run> runs_of(const Task &task);

[[nodiscard]] Schedule make_schedule(const Task &task, Algorithm algorithm);

}  // namespace cldist::collectives
