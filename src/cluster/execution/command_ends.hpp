#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "cluster/execution/transport.hpp"
#include "cluster/objects/event.hpp"
#include "cluster/schedule/schedule.hpp"

namespace cldist::cluster {

/// Returns the command's times in the form that the transport sends.
TimesOfCommand times_of_command(const EventObject &event);

/// The ends of commands: turns native events into Endings, and sends ends to the processes that
/// need them. Under the lock.
class CommandEnds {
public:
    /// `polls`: the progress thread polls native events (StartRule::polled),
    /// because a device of this process has its own memory.
    CommandEnds(Schedule &schedule, Transport &transport, bool polls)
        : schedule_(schedule), transport_(transport), polls_(polls) {}

    /// When `native` ends, ends `ending` with its status.
    void end_with(cl_event native, std::shared_ptr<Ending> ending);
    /// Returns the event's ending, which it creates if necessary. Requires event.known_here().
    const std::shared_ptr<Ending> &ending_of(EventObject &event);
    /// Returns an ending that ends when all of `events` have ended and fails if one of them fails.
    /// Requires at least one event.
    std::shared_ptr<Ending> ending_of_all(std::span<const cl_event> events);

    /// Sends the event's end to another process.
    void send(EventObject &event, const Message &message);
    /// Receives a command's end from the command's own process.
    std::shared_ptr<Ending> receive(const Message &message);
    /// Sends the event's end from the command's process to all others. All processes call it.
    void tell_all(EventObject &event);
    /// Sends a status to another process when all commands of an out-of-order queue have ended.
    /// `marker` is clFinish's native marker, which may fail earlier, with the first failed command.
    void send_when_finished(EventObject &marker, const Message &message);

    /// Gives the progress thread an operation. It starts when `after` ends, with the status of
    /// `after`; at once if `after` is null.
    void submit(std::unique_ptr<Operation> operation, cl_event after);
    /// The operation starts at once, with `status` as the status of its wait list.
    void submit_now(std::unique_ptr<Operation> operation, cl_int status);

    /// Waits for the threads of send_when_finished(). Not under the lock.
    void wait_for_finishes();
    /// The progress thread has ended with MPI. Because the program's static objects may still make
    /// calls, end_with() uses the driver's callbacks from now on.
    void outlive_progress_thread() { progress_thread_is_over_ = true; }

private:
    void tell_all_of_joint(EventObject &event, JointState &joint);

    Schedule &schedule_;
    Transport &transport_;
    const bool polls_;
    std::atomic<bool> progress_thread_is_over_ = false;
    std::atomic<unsigned> finishing_ = 0;  ///< threads in clFinish
};

}  // namespace cldist::cluster
