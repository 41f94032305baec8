#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/backoff.hpp"
#include "events/command.hpp"
#include "events/drive.hpp"
#include "events/remains.hpp"
#include "events/stall_watcher.hpp"

namespace cldist {

/// A progress thread drives all commands except blocking ones, which their callers drive. It polls
/// while commands are active, at growing intervals while there is no progress. Otherwise it sleeps.
/// OpenCL callbacks only push to its inbox.
class ProgressThread {
public:
    using Id = std::uint64_t;  ///< of a command; grows in the order of the calls

    /// Only the progress thread uses `poller`, which may be null.
    ProgressThread(std::unique_ptr<Poller> poller, double stall_seconds);
    /// Calls stop().
    ~ProgressThread();

    /// The conditions under which a command starts.
    struct StartRule {
        /// Commands with the same queue start in the order of their calls. Null: no order.
        cl_command_queue ordered_by;
        bool has_wait_list;
        /// The thread polls the start event and registers no callback, because callbacks may come
        /// late. It then yields for longer before it sleeps, because the device does not need the
        /// host's cores.
        bool polled;
    };

    /// Starts the command when its start event is complete. The command must have a bridge. Any
    /// thread.
    void start_when_ready(std::unique_ptr<Command> command, const StartRule &rule);
    /// The same for a command whose wait list has failed with `gate`, and which may have no bridge.
    void start_failed(std::unique_ptr<Command> command, cl_command_queue ordered_by, Status gate);
    /// For each command whose start event failed: publishes its status and, when the commands
    /// before it may start, takes its position in the message order. On an in-order queue, the
    /// platform may fail the start events as soon as their wait lists fail. A thread that sees this
    /// may continue before the progress thread reacts. Any thread. Without `thorough`, it saves
    /// queries and misses commands that have no order or wait for others, and commands without wait
    /// list behind a failed command of the platform.
    void note_failures(bool thorough = false);
    /// Starts the command now. `gate` is the result of its wait list. Any thread.
    void submit(std::unique_ptr<Command> command, Status gate);
    /// The objects of failed commands. Any thread.
    [[nodiscard]] Remains &remains() { return remains_; }
    /// The id of the next command. Any thread.
    [[nodiscard]] Id next_id() const { return next_id_; }
    /// Waits until all commands with this `ordered_by` and an id below `end` have started. Any
    /// thread except the progress thread.
    void wait_started(cl_command_queue ordered_by, Id end);
    /// Returns true if all commands of start_when_ready() have ended, and thus none has yet to take
    /// its position in the message order. Any thread.
    [[nodiscard]] bool positions_taken() const { return later_ == 0; }
    /// Returns true if no command is waiting or active. Any thread.
    [[nodiscard]] bool idle() const { return commands_ == 0; }
    /// Calls `action` while the progress thread makes no calls of MPI or OpenCL. Any thread except
    /// the progress thread.
    template <typename Action>
    void between_rounds(Action &&action) {
        const std::lock_guard lock(round_);
        action();
    }
    /// Waits until no command is left, or until there was no progress for `patience_seconds` (0: no
    /// limit). Returns true if none is left.
    bool wait_idle(double patience_seconds);
    /// Returns true on a progress thread with a poller, where a callback of the program may run.
    [[nodiscard]] static bool polls_here();
    /// Ends the thread. The remaining commands end with `status`. Without it, they never end.
    void stop(const std::optional<Status> &status);

private:
    struct Submitted {
        std::unique_ptr<Command> command;
        Status gate;
        Id id;
        bool has_position = true;  ///< false: it takes its position before it starts
    };
    struct Active {
        std::unique_ptr<Command> command;
        Id id;
    };
    struct Waiting {
        std::unique_ptr<Command> command;
        StartRule rule;
        std::optional<Status> gate;  ///< the result of the wait list, when it is known
        bool has_position = false;

