#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "events/active_commands.hpp"
#include "events/command.hpp"
#include "events/command_counts.hpp"
#include "events/drive.hpp"
#include "events/inbox.hpp"
#include "events/remains.hpp"
#include "events/stall_watcher.hpp"
#include "events/waiting_commands.hpp"

namespace cldist {

/// A progress thread drives all commands except blocking ones, which their callers drive. It polls
/// while commands are active, at growing intervals while there is no progress. Otherwise it sleeps.
/// OpenCL callbacks only push to its inbox.
class ProgressThread {
public:
    /// Only the progress thread uses `poller`, which may be null.
    ProgressThread(std::unique_ptr<Poller> poller, double stall_seconds);
    /// Calls stop().
    ~ProgressThread();

    /// Starts the command when its start event is complete. The command must have a bridge. Any
    /// thread.
    void start_when_ready(std::unique_ptr<Command> command, const StartRule &rule);
    /// The same for a command whose wait list has failed with `gate`, and which may have no bridge.
    void start_failed(std::unique_ptr<Command> command, cl_command_queue ordered_by,
                      const Status &gate);
    /// For each command whose start event failed: publishes its status and, when the commands
    /// before it may start, takes its position in the message order. On an in-order queue, the
    /// platform may fail the start events as soon as their wait lists fail. A thread that sees this
    /// may continue before the progress thread reacts. Any thread. Without `thorough`, it saves
    /// queries and misses commands that have no order or wait for others, and commands without wait
    /// list behind a failed command of the platform.
    void note_failures(bool thorough = false) { waiting_.note_failures(thorough); }
    /// Starts the command now. `gate` is the result of its wait list. Any thread.
    void submit(std::unique_ptr<Command> command, Status gate);
    /// The objects of failed commands. Any thread.
    [[nodiscard]] Remains &remains() { return remains_; }
    /// The id of the next command. Any thread.
    [[nodiscard]] CommandId next_id() const { return inbox_->next_id(); }
    /// Waits until all commands with this `ordered_by` and an id below `end` have started. Any
    /// thread except the progress thread.
    void wait_started(cl_command_queue ordered_by, CommandId end) {
        waiting_.wait_started(ordered_by, end);
    }
    /// Returns true if all commands of start_when_ready() have ended, and thus none has yet to take
    /// its position in the message order. Any thread.
    [[nodiscard]] bool positions_taken() const { return counts_.later() == 0; }
    /// Returns true if no command is waiting or active. Any thread.
    [[nodiscard]] bool idle() const { return counts_.all() == 0; }
    /// Calls `action` while the progress thread makes no calls of MPI or OpenCL. Any thread except
    /// the progress thread.
    template <typename Action>
    void between_rounds(Action &&action) {
        const std::lock_guard lock(round_);
        action();
    }
    /// Waits until no command is left, or until there was no progress for `patience_seconds` (0: no
    /// limit). Returns true if none is left.
    bool wait_idle(double patience_seconds) { return counts_.wait_none(patience_seconds); }
    /// Returns true on a progress thread with a poller, where a callback of the program may run.
    [[nodiscard]] static bool polls_here();
    /// Ends the thread. The remaining commands end with `status`. Without it, they never end.
    void stop(const std::optional<Status> &status);

private:
    void run();
    [[nodiscard]] bool some_wait() const { return counts_.all() != active_.size(); }
    [[nodiscard]] bool some_to_poll() const {
        return active_.some_polled() || (poller_ != nullptr && !active_.empty());
    }
    void start(Inbox::News &news);
    bool poll_commands();
    void abandon_all(const std::optional<Status> &status);

    const std::unique_ptr<Poller> poller_;
    StallWatcher watcher_;
    const std::shared_ptr<Inbox> inbox_ = Inbox::create();
    CommandCounts counts_;
    WaitingCommands waiting_{*inbox_};
    ActiveCommands active_;
    std::atomic<bool> watches_ = false;  ///< a start event was ever polled
    Remains remains_;
    std::mutex round_;  ///< held by the progress thread during a round
    std::thread thread_;
};

}  // namespace cldist
