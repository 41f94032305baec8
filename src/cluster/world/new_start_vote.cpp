#include "cluster/world/new_start_vote.hpp"

#include <utility>

#include <fmt/format.h>

#include "cluster/world/new_start.hpp"

namespace cldist::cluster {

namespace {

// How long rank 0 waits until the other ranks have received its decision of a new start.
constexpr std::chrono::milliseconds time_to_stop{500};

}  // namespace

void NewStartVote::begin(std::string why, std::string difference) {
    if (difference_.empty()) difference_ = std::move(difference);
    if (is_open() || has_decided_new_start()) return;
    // Rank 0 waits in the last barrier. Another rank's program has made other calls than those
    // before it.
    if (messages_.in_barrier())
        refusal_ = " cldist has not done this itself, because the program of rank 0 has ended.";
    if (!new_start::is_wanted() || !refusal_.empty()) {
        if (!difference_.empty()) messages_.end_job(difference_ + refusal_);
        return decide(false);
    }
    why_ = std::move(why);
    missing_ = messages_.size();
    for (int rank = 0; rank < messages_.size(); ++rank)
        messages_.send(rank, WatchMessages::question, "");
}

void NewStartVote::take_consent(int from, const std::string &refusal) {
    if (!refusal.empty() && refusal_.empty())
        refusal_ = fmt::format(
            " cldist has not done this itself, because the program of rank {} {}.", from, refusal);
    if (--missing_ > 0) return;
    if (!refusal_.empty() && !difference_.empty()) messages_.end_job(difference_ + refusal_);
    decide(refusal_.empty());
}

/// Tells all processes whether the job starts again.
void NewStartVote::decide(bool again) {
    if (again) stopping_since_ = std::chrono::steady_clock::now();
    for (int rank = again ? 1 : 0; rank < messages_.size(); ++rank)
        messages_.send(rank, WatchMessages::decision, again ? "stop" : "");
}

void NewStartVote::stop_in_time() const {
    if (stopping_since_ && (!messages_.is_sending() ||
                            std::chrono::steady_clock::now() - *stopping_since_ > time_to_stop))
        new_start::stop(why_);
}

}  // namespace cldist::cluster
