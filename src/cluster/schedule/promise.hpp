#pragma once

#include <span>

namespace cldist::cluster {

/// The promises of a queue's commands. A command's end promises results: bytes that must have
/// arrived in the host memory of every process when the host sees the end. One rule covers all ways
/// of waiting. A command promises its own result, the promises of the events in its wait list, and
/// the promises of the earlier commands in its queue, if the queue orders it after them.
///
/// `Results` is a set of results; a default-constructed one is empty.
template <typename Results>
struct QueuePromises {
    Results all{};     ///< the promises of all commands, and of clFinish
    Results before{};  ///< for an out-of-order queue: the promises of its barriers
};

/// How a queue orders a command after its earlier commands.
enum class Ordering {
    in_order,
    unordered,           ///< on an out-of-order queue: not at all
    behind_all,          ///< on an out-of-order queue: a marker without wait list
    barrier,             ///< on an out-of-order queue: a barrier with wait list
    barrier_behind_all,  ///< on an out-of-order queue: a barrier without wait list
};

constexpr bool is_behind_all(Ordering ordering) {
    return ordering != Ordering::unordered && ordering != Ordering::barrier;
}

/// Returns the promises that the next command of a queue inherits. `waits` contains those of the
/// events in its wait list; `join(a, b)` returns the union of two sets.
template <typename Results, typename Join>
Results promised_before(const QueuePromises<Results> &queue, Ordering ordering,
                        std::span<const Results> waits, Join &&join) {
    Results promised = is_behind_all(ordering) ? queue.all : queue.before;
    for (const Results &results : waits) promised = join(promised, results);
    return promised;
}
/// Records that the next command of a queue promises `promised`: its own result and
/// promised_before().
template <typename Results, typename Join>
void note_promise(QueuePromises<Results> &queue, Ordering ordering, const Results &promised,
                  Join &&join) {
    queue.all = is_behind_all(ordering) ? promised : join(queue.all, promised);
    if (ordering == Ordering::barrier || ordering == Ordering::barrier_behind_all)
        queue.before = join(queue.before, promised);
}

/// Computes, records and returns the promises of the next command of a queue. `own` is its result.
template <typename Results, typename Join>
Results promise_of_next(QueuePromises<Results> &queue, Ordering ordering, Results own,
                        std::span<const Results> waits, Join &&join) {
    Results promised = join(promised_before(queue, ordering, waits, join), own);
    note_promise(queue, ordering, promised, join);
    return promised;
}

}  // namespace cldist::cluster
