#pragma once

#include <span>

namespace cldist::cluster {

/// What the end of a command promises the host beside its own end: results, the bytes that commands bring to the host memory
/// of every process, which are there when the host sees that end, however it waits. One rule for all ways of waiting: a
/// command's own result, all that the ends in its wait list promise and, through its queue, all that those promise behind
/// which it is ordered there.
///
/// `Results` is a set of them; a default one is empty.
template <typename Results>
struct QueuePromises {
    Results all{};     ///< of all its commands so far: of clFinish
    Results before{};  ///< of an out-of-order queue: of those before its last barrier
};

/// How a command stands in its queue.
enum class Place {
    in_order,
    unordered,   ///< on an out-of-order queue
    behind_all,  ///< there a marker without wait list
    barrier,     ///< there, with a wait list
    barrier_behind_all,
};

/// What the end of the next command of a queue promises. `own` is its result, `waits` has the promises in its wait list;
/// `join(a, b)` makes one set of two.
template <typename Results, typename Join>
Results promise_of_next(QueuePromises<Results> &queue, Place place, Results own, std::span<const Results> waits,
                        Join &&join) {
    const bool behind_all = place != Place::unordered && place != Place::barrier;
    Results promised = join(behind_all ? queue.all : queue.before, own);
    for (const Results &results : waits) promised = join(promised, results);
    queue.all = behind_all ? promised : join(queue.all, promised);
    if (place == Place::barrier || place == Place::barrier_behind_all) queue.before = join(queue.before, promised);
    return promised;
}

}  // namespace cldist::cluster
