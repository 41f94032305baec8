#pragma once

#include <algorithm>
#include <cstddef>
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

/// The kernels in the program's queues that have not ended. Not thread-safe.
class UnfinishedKernels {
public:
    /// Returns the new count().
    std::size_t add(cl_command_queue queue) {
        ++in_queue_[queue];
        return ++count_;
    }
    void remove(cl_command_queue queue) {
        --count_;
        if (const auto at = in_queue_.find(queue); --at->second == 0) in_queue_.erase(at);
    }
    [[nodiscard]] std::size_t count() const { return count_; }
    /// The number of queues that contain such kernels.
    [[nodiscard]] std::size_t queues() const { return in_queue_.size(); }
    [[nodiscard]] bool in_queue(cl_command_queue queue) const { return in_queue_.contains(queue); }

private:
    std::map<cl_command_queue, std::size_t> in_queue_;
    std::size_t count_ = 0;  ///< their sum
};

}  // namespace cldist
