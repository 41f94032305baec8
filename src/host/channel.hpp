#pragma once

#include <sys/utsname.h>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cldist::host {

/// Memory that a host's processes share: rank 0's results of wrapped calls, in the order of the
/// calls, for the others to read. `cldist run` creates it and puts its name into
/// CLDIST_HOST_CHANNEL. It is a ring of records at positions that only grow. A record is not
/// overwritten before every reader has read it.
struct Channel {
    static constexpr std::uint32_t magic_number = 0xC1D15709;
    static constexpr std::size_t capacity = std::size_t{4} << 20U;
    static constexpr std::size_t most_readers = 4096;
    /// Where a reader has read that no longer reads.
    static constexpr std::uint64_t gone = ~std::uint64_t{0};

    /// What a reader lets rank 0 know.
    struct alignas(64) Reader {
        std::atomic<std::uint64_t> position{0};  ///< what is before it may be overwritten
        std::atomic<std::uint64_t> barrier{0};   ///< the last that it has come to
    };
    /// A rank.
    struct alignas(64) Rank {
        std::atomic<std::int32_t> holder{0};  ///< the process that is wrapped
        std::atomic<std::uint64_t> place{0};  ///< of its main thread (Session)
    };
    /// Rank 0's constants.
    struct Identity {
        std::int32_t pid;
        std::int32_t parent;
        std::int32_t terminals;  ///< bit n: descriptor n is a terminal
        std::uint32_t number;    ///< another one for each program that rank 0 runs
        utsname system;
        /// CLOCK_REALTIME and CLOCK_MONOTONIC at the program's start, in ns.
        std::array<std::int64_t, 2> clocks;
    };

    std::uint32_t magic = magic_number;
    std::uint32_t readers = 0;   ///< of the ring: a relay to other hosts counts as one
    std::uint32_t barriers = 0;  ///< readers that come to barriers, on any host
    /// Whether there are other hosts, which may not have rank 0's files.
    std::uint32_t far = 0;
    std::array<std::uint32_t, 8> seed{};
    std::array<Rank, most_readers> ranks{};
    /// How often the user has interrupted the job.
    std::atomic<std::uint32_t> interrupts{0};
    /// The place of each, or 0 (Interrupts)
    std::array<std::atomic<std::uint64_t>, 64> interrupt_at{};
    /// Barriers so far, in all of rank 0's programs.
    std::atomic<std::uint64_t> meetings{0};
    std::atomic<std::uint64_t> written{0};
    std::atomic<std::uint32_t> changes{0};    ///< a futex: of `written` and `closed`
    std::atomic<std::uint32_t> waiting{0};    ///< threads that wait for it
    std::atomic<std::uint32_t> for_quiet{0};  ///< threads that wait for quiet records, too
    std::atomic<std::uint32_t> moves{0};      ///< a futex: of readers
    std::atomic<std::uint32_t> held_up{0};    ///< how many of rank 0's threads wait for that
    std::atomic<std::uint32_t> closed{0};     ///< rank 0 has ended
    std::array<Reader, most_readers> reader{};
    std::array<std::byte, capacity> ring{};
};

/// In front of what a record holds.
struct Record {
    std::uint32_t size;    ///< bytes behind this
    std::uint32_t kind;    ///< an Answer
    std::uint32_t thread;  ///< whose call it was
    std::uint32_t key;     ///< of its arguments
    std::uint64_t place;   ///< in the main thread: how far it has come (Session)
};

/// Waits up to `milliseconds` until `word` is no longer `seen`; may come back at any time.
void sleep_on(std::atomic<std::uint32_t> &word, std::uint32_t seen, int milliseconds);
void wake_all(std::atomic<std::uint32_t> &word);

/// Time that passes from its construction on. -1: it never does. Uses no function that this library
/// wraps.
class Deadline {
public:
    explicit Deadline(int milliseconds) : end_(milliseconds < 0 ? -1 : now_ms() + milliseconds) {}
    [[nodiscard]] int left_ms() const;
    [[nodiscard]] bool is_over() const { return left_ms() == 0; }

private:
    static std::int64_t now_ms();
    std::int64_t end_;
};

/// The ring's far end. One thread at a time.
class ChannelWriter {
public:
    explicit ChannelWriter(Channel &channel) : channel_(channel) {}
    /// Waits until there is room. At most a quarter of the ring.
    void put(const Record &record, const void *payload);
    /// The same, but waits for room only as long as the slowest reader moves at least once a
    /// second. Otherwise it drops the record and returns false. `quietly`: wakes only readers that
    /// wait for quiet records, too; the others find it later.
    bool try_to_put(const Record &record, const void *payload, bool quietly);
    /// The same for bytes that another writer has put elsewhere.
    void copy(const void *bytes, std::size_t size);
    /// Waits until all readers have come to a barrier or have left. Returns false if they have not
    /// after `milliseconds`; -1 waits without limit.
    bool wait_for_barrier(std::uint64_t number, int milliseconds = -1);

private:
    bool wait_for_room(std::uint64_t end, bool patient);
    std::uint64_t at(std::uint64_t position, const void *bytes, std::size_t size);
    void publish(std::uint64_t end, const std::atomic<std::uint32_t> &sleepers);

    Channel &channel_;
    std::uint64_t least_ = 0;                 // all readers are past it
    std::uint64_t stuck_at_ = Channel::gone;  // where a reader was that did not move for a second
};

/// One reader. One thread at a time.
class ChannelReader {
public:
    ChannelReader(Channel &channel, std::size_t number)
        : channel_(channel), me_(channel.reader.at(number)) {}
    /// How many bytes are there.
    [[nodiscard]] std::size_t there() const {
        return static_cast<std::size_t>(channel_.written.load() -
                                        me_.position.load(std::memory_order_relaxed));
    }
    /// To be asked before looking whether there is what one waits for.
    [[nodiscard]] std::uint32_t changes() const { return channel_.changes.load(); }
    /// Waits up to `milliseconds` for a change since changes() was `seen`. `quiet`: also for quiet
    /// records.
    void wait(std::uint32_t seen, std::size_t there, int milliseconds, bool quiet = false);
    /// Lets other threads of this process look again.
    void wake_others();
    [[nodiscard]] bool ended() const {
        return channel_.closed.load(std::memory_order_acquire) != 0;
    }
    /// Whether this process or an earlier one has called leave().
    [[nodiscard]] bool has_left() const { return me_.position.load() == Channel::gone; }
    /// What is there, without taking it.
    void look(void *bytes, std::size_t size, std::size_t behind = 0) const;
    void take(std::size_t size);
    void at_barrier(std::uint64_t number);
    void leave();

private:
    void tell();

    Channel &channel_;
    Channel::Reader &me_;
};

}  // namespace cldist::host
