#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/backoff.hpp"
#include "events/inbox.hpp"

namespace cldist {

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

/// What may fail start events: commands that have a wait list, and queues in which the last started
/// command failed. Its owner's mutex guards it, except for any().
class FailureCauses {
public:
    void add_command() { ++count_; }
    void remove_command() { --count_; }
    void add_queue(cl_command_queue queue) {
        if (failed_.insert(queue).second) ++count_;
    }
    void remove_queue(cl_command_queue queue) { count_ -= failed_.erase(queue); }
    [[nodiscard]] bool contains(cl_command_queue queue) const { return failed_.contains(queue); }
    [[nodiscard]] bool any() const { return count_ != 0; }

private:
    std::set<cl_command_queue> failed_;
    std::atomic<std::size_t> count_ = 0;  ///< commands and queues
};

/// The waiting commands without predecessor, and the order in which their start events are checked.
class StartChecks {
public:
    void insert(CommandId id) { first_.insert(id); }
    void erase(CommandId id) { first_.erase(id); }
    /// Calls `check` for the oldest `most` commands, which usually start first, and for as many
    /// others in rotation. Returns true if it reaches all commands.
    template <typename Check>
    bool visit(std::size_t most, Check &&check) {
        auto at = first_.begin();
        for (std::size_t i = 0; i < most && at != first_.end(); ++i) check(*at++);
        if (at != first_.end() && checked_up_to_ > *at) at = first_.upper_bound(checked_up_to_);
        for (std::size_t i = 0; i < most && at != first_.end(); ++i) check(*at++);
        checked_up_to_ = at != first_.end() ? *std::prev(at) : 0;
        return first_.size() <= 2 * most;
    }

private:
    std::set<CommandId> first_;    ///< the first of each order, and commands without order
    CommandId checked_up_to_ = 0;  ///< the last command of the rotation
};

/// The commands of a progress thread that wait for their start event. Commands with the same queue
/// start in the order of their calls.
class WaitingCommands {
public:
    /// Start events are also checked, at least this often, because a failed event may call no
    /// callback.
    static constexpr std::chrono::nanoseconds check_period = std::chrono::milliseconds(20);

    explicit WaitingCommands(Inbox &inbox) : inbox_(inbox) {}

    // For any thread except, for wait_started(), the progress thread.
    /// Returns true if this is the only command whose start event is polled.
    bool add(CommandId id, std::unique_ptr<Command> command, const StartRule &rule);
    /// See ProgressThread::start_failed().
    void add_failed(CommandId id, std::unique_ptr<Command> command, cl_command_queue ordered_by,
                    const Status &gate);
    /// See ProgressThread::note_failures().
    void note_failures(bool thorough);
    /// See ProgressThread::wait_started().
    void wait_started(cl_command_queue ordered_by, CommandId end);

    // For the progress thread.
    /// Adds commands that may start to `ready`. Returns the time until the next check.
    std::chrono::nanoseconds find_ready(std::vector<CommandId> &ready);
    /// Removes the commands that start because those of `ready` may, and adds them to `starting` in
    /// the order of their calls. They have taken their positions. Clears `ready`.
    void take(std::vector<CommandId> &ready, std::vector<StartingCommand> &starting);
    /// Call it when the commands of take() have started.
    void note_started();
    /// Moves all commands to `all`. Call note_started() when they have ended.
    void take_all(std::vector<std::unique_ptr<Command>> &all);

private:
    struct Waiting {
        std::unique_ptr<Command> command;
        StartRule rule;
        std::optional<Status> gate;  ///< the result of the wait list, when it is known
        bool has_position = false;

        void set_gate(const Status &known);
        /// Call it when this command and all commands before it in its order have gates.
        void take_position() {
            if (!std::exchange(has_position, true)) command->take_position();
        }
    };

    void insert(CommandId id, Waiting waiting);
    void note_failed(cl_command_queue queue);
    bool note_failure(CommandId id, Waiting &waiting);
    void check_start(CommandId id, std::vector<CommandId> &ready) const;
    void start(std::map<CommandId, Waiting>::iterator at, std::vector<StartingCommand> &starting);
    void start_in_order(cl_command_queue queue, std::vector<StartingCommand> &starting);

    Inbox &inbox_;
    std::mutex mutex_;  ///< guards the members before `start_backoff_`; locked before the inbox
    std::condition_variable started_;
    std::map<CommandId, Waiting> waiting_;
    /// The ids in `waiting_`. A queue whose last command starts remains until it has started.
    std::map<cl_command_queue, std::deque<CommandId>> order_;
    StartChecks checks_;
    FailureCauses failure_causes_;
    std::set<cl_command_queue> gated_;  ///< queues whose first commands may be ready
    std::size_t polled_ = 0;            ///< waiting commands whose start event is polled

    // Used only by the progress thread.
    Backoff start_backoff_{progress_patience};
    std::vector<cl_command_queue> emptied_;  ///< queues whose last command starts
};

}  // namespace cldist
