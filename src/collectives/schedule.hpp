#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cldist::collectives {

enum class Kind { broadcast, scatter, gather, all_gather, all_to_all, reduce, all_reduce, reduce_scatter, scan };
constexpr Kind all_kinds[] = {Kind::broadcast,  Kind::scatter,        Kind::gather,
                              Kind::all_gather, Kind::all_to_all,     Kind::reduce,
                              Kind::all_reduce, Kind::reduce_scatter, Kind::scan};
[[nodiscard]] const char *name_of(Kind kind);

/// How the processes do it, or the devices where there is one process.
enum class Algorithm {
    linear,         ///< from the one source, or to the one destination; the cluster platform makes a tree of the former
    parts,          ///< each gets a part, then the others' from them
    pairwise,       ///< each takes from all others, at each step from another
    through_first,  ///< the first combines all, and gives it to the others
    tree,           ///< half as many have something to combine after each step; the first gives it to the others
    chain           ///< one after the other
};
[[nodiscard]] const char *name_of(Algorithm algorithm);

/// What is chosen for `devices` of `processes` processes (of a broadcast: hosts), and `bytes`, which is what the call's
/// bytes_to_copy is.
[[nodiscard]] Algorithm choose(Kind kind, std::size_t processes, std::size_t devices, std::size_t bytes);

/// A source, a destination, or memory of the library's for destination `index`; bytes from where that begins.
enum class Role { source, destination, own };
struct Place {
    Role role;
    std::size_t index;
    std::size_t offset;
};

/// Copies `from` to `to`, or combines what is there with it, on the queue of destination `queue`. Steps are in an order in
/// which they could run one after the other.
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
    bool in_place = false;  ///< some destination is where its source is
    /// Of each destination's device (of a broadcast: the host); empty if all are of one. Those that stand side by side in one process combine first, and
    /// get from the others what one of them has got.
    std::vector<std::uint32_t> processes{};
};

/// Neighbours in one process.
struct Run {
    std::size_t begin;
    std::size_t end;
};
[[nodiscard]] std::vector<Run> runs_of(const Task &task);

[[nodiscard]] Schedule make_schedule(const Task &task, Algorithm algorithm);

}  // namespace cldist::collectives
