#pragma once

#include <atomic>
#include <memory>

#include "cluster/execution/host_link.hpp"
#include "cluster/execution/native_waits.hpp"
#include "cluster/execution/program_memory.hpp"
#include "cluster/execution/transport.hpp"
#include "cluster/schedule/schedule.hpp"
#include "events/command.hpp"

namespace cldist::cluster {

/// With a central host: brings the program's memory that a command reads from process 0 to the
/// device's process. Under the lock.
class HostMemorySupply {
public:
    /// All arguments must outlive it. `link` is null unless there is a central host.
    HostMemorySupply(Schedule &schedule, Process self, Transport &transport, HostLink *link,
                     CommandEnds &ends, Steps &steps, ProgramMemory &memory)
        : schedule_(schedule),
          self_(self),
          transport_(transport),
          link_(link),
          ends_(ends),
          steps_(steps),
          memory_(memory) {}

    [[nodiscard]] bool is_used() const { return link_ != nullptr; }
    /// This process's part in the transfer of one command's memory.
    struct Supply {
        /// Receives the bytes; null if this process receives none.
        std::unique_ptr<Command> receive;
        cl_event arrival = nullptr;  ///< ends when they have arrived
        /// Ends when they have been sent; null if this process sends none.
        std::shared_ptr<Ending> sent;
    };
    /// Transfers `command.source`. `before`: the promises of the ends before the command. `fails`:
    /// the command fails, so no memory is read. `is_here`: its device is in this process. Adds an
    /// event to `waits` if the command must wait for the bytes.
    Supply bring(Enqueued &command, const Promise &before, bool fails, bool is_here,
                 NativeWaits &waits);
    /// Starts the receive, if there is one. Requires that `waits` is complete.
    void start(Supply &supply, const QueueObject &queue, NativeWaits &waits, bool fails);

private:
    [[nodiscard]] Link link_to(Process other) const;
    std::shared_ptr<Ending> send(const Enqueued &command, const Message &message,
                                 const std::shared_ptr<Ending> &after,
                                 const std::shared_ptr<Ending> &set, bool fails);
    void receive(Enqueued &command, const Message &message, Supply &supply, NativeWaits &waits);
    std::shared_ptr<std::byte[]> brought_memory(QueueObject &queue, std::size_t size);

    Schedule &schedule_;
    const Process self_;
    Transport &transport_;
    HostLink *const link_;
    CommandEnds &ends_;
    Steps &steps_;
    ProgramMemory &memory_;
    /// Bytes of the program's memory that are here, or expected, for commands that have not run.
    const std::shared_ptr<std::atomic<std::size_t>> bytes_brought_ =
        std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace cldist::cluster
