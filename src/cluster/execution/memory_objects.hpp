#pragma once

#include <vector>

#include "cluster/execution/enqueued.hpp"
#include "cluster/execution/host_mode.hpp"
#include "cluster/objects/memory.hpp"
#include "cluster/schedule/schedule.hpp"

namespace cldist::cluster {

/// The root memory objects, by the schedule's numbers. Under the lock.
class MemoryObjects final : public MemoryKeeper {
public:
    MemoryObjects(Schedule &schedule, Process self, const HostMode &mode)
        : schedule_(schedule), self_(self), mode_(mode) {}

    /// Registers a new root memory object; forget() ends that.
    void know(MemObject &object, Contents contents);
    void forget(MemObject &object) override;
    [[nodiscard]] MemObject &operator[](BufferId id) const { return *objects_[id]; }

    /// Notes that the schedule has attached a buffer to a device, or detached it.
    void note_home(BufferId id);
    /// Notes which objects with CL_MEM_USE_HOST_PTR a command writes, and which objects the program
    /// looks at.
    void note_host_memory(const Enqueued &command);
    /// Warns of objects whose new bytes the program has never looked at.
    void warn_of_unseen() const;

    /// Counts from now on the bytes that the schedule keeps for each memory object.
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
