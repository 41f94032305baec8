#pragma once

#include <vector>

#include "cluster/execution/enqueued.hpp"
#include "cluster/execution/host_mode.hpp"
#include "cluster/objects/memory.hpp"
#include "cluster/schedule/schedule.hpp"

namespace cldist::cluster {

/// The root memory objects, by the schedule's numbers. Under the lock.
class MemoryObjects final : public Keeper<MemObject> {
public:
    MemoryObjects(Schedule &schedule, Process self, const HostMode &mode)
        : schedule_(schedule), self_(self), mode_(mode) {}

    /// Registers a new root memory object. forget() unregisters it.
    void know(MemObject &object, Contents contents);
    void forget(MemObject &object) override;
    [[nodiscard]] MemObject &operator[](BufferId id) const { return *objects_[id]; }

    /// Updates a buffer's homes after the schedule has attached it to a device or detached it.
    void note_home(BufferId id);
    /// For objects with CL_MEM_USE_HOST_PTR: notes whether the command writes, reads or maps them.
    void note_host_memory(const Enqueued &command);
    /// Warns of each such object that a device has written and the program never read or mapped.
    void warn_of_unseen() const;

    /// From now on, counts the bytes that the schedule keeps for each memory object.
    void count_memory() { counts_memory_ = true; }

private:
    void warn_of_unseen(const MemObject &object) const;

    Schedule &schedule_;
    const Process self_;
    const HostMode &mode_;
    std::vector<MemObject *> objects_;
    bool counts_memory_ = false;
};

}  // namespace cldist::cluster
