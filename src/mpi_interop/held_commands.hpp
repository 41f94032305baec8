#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include <CL/cl.h>

namespace cldist {

/// The commands whose kernels are held back, in the order of their in-order queues. Not
/// thread-safe.
class HeldCommands {
public:
    /// The number of the command that is held back next.
    [[nodiscard]] std::uint64_t next() const { return next_; }
    /// Holds back a command and returns its number. `line`: the collective's line, or null.
    std::uint64_t hold(cl_command_queue queue, const void *line) {
        held_[queue].emplace(next_, line);
        return next_++;
    }
    void release(cl_command_queue queue, std::uint64_t number) {
        const auto held = held_.find(queue);
        held->second.erase(number);
        if (held->second.empty()) held_.erase(held);
    }
    /// Returns true if a command before `number` is held back in the queue. Collectives of `line`,
    /// unless it is null, do not count.
    [[nodiscard]] bool any_before(cl_command_queue queue, std::uint64_t number,
                                  const void *line) const {
        const auto held = held_.find(queue);
        return held != held_.end() &&
               std::any_of(held->second.begin(), held->second.end(), [&](const auto &command) {
                   return command.first < number && (line == nullptr || command.second != line);
               });
    }

private:
    /// By queue: the numbers of the commands, with their lines.
    std::map<cl_command_queue, std::map<std::uint64_t, const void *>> held_;
    std::uint64_t next_ = 0;
};

}  // namespace cldist
