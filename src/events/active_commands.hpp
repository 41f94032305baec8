#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "events/inbox.hpp"

namespace cldist {

/// The started commands of a progress thread. Each is polled or, if it wakes its driver, sleeps
/// until then. Only for the progress thread.
class ActiveCommands {
public:
    void add(std::unique_ptr<Command> command, CommandId id) {
        polled_.push_back({std::move(command), id});
    }
    /// Polls these commands again, and clears `woken`.
    void wake(std::vector<CommandId> &woken);
    /// Polls all commands that do not sleep. Calls `end` for those that have ended, and then
    /// destroys them. Returns true if there was progress.
    bool poll(const std::function<void(Command &)> &end);
    /// Moves all commands to `all`.
    void take_all(std::vector<std::unique_ptr<Command>> &all);

    [[nodiscard]] std::size_t size() const { return polled_.size() + asleep_.size(); }
    [[nodiscard]] bool empty() const { return size() == 0; }
    [[nodiscard]] bool some_polled() const { return !polled_.empty(); }
    [[nodiscard]] bool bytes_in_flight() const;

private:
    struct Polled {
        std::unique_ptr<Command> command;
        CommandId id;
    };

    std::vector<Polled> polled_;
    std::unordered_map<CommandId, std::unique_ptr<Command>> asleep_;
    /// Commands in `asleep_` that have bytes in flight.
    std::set<CommandId> asleep_in_flight_;
};

}  // namespace cldist
