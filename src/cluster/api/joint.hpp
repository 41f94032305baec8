/// Commands of an aggregate device's queue: what is done on its lanes (decision 32).
#pragma once

#include <utility>
#include <vector>

#include "cluster/world/world.hpp"

namespace cldist::cluster {

/// A command of an aggregate queue, while its parts are enqueued on lanes.
class Joint {
public:
    /// All references must outlive it. `wait_list` is checked.
    Joint(QueueObject &queue, cl_command_type type, std::span<EventObject *const> wait_list,
          bool event_wanted)
        : queue_(queue), type_(type), wait_list_(wait_list), event_wanted_(event_wanted) {}

    [[nodiscard]] bool event_wanted() const { return event_wanted_; }

    /// Enqueues a part of it on its queue, a lane. `native` as in Executor::run(). The part's event
    /// is null where it is neither wanted nor known.
    template <typename Native>
    Ref<EventObject> run(Enqueued &&command, Native &&native) {
        const auto waits = waits_on(command.queue);
        command.wait_list = waits;
        command.whole_wait_list = wait_list_;
        Ref<EventObject> part = World::get().executor().run(
            std::move(command),
            event_wanted_ && (command.queue.is_native() || command.result.size > 0),
            std::forward<Native>(native));
        add(command.queue, part);
        return part;
    }

    /// Its event, which is null unless it is wanted. `told_all`: every process knows how it ends.
    /// Lanes of this process that have no part of it get a marker where it must end behind what is
    /// before it there, or what comes behind it there must wait.
    Ref<EventObject> end(bool told_all = false);

private:
    [[nodiscard]] std::vector<EventObject *> waits_on(const QueueObject &lane) const;
    void add(QueueObject &lane, const Ref<EventObject> &part);

    QueueObject &queue_;
    const cl_command_type type_;
    const std::span<EventObject *const> wait_list_;
    const bool event_wanted_;
    std::vector<QueueObject *> used_;
    std::vector<std::pair<QueueObject *, Ref<EventObject>>> parts_;
};

/// The lane for a command that one device alone executes on bytes of a memory object: the lane
/// whose device has most of these bytes. The queue itself if its device is no aggregate.
QueueObject &lane_for(QueueObject &queue, MemObject &memory, std::size_t begin, std::size_t end);
inline QueueObject &lane_for(QueueObject &queue, MemObject &memory) {
    return lane_for(queue, memory, 0, memory.size);
}

/// Calls `use(lane)` for one lane of this process for each memory that it has.
template <typename Use>
void for_each_memory_here(const QueueObject &queue, Use &&use) {
    for (std::size_t i = 0; i < queue.own_lanes.size(); ++i) {
        const MemoryId memory = queue.own_lanes[i]->device->memory;
        bool is_first = true;
        for (std::size_t j = 0; j < i; ++j)
            is_first = is_first && queue.own_lanes[j]->device->memory != memory;
        if (is_first) use(*queue.own_lanes[i]);
    }
}

/// Bytes [begin, end) of a root, and where they are.
struct HeldPiece {
    std::size_t begin;
    std::size_t end;
    bool everywhere;  ///< every device has them
    Holders holders;  ///< none: nobody does
};
/// In order.
std::vector<HeldPiece> pieces_of(const QueueObject &queue, MemObject &root, std::size_t begin,
                                 std::size_t end);
/// The first lane whose memory belongs to a holder; the first of all lanes if there is no holder.
QueueObject &lane_of(const QueueObject &queue, const Holders &holders);

}  // namespace cldist::cluster
