#pragma once

#include <span>

namespace cldist::cluster {

/// When the host sees the end of a command, however it waits, certain results must have arrived:
/// the bytes that commands bring to the host memory of every process. The command's end promises
/// them. One rule covers all ways of waiting. A command promises its own result, all promises of
/// the ends in its wait list, and the promises of the commands before it in its queue, if the queue
/// orders it after these.
///
/// `Results` is a set of them; a default one is empty.
template <typename Results>
struct QueuePromises {
    Results all{};     ///< of all its commands so far: of clFinish
    Results before{};  ///< of an out-of-order queue: of those before its last barrier
};

/// How its queue orders a command.
enum class Place {
    in_order,
    unordered,   ///< on an out-of-order queue
    behind_all,  ///< there a marker without wait list
    barrier,     ///< there, with a wait list
    barrier_behind_all,
};

constexpr bool is_behind_all(Place place) {
    return place != Place::unordered && place != Place::barrier;
}

/// The promises of the ends before the next command of a queue. `waits` has those in its wait list;
/// `join(a, b)` makes one set of two.
template <typename Results, typename Join>
Results promised_before(const QueuePromises<Results> &queue, Place place,
                        std::span<const Results> waits, Join &&join) {
    Results promised = is_behind_all(place) ? queue.all : queue.before;
    for (const Results &results : waits) promised = join(promised, results);
    return promised;
}
/// The end of the next command of a queue promises `promised`: its own result and
/// promised_before().
template <typename Results, typename Join>
void note_promise(QueuePromises<Results> &queue, Place place, const Results &promised,
                  Join &&join) {
    queue.all = is_behind_all(place) ? promised : join(queue.all, promised);
    if (place == Place::barrier || place == Place::barrier_behind_all)
        queue.before = join(queue.before, promised);
}

/// Returns what the end of the next command of a queue promises. `own` is the command's result.
template <typename Results, typename Join>
Results promise_of_next(QueuePromises<Results> &queue, Place place, Results own,
                        std::span<const Results> waits, Join &&join) {
    Results promised = join(promised_before(queue, place, waits, join), own);
    note_promise(queue, place, promised, join);
    return promised;
}

}  // namespace cldist::cluster
