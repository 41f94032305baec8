#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cluster/execution/command_ends.hpp"
#include "cluster/execution/memory_objects.hpp"
#include "cluster/execution/steps.hpp"
#include "cluster/execution/transport.hpp"
#include "cluster/schedule/schedule.hpp"
#include "events/bridge.hpp"

namespace cldist::cluster {

/// Moves bytes of memory objects between devices, as the schedule decides. Under the lock.
class Transfers {
public:
    /// `self` is this process; `memories` is indexed by memory numbers. All arguments must outlive
    /// this object.
    Transfers(const Topology &topology, Process self, Transport &transport,
              const std::vector<MemoryTraits> &memories, const MemoryObjects &objects, Steps &steps,
              CommandEnds &ends)
        : topology_(topology),
          self_(self),
          transport_(transport),
          memories_(memories),
          objects_(objects),
          steps_(steps),
          ends_(ends) {}

    /// Notes in MemObject::arrivals which bytes will arrive in a memory of this process.
    void start(const Transfer &transfer);

private:
    /// One end of a message that has not started.
    struct ChannelEnd {
        DeviceRange range;
        std::unique_ptr<Bridge> bridge;
        cl_device_id device;
        StartRule rule;
    };

    [[nodiscard]] Link link(const Transfer &transfer, Direction direction) const;
    /// The events in `space` that the transfer waits for. Throws an Error if its source is here and
    /// lacks the bytes.
    [[nodiscard]] std::vector<cl_event> waits_of(const Transfer &transfer, MemObject &object,
                                                 Space &space);
    /// Records the transfer's end in `space`.
    void add_step(const Transfer &transfer, MemObject &object, Space &space, Event event);
    ChannelEnd make_end(const Transfer &transfer, MemObject &object, Direction direction);
    void start_channel(ChannelEnd end, Direction direction, const Message &message,
                       const Link &link);
    /// Returns false if no kernel can carry out the message.
    bool start_kernel(const Transfer &transfer, MemObject &object, Space &space,
                      Direction direction, const Link &link);
    void start_message(const Transfer &transfer, MemObject &object);
    [[nodiscard]] Event copy_packed(const Transfer &transfer, MemObject &object, Space &space,
                                    const std::shared_ptr<const QueueInfo> &queue,
                                    const std::shared_ptr<std::byte[]> &memory, bool reads,
                                    std::span<const cl_event> waits);
    void start_packed_message(const Transfer &transfer, MemObject &object);
    void start_copy(const Transfer &transfer, MemObject &object);
    void start_staged_copy(const Transfer &transfer, MemObject &object);
    /// Returns false if the two devices share no memory, or none is free.
    bool start_peer_copy(const Transfer &transfer, MemObject &object);
    /// Starts a copy between two spaces as two commands. `first` and `second` enqueue them with a
    /// wait list and return their events.
    template <typename First, typename Second>
    void start_two_commands(const Transfer &transfer, MemObject &object, First first,
                            Second second);

    const Topology &topology_;
    const Process self_;
    Transport &transport_;
    const std::vector<MemoryTraits> &memories_;
    const MemoryObjects &objects_;
    Steps &steps_;
    CommandEnds &ends_;
    std::uint64_t copies_between_ = 0;  ///< copies between memories of this process
};

}  // namespace cldist::cluster
