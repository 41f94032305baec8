#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cldist {

/// Whether kernels that move messages wait for the program's kernels of other queues, which keep
/// the device busy. Copy engines then move the next messages, except for a trial now and then.
/// Learns this from the messages. Not thread-safe.
class DeviceLoad {
public:
    /// Returns true if the next message should not use kernels.
    [[nodiscard]] bool avoids_kernels() {
        if (!is_heavy()) return false;
        if (left_ > 0) {
            --left_;
            return true;
        }
        left_ = interval_;
        ++round_;
        return false;
    }
    [[nodiscard]] bool is_heavy() const { return interval_ > 0; }
    /// Returns true if the wait of the next send for the device should be measured, which costs a
    /// command.
    [[nodiscard]] bool measures_send() {
        if (is_heavy()) return true;
        if (to_measure_ > 0) {
            --to_measure_;
            return true;
        }
        ++not_measured_;
        return false;
    }
    /// A send's kernel ran so long after it was enqueued, because of the device or of earlier
    /// commands. If this was long, some of the next sends are measured.
    void ran_after(std::uint64_t ns) {
        constexpr unsigned measured = 8;
        if (ns <= most_ns || not_measured_ < least_not_measured || to_measure_ != 0) return;
        to_measure_ = measured;
        not_measured_ = 0;
    }
    /// Messages that are enqueued now belong to this round.
    [[nodiscard]] unsigned round() const { return round_; }
    /// The kernel of a message of that round, of `bytes`, began or ended so long after it was
    /// allowed to begin.
    void took(unsigned round, std::uint64_t ns, std::size_t bytes) {
        constexpr std::uint64_t bytes_per_ns = 32;
        constexpr unsigned least = 32, most = 512;
        if (round != round_) return;  // it was enqueued before another one was found slow
        if (ns > most_ns + bytes / bytes_per_ns) {
            interval_ = std::clamp(2 * interval_, least, most);
            ++round_;
        } else {
            interval_ = interval_ > least ? interval_ / 2 : 0;
        }
        left_ = interval_;
    }

private:
    // Copy engines take about 0.15 ms, and move 32 to 50 bytes per ns.
    static constexpr std::uint64_t most_ns = 400'000;
    static constexpr unsigned least_not_measured = 128;

    unsigned interval_ = 0;  ///< messages from one trial to the next; 0: all use kernels
    unsigned left_ = 0;      ///< messages before the next trial
    unsigned round_ = 0;
    unsigned to_measure_ = 0;                     ///< sends
    unsigned not_measured_ = least_not_measured;  ///< sends since the last measured one
};

}  // namespace cldist
