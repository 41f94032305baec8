#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "cluster/world/watch_messages.hpp"

namespace cldist::cluster {

/// In rank 0: asks all processes whether the job can start again with a central host, and decides.
/// One thread at a time.
class NewStartVote {
public:
    explicit NewStartVote(WatchMessages &messages) : messages_(messages) {}

    /// Asks all processes, unless they are being asked or a new start is decided. `why` is the
    /// reason. `difference` is the message to print if the job cannot start again; if it is empty,
    /// the job goes on.
    void begin(std::string why, std::string difference);
    /// Notes a process's answer: why it cannot start again, or an empty string.
    void take_consent(int from, const std::string &refusal);
    /// Returns true while answers are outstanding.
    [[nodiscard]] bool is_open() const { return missing_ > 0; }
    [[nodiscard]] bool has_decided_new_start() const { return stopping_since_.has_value(); }
    /// After this decision: ends this process when the other processes have received it.
    void stop_in_time() const;

private:
    void decide(bool again);

    WatchMessages &messages_;
    int missing_ = 0;         ///< outstanding messages with the tag `consent`
    std::string why_;         ///< the reason for a new start
    std::string difference_;  ///< the message to print if the job cannot start again
    std::string refusal_;     ///< the reason why it cannot
    std::optional<std::chrono::steady_clock::time_point> stopping_since_;
};

}  // namespace cldist::cluster
