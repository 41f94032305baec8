/// Commands on a queue of the single virtual device, which are executed on the queue's lanes: one
/// queue for each member device (decision 32).
#pragma once

#include <utility>
#include <vector>

#include "cluster/world/world.hpp"

namespace cldist::cluster {

/// A command of an aggregate queue, while its parts are enqueued on lanes.
class Joint {
public:
    /// The references must outlive the object. `wait_list` must have been checked.
    Joint(QueueObject &queue, cl_command_type type, std::span<EventObject *const> wait_list,
          bool event_wanted)
        : queue_(queue), type_(type), wait_list_(wait_list), event_wanted_(event_wanted) {}

    /// Enqueues a part on its queue, a lane. `native` is as in Executor::run(). Returns the part's
    /// event, or null if it is not wanted or this process does not learn its end.
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

    /// Ends the command. Returns its event, or null if it is not wanted. `told_all`: every process
    /// learns how it ends. A lane of this process without a part gets a marker if the command must
    /// end after the lane's earlier commands, or if the lane's later commands must wait for it.
    Ref<EventObject> end(bool told_all = false);

private:
    [[nodiscard]] std::vector<EventObject *> waits_on(const QueueObject &lane) const;
    void add(QueueObject &lane, const Ref<EventObject> &part);

    QueueObject &queue_;
    const cl_command_type type_;
    const std::span<EventObject *const> wait_list_;
    const bool event_wanted_;
    std::vector<QueueObject *> used_;
    std::vector<Ref<EventObject>> parts_;
};

/// Returns the lane for a command that only one device executes on bytes [begin, end) of a memory
/// object: the lane whose device holds most of these bytes. Returns the queue itself if not
/// aggregate.
QueueObject &lane_for(QueueObject &queue, MemObject &memory, std::size_t begin, std::size_t end);
inline QueueObject &lane_for(QueueObject &queue, MemObject &memory) {
    return lane_for(queue, memory, 0, memory.size);
}

/// Calls `use(lane)` with one lane for each memory of this process.
template <typename Use>
void for_each_memory_here(const QueueObject &queue, Use &&use) {
    for (std::size_t i = 0; i < queue.natives.size(); ++i) {
        const MemoryId memory = queue.natives[i]->device->memory;
        bool is_first = true;
        for (std::size_t j = 0; j < i; ++j)
            is_first = is_first && queue.natives[j]->device->memory != memory;
        if (is_first) use(*queue.natives[i]);
    }
}

/// Bytes [begin, end) of a root memory object, and the memories that hold them.
struct HeldPiece {
    std::size_t begin;
    std::size_t end;
    bool everywhere;  ///< every device holds them
    Holders holders;  ///< empty if the bytes were never written, or if the schedule decides nothing
};
/// Returns the pieces of a range, in order.
std::vector<HeldPiece> pieces_of(const QueueObject &queue, MemObject &root, std::size_t begin,
                                 std::size_t end);
/// Returns the first lane whose memory is a holder, or the first lane if there is no holder.
QueueObject &lane_of(const QueueObject &queue, const Holders &holders);

}  // namespace cldist::cluster
