#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "cluster/execution/transport.hpp"
#include "cluster/objects/event.hpp"
#include "cluster/schedule/schedule.hpp"

namespace cldist::cluster {

/// The times of a command that has ended, as the transport sends them.
TimesOfCommand times_of_command(const EventObject &event);

/// The ends of commands: turns native events into Endings, and sends ends to the processes that
/// need them. Under the lock.
class CommandEnds {
public:
    /// `polls`: some device of this process is no CPU device (see ProgressThread::StartRule).
    CommandEnds(Schedule &schedule, Transport &transport, bool polls)
        : schedule_(schedule), transport_(transport), polls_(polls) {}

    /// Ends `ending` as the native event ends.
    void end_with(cl_event native, std::shared_ptr<Ending> ending);
    /// Returns an ending that ends with the event in this process. Requires that the event is known
    /// here.
    const std::shared_ptr<Ending> &ending_of(EventObject &event);
    /// Returns an ending that ends when all of `events`, at least one, have ended, and fails if one
    /// fails.
    std::shared_ptr<Ending> ending_of_all(std::span<const cl_event> events);

    /// Sends the event's end to another process.
    void send(EventObject &event, const Message &message);
    /// Receives the event's end from the command's own process.
    void receive(EventObject &event, const Message &message);
    /// Sends the event's end to all processes. All call it.
    void tell_all(EventObject &event);
    /// For the native marker of a clFinish in an out-of-order queue: sends that all commands of the
    /// queue have ended. The marker may fail earlier, with the first of them that fails.
    void send_when_finished(EventObject &marker, const Message &message);

    /// Gives the progress thread an operation. It starts when `after` ends, with the status of
    /// `after`; at once if `after` is null.
    void submit(std::unique_ptr<Operation> operation, cl_event after);
    void submit_now(std::unique_ptr<Operation> operation, cl_int status);

    /// Waits for the threads in clFinish. Not under the lock.
    void wait_for_finishes();
    /// The progress thread has ended with MPI. The program's static objects may still make calls.
    void outlive_progress_thread() { progress_thread_is_over_ = true; }

private:
    void tell_all_of_joint(EventObject &event);

    Schedule &schedule_;
    Transport &transport_;
    const bool polls_;
    std::atomic<bool> progress_thread_is_over_ = false;
    std::atomic<unsigned> finishing_ = 0;  ///< threads in clFinish
};

}  // namespace cldist::cluster