        void set_gate(const Status &known) {
            gate = known;
            if (!known.ok()) command->publish_failure(known);
        }
        /// Call it when this command and all commands before it in its order have gates.
        void take_position() {
            if (!std::exchange(has_position, true)) command->take_position();
        }
    };
    /// Shared with callers and callbacks. Callbacks may arrive after the end of the thread.
    struct Inbox {
        std::mutex mutex;
        std::condition_variable filled;
        /// Lets a polling thread skip the mutex if the inbox is empty.
        std::atomic<bool> has_news = false;
        std::vector<Id> ready;
        std::vector<Submitted> submitted;
        std::vector<Id> woken;
        bool check_now = false;  ///< start events must be checked now
        bool dozing = false;     ///< the thread may sleep for longer than a start event may wait
        bool stop = false;
        std::optional<Status> stop_status;

        [[nodiscard]] bool empty() const {
            return ready.empty() && submitted.empty() && woken.empty() && !check_now && !stop;
        }
        /// Calls `write`, and wakes the thread if the inbox is not empty then. It releases the
        /// mutex first, because the thread would otherwise block on it and sleep once more.
        template <typename Write>
        void fill(Write &&write) {
            {
                const std::lock_guard lock(mutex);
                write(*this);
                if (empty()) return;
                has_news = true;
            }
            filled.notify_one();
        }
    };
    /// The inboxes of all progress threads, where callbacks find theirs. Callbacks own nothing,
    /// because a callback may never arrive.
    struct CallbackInboxes {
        std::mutex mutex;
        std::vector<std::weak_ptr<Inbox>> of_thread;
    };
    /// The Backoff patience to poll MPI or a device that does not use the host's cores. See
    /// docs/dev/decisions/0024-yield-before-sleeping.md.
    static constexpr unsigned patience = 200;

    static CallbackInboxes &callback_inboxes();
    static void CL_CALLBACK on_start_event(cl_event event, cl_int status, void *data);
    [[nodiscard]] Waker waker(Id id) const;
    void run();
    void take(std::vector<Id> &ready, std::vector<Submitted> &submitted);
    void activate(Submitted submitted);
    void wake_up(std::vector<Id> &woken);
    [[nodiscard]] bool some_wait() const { return commands_ != active_.size() + asleep_.size(); }
    [[nodiscard]] bool some_to_poll() const {
        return !active_.empty() || (poller_ != nullptr && !asleep_.empty());
    }
    [[nodiscard]] bool bytes_in_flight() const;
    void check_start(Id id, std::vector<Id> &ready) const;
    void add(Id id, Waiting waiting);
    void note_failed(cl_command_queue queue);
    bool note_failure(Id id, Waiting &waiting);
    std::chrono::nanoseconds find_starts(std::vector<Id> &ready);
    bool poll_commands();
    void abandon_all(const std::optional<Status> &status);

    const std::unique_ptr<Poller> poller_;
    StallWatcher watcher_;
    const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
    std::atomic<Id> next_id_;  ///< the high bits are the number of the progress thread

    // Shared by callers and the progress thread. `mutex_` guards the members before `remains_`;
    // atomic members may be read without it.
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<Id, Waiting> waiting_;
    std::map<cl_command_queue, std::deque<Id>> order_;
    /// Waiting commands without predecessor: the first of each order, and commands without order.
    std::set<Id> next_;
    std::set<cl_command_queue> gated_;       ///< queues whose first commands may be ready
    std::atomic<std::size_t> commands_ = 0;  ///< waiting or active commands
    /// Commands of start_when_ready() that have not ended.
    std::atomic<std::size_t> later_ = 0;
    std::set<cl_command_queue> failed_;  ///< queues in which the last started command failed
    /// Waiting commands that have a wait list, and `failed_`: what may fail start events.
    std::atomic<std::size_t> suspects_ = 0;
    std::size_t polled_ = 0;             ///< waiting commands whose start event is polled
    std::atomic<bool> patient_;          ///< there is a poller, or a start event was ever polled
    std::atomic<bool> watches_ = false;  ///< a start event was ever polled

    Remains remains_;
    std::mutex round_;  ///< held by the progress thread during a round

    // Used only by the progress thread.
    std::vector<Active> active_;
    std::unordered_map<Id, std::unique_ptr<Command>> asleep_;  ///< commands that wait to be woken
    /// Commands in `asleep_` that have bytes in flight.
    std::set<Id> asleep_in_flight_;
    Backoff start_backoff_{patience};
    /// The last command that find_starts() checked in its rotation through `next_`.
    Id checked_up_to_ = 0;

    std::thread thread_;
};

}  // namespace cldist
