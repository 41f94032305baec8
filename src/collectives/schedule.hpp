#pragma once

#include <cstddef>
#include <vector>

namespace cldist::collectives {

enum class Kind { broadcast, scatter, gather, all_gather, all_to_all, reduce, all_reduce, reduce_scatter, scan };

/// How it is done.
enum class Algorithm {
    linear,         ///< from the one source, or to the one destination, in turn
    binomial,       ///< who has it passes it on: twice as many have it after each step
    parts,          ///< each destination gets a part, then the others' from them
    direct,         ///< each destination takes from all sources, at each step from another
    through_first,  ///< the first destination combines all, then as binomial
    chain           ///< one after the other
};
[[nodiscard]] const char *name_of(Algorithm algorithm);

/// What is chosen for `n` buffers and `bytes`, which is what the call's bytes_to_copy is; `apart`: where devices have
/// processes of their own, which do best if none has to send to many. The same on all processes.
[[nodiscard]] Algorithm choose(Kind kind, std::size_t n, std::size_t bytes, bool apart);

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
};

[[nodiscard]] Schedule make_schedule(const Task &task, Algorithm algorithm);

}  // namespace cldist::collectives
