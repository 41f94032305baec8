#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "host/channel.hpp"

namespace cldist::host {

class Session;

[[nodiscard]] std::int64_t ns_of(const timespec &time);
/// Prints a message of this library.
[[gnu::format(printf, 1, 2)]] void say(const char *format, ...);

/// By how many ns this host's CLOCK_REALTIME and CLOCK_MONOTONIC are ahead of those of rank 0's
/// host. 0 if all processes are on one host. Any thread.
class ClockOffsets {
public:
    explicit ClockOffsets(bool far) : far_(far) {}
    /// Notes the clocks at the start of rank 0's program.
    void begin(const std::array<std::int64_t, 2> &there);
    /// Notes rank 0's read of a clock.
    void note(const Record &record, const std::vector<std::byte> &payload);
    /// Returns 0 for other clocks.
    [[nodiscard]] std::int64_t ahead(clockid_t clock) const {
        switch (clock) {
            case CLOCK_REALTIME:
            case CLOCK_REALTIME_COARSE: return ahead_[CLOCK_REALTIME];
            case CLOCK_MONOTONIC:
            case CLOCK_MONOTONIC_COARSE: return ahead_[CLOCK_MONOTONIC];
            default: return 0;
        }
    }

private:
    void note_time(clockid_t clock, std::int64_t there);

    const bool far_;
    std::array<std::atomic<std::int64_t>, 2> ahead_{};
};

/// Records of rank 0 that this process has received and not used. One thread at a time.
class UnusedRecords {
public:
    struct Kept {
        Record record;
        std::vector<std::byte> payload;
    };

    /// `place`: this process's place (Session), before which clock reads are not needed.
    explicit UnusedRecords(const std::atomic<std::uint64_t> &place) : place_(place) {}

    /// Notes the start of rank 0's program.
    void begin(const Record &record) { place_of_first_ = record.place; }
    /// Takes all complete records of this program from the channel. Records of the next program,
    /// which rank 0 may start while this one still runs, stay there. Returns false if there are
    /// none.
    bool receive(ChannelReader &reader, ClockOffsets &offsets);
    /// Drops reads of clocks before this process's place.
    void drop_old_clocks();
    /// Keeps no reads of clocks from now on.
    void refuse_clocks() { refuses_clocks_ = true; }
    [[nodiscard]] bool refuses_clocks() const { return refuses_clocks_; }

    /// Takes the main thread's next read of the clock at `place`, if it is there.
    bool take_clock(std::uint64_t place, std::uint32_t key, void *payload, std::size_t size);
    /// Takes the main thread's next record, and drops the reads of clocks before it. Or takes the
    /// other threads' oldest record for which `matches` returns true.
    template <typename Matches>
    [[nodiscard]] std::optional<Kept> take(bool of_main, Matches matches);

    /// The last known place of rank 0's main thread.
    [[nodiscard]] std::uint64_t place_of_first() const { return place_of_first_; }
    /// Returns true if rank 0 has started its next program.
    [[nodiscard]] bool next_has_begun() const { return next_has_begun_; }

private:
    static bool is_clock(const Kept &kept) {
        return kept.record.kind == static_cast<std::uint32_t>(Answer::clock);
    }

    const std::atomic<std::uint64_t> &place_;
    std::deque<Kept> of_main_;    ///< of rank 0's main thread
    std::deque<Kept> of_others_;  ///< of rank 0's other threads
    std::uint64_t place_of_first_ = 0;
    bool next_has_begun_ = false;
    bool refuses_clocks_ = false;
};

/// In the other processes: receives rank 0's results. Any thread.
class Receiver {
public:
    /// `session` is set to null when this process stops using rank 0's results.
    Receiver(Channel &channel, int rank, std::atomic<Session *> &session);

    /// Receives the start of rank 0's program. Returns false if there is none.
    bool begin(Channel::Identity &identity);
    /// Waits for a result of `least` to `room` bytes. Returns its size, or -1 if there will be
    /// none.
    ssize_t take_any(Answer kind, std::uint32_t key, const char *what, void *payload,
                     std::size_t least, std::size_t room);
    /// In the main thread: waits for a read of a clock. Returns false if there will be none.
    bool take_clock(std::uint32_t key, void *payload, std::size_t size);
    /// In the main thread at the start of an OpenCL call: receives records before rank 0 lacks
    /// room.
    void note_opencl_call();
    void note_platform_mpi() { platform_mpi_ = true; }
    void at_barrier(std::uint64_t number) { reader_.at_barrier(number); }
    [[nodiscard]] const ClockOffsets &offsets() const { return offsets_; }

private:
    using Lock = std::unique_lock<std::timed_mutex>;

    /// The time after which a wait is reported; -1: never.
    [[nodiscard]] int stall_ms() const;
    template <typename Look>
    bool wait_until(Lock &lock, Look look, int patience_ms, const char *what);
    void receive();
    [[nodiscard]] bool no_more_answers() const {
        return records_.next_has_begun() || reader_.ended();
    }
    void diverge(Answer kind, const char *what, Answer theirs);
    void end_early(const char *what);
    void leave();
    void leave_others(const char *what);
    void leave_to_mpi();

    const int rank_;
    double stall_seconds_ = 30;
    std::atomic<Session *> &session_;
    std::atomic<std::uint64_t> &place_;
    std::timed_mutex mutex_;
    unsigned waiters_ = 0;  ///< threads that wait for a record
    ChannelReader reader_;
    UnusedRecords records_;
    ClockOffsets offsets_;
    std::atomic<bool> said_alone_ = false;
    std::atomic<bool> platform_mpi_ = false;
};

}  // namespace cldist::host
