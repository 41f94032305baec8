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

/// Something that all operations share and that is asked once per round, before them.
class Poller {
public:
    Poller() = default;
    Poller(const Poller &) = delete;
    Poller &operator=(const Poller &) = delete;
    virtual ~Poller() = default;
    /// Whether anything moved.
    virtual bool poll() = 0;
    /// Called every few seconds, also while no command is active.
    virtual void tick() {}
};

/// The only thread that drives commands, but for blocking ones, which their callers drive. It polls while commands are
/// active, in longer and longer intervals while nothing moves, and sleeps while none is. OpenCL's callbacks only push
/// to its inbox.
class Engine {
public:
    /// `poller`, which may be null, is used on the engine's thread alone.
    Engine(std::unique_ptr<Poller> poller, double stall_seconds);
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;
    /// Like stop().
    ~Engine();

    /// How a command is to be started.
    struct StartRule {
        cl_command_queue ordered_by;  ///< commands of one such queue start in the order of the calls; null: in any
        bool has_wait_list;
        /// The start event is asked often instead of calling back, which takes NVIDIA's driver 20 ms, and polling is
        /// patient: the device does not need the host's cores.
        bool polled;
    };

    /// Starts the command, which has a bridge, when its start event is complete. Any thread.
    void start_when_ready(std::unique_ptr<Command> command, const StartRule &rule);
    /// Has commands whose start events failed take their places among the messages, and tell their status, before the
    /// engine gets to them: on an in-order queue the platform may fail their events as soon as their wait lists, and who
    /// sees that may go on. Any thread.
    void note_failures();
    /// Starts the command now, with that outcome of its wait list. Any thread.
    void submit(std::unique_ptr<Command> command, Status gate);
    /// Keeps the events of a command that failed: PoCL 3.1 uses them for a while after their status can be seen. Any thread.
    void keep_remains(std::unique_ptr<Bridge> bridge, std::vector<Event> events);
    /// Lets go of those of which the platform must be done. Any thread.
    void release_remains();
    /// Waits until all commands given so far with this `ordered_by` have started. Any thread but the engine's.
    void wait_started(cl_command_queue ordered_by);
    /// Whether no command is waiting or active. Any thread.
    [[nodiscard]] bool idle() const { return commands_ == 0; }
    /// Calls `action` while the engine asks nothing of MPI or OpenCL. Any thread but the engine's.
    template <typename Action>
    void between_rounds(Action &&action) {
        const std::lock_guard lock(round_);
        action();
    }
    /// Waits until no command is left or nothing moved for `patience_seconds` (0: for ever). True if none is left.
    bool wait_idle(double patience_seconds);
    /// Ends the thread. Commands left end with `status`, or, without one, stay as they are for ever.
    void stop(const std::optional<Status> &status);

private:
    using Id = std::uint64_t;  ///< in the order of the calls

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
        std::optional<Status> gate;  ///< set once ready
    };
    /// What callers and callbacks write to. Callbacks may come after the engine is gone.
    struct Inbox {
        std::mutex mutex;
        std::condition_variable filled;
        std::vector<Id> ready;
        std::vector<Submitted> submitted;
        std::vector<Id> woken;
        bool look = false;    ///< the first command is waiting for its start event
        bool dozing = false;  ///< the engine sleeps longer than such a command may wait
        bool stop = false;
        std::optional<Status> stop_status;

        [[nodiscard]] bool empty() const {
            return ready.empty() && submitted.empty() && woken.empty() && !look && !stop;
        }
        /// Wakes the engine if `write` left something; not before the mutex is free, or the engine would run into it and
        /// sleep once more.
        template <typename Write>
        void fill(Write &&write) {
            {
                const std::lock_guard lock(mutex);
                write(*this);
                if (empty()) return;
            }
            filled.notify_one();
        }
    };
    /// Where callbacks find the inbox of their engine. Some never come, so they own nothing.
    struct CallbackInboxes {
        std::mutex mutex;
        std::vector<std::weak_ptr<Inbox>> of_engine;
    };
    /// What a failed command leaves behind until the platform is done with it.
    struct Remains {
        Device device;  ///< of the events' queue, as in Bridge
        std::unique_ptr<Bridge> bridge;
        std::vector<Event> events;
        std::uint64_t since_ns;
        bool used_on;  ///< PoCL still uses the events once their status can be seen
    };

    /// Where MPI or a device that leaves the host its cores is polled (docs/dev/decisions/0024-yield-before-sleeping.md).
    static constexpr unsigned patience = 200;

    static CallbackInboxes &callback_inboxes();
    static void CL_CALLBACK on_start_event(cl_event event, cl_int status, void *data);
    [[nodiscard]] Waker waker(Id id) const;
    void run();
    void take(std::vector<Id> &ready, std::vector<Submitted> &submitted);
    void activate(Submitted submitted);
    void wake_up(std::vector<Id> &woken);
    [[nodiscard]] bool some_wait() const { return commands_ != active_.size() + asleep_.size(); }
    [[nodiscard]] bool some_to_poll() const { return !active_.empty() || (poller_ != nullptr && !asleep_.empty()); }
    [[nodiscard]] bool bytes_in_flight() const;
    void look_at(Id id, std::vector<Id> &ready) const;
    std::chrono::nanoseconds find_starts(std::vector<Id> &ready);
    bool poll_commands();
    void watch();
    void abandon_all(const std::optional<Status> &status);

    const std::unique_ptr<Poller> poller_;
    const double stall_seconds_;
    const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
    std::atomic<Id> next_id_;  ///< the high bits of an id tell its engine

    // Shared by callers and the engine.
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<Id, Waiting> waiting_;
    std::map<cl_command_queue, std::deque<Id>> order_;
    std::set<Id> next_;  ///< of the waiting commands those with nothing before them: of each queue's order the first
    std::set<cl_command_queue> gated_;         ///< whose first commands may be ready
    std::atomic<std::size_t> commands_ = 0;    ///< waiting or active
    std::atomic<std::size_t> wait_lists_ = 0;  ///< waiting commands that have one
    std::size_t polled_ = 0;                   ///< waiting commands of that rule
    std::atomic<bool> patient_;                ///< there is a poller, or some command was polled
    std::atomic<bool> watches_ = false;        ///< some command was polled

    std::vector<Remains> remains_;

    std::mutex round_;  ///< held by the engine while it works

    // The engine's own.
    std::vector<Active> active_;
    std::unordered_map<Id, std::unique_ptr<Command>> asleep_;  ///< those that will be woken
    std::set<Id> asleep_in_flight_;                            ///< those of them whose bytes are moving
    Backoff start_backoff_{patience};
    Id looked_up_to_ = 0;  ///< in the round of find_starts() through the commands that may be next

    std::thread thread_;
    /// Reports stalls: the engine itself may be stuck in a call of MPI's.
    std::thread watcher_;
    std::condition_variable stopped_;
    bool watcher_stop_ = false;  ///< guarded by mutex_
};

/// Drives a command to its end on the calling thread.
void drive(Command &command, Poller &poller);
/// The same for one whose operations wake the thread that waits for `wakeup`.
void drive(Command &command, Wakeup &wakeup);

}  // namespace cldist
