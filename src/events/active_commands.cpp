#include "events/active_commands.hpp"

#include <algorithm>
#include <utility>

namespace cldist {

void ActiveCommands::wake(std::vector<CommandId> &woken) {
    for (const CommandId id : woken) {
        const auto at = asleep_.find(id);
        if (at == asleep_.end()) continue;  // the command is polled, not started yet, or destroyed
        add(std::move(at->second), id);
        asleep_.erase(at);
        asleep_in_flight_.erase(id);
    }
    woken.clear();
}

bool ActiveCommands::poll(const std::function<void(Command &)> &end) {
    bool moved = false;
    std::erase_if(polled_, [&](Polled &polled) {
        Command &command = *polled.command;
        const Progress progress = command.poll();
        if (progress == Progress::idle && command.wakes()) {
            if (command.bytes_in_flight()) asleep_in_flight_.insert(polled.id);
            asleep_.emplace(polled.id, std::move(polled.command));
            return true;
        }
        moved |= progress != Progress::idle;
        if (progress != Progress::done) return false;
        end(command);
        polled.command.reset();
        return true;
    });
    return moved;
}

void ActiveCommands::take_all(std::vector<std::unique_ptr<Command>> &all) {
    for (Polled &polled : polled_) all.push_back(std::move(polled.command));
    for (auto &[id, command] : asleep_) all.push_back(std::move(command));
    polled_.clear();
    asleep_.clear();
    asleep_in_flight_.clear();
}

bool ActiveCommands::bytes_in_flight() const {
    return !asleep_in_flight_.empty() ||
           std::any_of(polled_.begin(), polled_.end(),
                       [](const Polled &polled) { return polled.command->bytes_in_flight(); });
}

}  // namespace cldist
