#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/status.hpp"
#include "events/command.hpp"

namespace cldist {

using CommandId = std::uint64_t;  ///< grows in the order of the calls

/// A command that starts now.
struct StartingCommand {
    std::unique_ptr<Command> command;
    Status gate;  ///< the result of its wait list
    CommandId id;
    bool has_position = true;  ///< false: it takes its position before it starts
};

/// Receives what callers, callbacks and wakers send to a progress thread. Also issues the ids of
/// the thread's commands, by which a callback finds the inbox. Callbacks own nothing, because a
/// callback may never arrive, or only after the end of the thread.
class Inbox {
public:
    struct News {
        std::vector<CommandId> ready;  ///< commands whose start event is complete
        std::vector<StartingCommand> submitted;
        std::vector<CommandId> woken;
        bool check_now = false;  ///< start events must be checked now
    };
    struct Sleep {
        std::chrono::duration<double> time;
        bool dozes;  ///< the thread may sleep for longer than a start event may wait
    };

    /// Call it once for each progress thread.
    static std::shared_ptr<Inbox> create();
    /// Null after the end of the thread.
    static std::shared_ptr<Inbox> find(CommandId id);

    // For any thread.
    [[nodiscard]] CommandId new_id() { return next_id_++; }
    [[nodiscard]] CommandId next_id() const { return next_id_; }
    void add_ready(CommandId id);
    void add_woken(CommandId id);
    void submit(std::unique_ptr<Command> command, Status gate);
    /// Requests a check of start events if the thread dozes, or if `always`.
    void request_check(bool always);
    /// Makes take() return false. `status` is for the remaining commands.
    void stop(const std::optional<Status> &status);

    // For the progress thread.
    /// Takes the content if there is any. `news` must be empty. Returns false after stop().
    bool take(News &news);
    /// The same, but first sleeps if the inbox is empty, as `sleep` returns. It calls `sleep` with
    /// the mutex locked, so that request_check() sees whether the thread dozes.
    template <typename GetSleep>
    bool sleep_and_take(News &news, GetSleep &&sleep) {
        std::unique_lock lock(mutex_);
        if (empty()) {
            const Sleep chosen = sleep();
            dozing_ = chosen.dozes;
            filled_.wait_for(lock, chosen.time, [&] { return !empty(); });
            dozing_ = false;
        }
        return take_content(news);
    }
    /// Sleeps until the inbox is not empty, but no longer than `most`.
    void sleep(std::chrono::nanoseconds most);
    /// The argument of stop(), after it.
    [[nodiscard]] const std::optional<Status> &stop_status() const { return stop_status_; }

private:
    [[nodiscard]] bool empty() const;
    bool take_content(News &news);
    template <typename Write>
    void fill(Write &&write);

    std::atomic<CommandId> next_id_;  ///< the high bits are the number of the progress thread
    std::mutex mutex_;                ///< guards the members below
    std::condition_variable filled_;
    /// Lets a polling thread skip the mutex if the inbox is empty.
    std::atomic<bool> has_news_ = false;
    News news_;
    bool dozing_ = false;
    bool stop_ = false;
    std::optional<Status> stop_status_;
};

}  // namespace cldist
