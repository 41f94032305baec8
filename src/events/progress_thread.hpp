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
#include <vector>

#include "base/backoff.hpp"
#include "base/wakeup.hpp"
#include "events/command.hpp"

namespace cldist {

/// Progress that all operations share. It is polled once per round, before the operations.
class Poller {
public:
    Poller() = default;
    Poller(const Poller &) = delete;
    Poller &operator=(const Poller &) = delete;
    virtual ~Poller() = default;
    /// Returns true if there was progress.
    virtual bool poll() = 0;
    /// Called every few seconds, also while no command is active.
    virtual void tick() {}
};

/// The progress thread drives all commands except blocking ones, which their callers drive. It
/// polls while commands are active, at growing intervals while there is no progress. Otherwise it
/// sleeps. OpenCL callbacks only push to its inbox.
class ProgressThread {
public:
    /// Only the progress thread uses `poller`, which may be null.
    ProgressThread(std::unique_ptr<Poller> poller, double stall_seconds);
    ProgressThread(const ProgressThread &) = delete;
    ProgressThread &operator=(const ProgressThread &) = delete;
    /// Calls stop().
    ~ProgressThread();

    /// The conditions under which a command starts.
    struct StartRule {
        cl_command_queue ordered_by;  ///< commands with the same queue start in the order of their
                                      ///< calls; null: any
                                      /// order
        bool has_wait_list;
        /// The thread polls the start event instead of using a callback, because callbacks take 20
        /// ms on NVIDIA's driver. Polling yields for longer, because the device does not need the
        /// host's cores.
        bool polled;
    };

    /// Starts the command when its start event is complete. The command must have a bridge. Any
    /// thread.
    void start_when_ready(std::unique_ptr<Command> command, const StartRule &rule);
    /// Gives each command whose start event failed its position in the message order and publishes
    /// its status. On an in-order queue the platform may fail the events as soon as their wait
    /// lists fail, and a thread that sees this may continue before the progress thread reacts. Any
    /// thread.
    void note_failures();
    /// Starts the command now. `gate` is the result of its wait list. Any thread.
    void submit(std::unique_ptr<Command> command, Status gate);
    /// Keeps the events of a failed command. PoCL 3.1 uses them for some time after their status is
    /// visible. Any thread.
    void keep_remains(std::unique_ptr<Bridge> bridge, std::vector<Event> events);
    /// Frees kept events that the platform does not use any more. Any thread.
    void release_remains();
    /// Waits until all earlier commands with this `ordered_by` have started. Any thread except the
    /// progress thread.
    void wait_started(cl_command_queue ordered_by);
    /// Returns true if all commands of start_when_ready() have ended. Any thread.
    [[nodiscard]] bool positions_taken() const { return later_ == 0; }
    /// Returns true if no command is waiting or active. Any thread.
    [[nodiscard]] bool idle() const { return commands_ == 0; }
    /// Calls `action` while the progress thread calls neither MPI nor OpenCL. Any thread except the
    /// progress thread.
    template <typename Action>
    void between_rounds(Action &&action) {
        const std::lock_guard lock(round_);
        action();
    }
    /// Waits until no command is left, or until there was no progress for `patience_seconds` (0: no
    /// limit). Returns true if none is left.
    bool wait_idle(double patience_seconds);
    /// Ends the thread. The remaining commands end with `status`, or never end without it.
    void stop(const std::optional<Status> &status);

private:
    using Id = std::uint64_t;  ///< grows in the order of the calls

    struct Submitted {
        std::unique_ptr<Command> command;
        Status gate;
        Id id;
    };
    struct Active {
        std::unique_ptr<Command> command;
        Id id;
    };
    struct Waiting {
        std::unique_ptr<Command> command;
        StartRule rule;
        std::optional<Status> gate;  ///< set when the command is ready
    };
    /// Written by callers and callbacks. Callbacks may arrive after the end of the thread.
    struct Inbox {
        std::mutex mutex;
        std::condition_variable filled;
        /// So that a polling thread does not lock the mutex in vain.
        std::atomic<bool> has_news = false;
        std::vector<Id> ready;
        std::vector<Submitted> submitted;
        std::vector<Id> woken;
        bool look = false;    ///< the first command waits for its start event
        bool dozing = false;  ///< the thread sleeps for longer than such a command may wait
        bool stop = false;
        std::optional<Status> stop_status;

        [[nodiscard]] bool empty() const {
            return ready.empty() && submitted.empty() && woken.empty() && !look && !stop;
        }
        /// Wakes the thread if `write` left something. It releases the mutex first, because the
        /// thread would otherwise block on it and sleep once more.
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
    /// Callbacks find the inbox of their progress thread here. A callback may never arrive, so
    /// callbacks own nothing.
    struct CallbackInboxes {
        std::mutex mutex;
        std::vector<std::weak_ptr<Inbox>> of_thread;
    };
    /// The objects of a failed command, kept until the platform has stopped using them.
    struct Remains {
        Device device;  ///< of the events' queue, as in Bridge
        std::unique_ptr<Bridge> bridge;
        std::vector<Event> events;
        std::uint64_t since_ns;
        bool used_on;  ///< PoCL still uses the events after their status is visible
    };

    /// Used to poll MPI or a device that does not use the host's cores.
    /// See docs/dev/decisions/0024-yield-before-sleeping.md.
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
    void look_at(Id id, std::vector<Id> &ready) const;
    std::chrono::nanoseconds find_starts(std::vector<Id> &ready);
    bool poll_commands();
    void watch();
    void abandon_all(const std::optional<Status> &status);

    const std::unique_ptr<Poller> poller_;
    const double stall_seconds_;
    const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
    std::atomic<Id> next_id_;  ///< the high bits are the number of the progress thread

    // Shared by callers and the progress thread.
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<Id, Waiting> waiting_;
    std::map<cl_command_queue, std::deque<Id>> order_;
    std::set<Id> next_;  ///< waiting commands without predecessor: the first of each queue's order,
                         ///< and commands
                         /// without order
    std::set<cl_command_queue> gated_;       ///< queues whose first commands may be ready
    std::atomic<std::size_t> commands_ = 0;  ///< waiting or active commands
    /// Those that get their position in the message order when they start.
    std::atomic<std::size_t> later_ = 0;
    std::atomic<std::size_t> wait_lists_ = 0;  ///< waiting commands that have a wait list
    std::size_t polled_ = 0;                   ///< waiting commands whose start event is polled
    std::atomic<bool> patient_;                ///< there is a poller, or some command was polled
    std::atomic<bool> watches_ = false;        ///< some command was polled

    std::vector<Remains> remains_;

    std::mutex round_;  ///< held by the thread while it works

    // Only used by the progress thread.
    std::vector<Active> active_;
    std::unordered_map<Id, std::unique_ptr<Command>> asleep_;  ///< commands that wait to be woken
    /// Those in `asleep_` with bytes in flight.
    std::set<Id> asleep_in_flight_;
    Backoff start_backoff_{patience};
    /// The last command that find_starts() checked in its rotation through `next_`.
    Id looked_up_to_ = 0;

    std::thread thread_;
    /// Reports stalls. The progress thread cannot, because it may be blocked in an MPI call.
    std::thread watcher_;
    std::condition_variable stopped_;
    bool watcher_stop_ = false;  ///< guarded by mutex_
};

/// Drives a command to its end on the calling thread.
void drive(Command &command, Poller &poller);
/// The same for a command whose operations wake the thread through `wakeup`.
void drive(Command &command, Wakeup &wakeup);

}  // namespace cldist
