#pragma once

#include <sys/utsname.h>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cldist::host {

/// Memory that a host's processes share. Rank 0 writes the results of its wrapped calls, in the
/// order of the calls, and the other processes read them. `cldist run` creates it and sets
/// CLDIST_HOST_CHANNEL to its path. It contains a ring of records, whose positions only grow. A
/// record is not overwritten before every reader has read it.
struct Channel {
    static constexpr std::uint32_t magic_number = 0xC1D15709;
    static constexpr std::size_t capacity = std::size_t{4} << 20U;
    static constexpr std::size_t most_readers = 4096;
    /// The position of a reader that has left.
    static constexpr std::uint64_t gone = ~std::uint64_t{0};

    /// A reader's progress.
    struct alignas(64) Reader {
        std::atomic<std::uint64_t> position{0};  ///< bytes before it may be overwritten
        std::atomic<std::uint64_t> barrier{0};   ///< the last barrier that it has reached
    };
    struct alignas(64) Rank {
        std::atomic<std::int32_t> holder{0};  ///< the process ID of the rank's wrapped process
        std::atomic<std::uint64_t> place{0};  ///< the place of its main thread (Session)
    };
    /// Constants of rank 0's program.
    struct Identity {
        std::int32_t pid;
        std::int32_t parent;
        std::int32_t terminals;  ///< bit n: descriptor n is a terminal
        std::uint32_t number;    ///< differs between the programs that rank 0 runs
        utsname system;
        /// CLOCK_REALTIME and CLOCK_MONOTONIC at the program's start, in ns.
        std::array<std::int64_t, 2> clocks;
    };

    std::uint32_t magic = magic_number;
    std::uint32_t readers = 0;   ///< readers of this ring; a relay to other hosts is one of them
    std::uint32_t barriers = 0;  ///< readers that take part in barriers, on all hosts
    /// 1 if there are other hosts, which may not have rank 0's files.
    std::uint32_t far = 0;
    std::array<std::uint32_t, 8> seed{};
    std::array<Rank, most_readers> ranks{};
    /// How often the user has interrupted the job.
    std::atomic<std::uint32_t> interrupts{0};
    /// The place of each interrupt, or 0 if it has not been chosen (Interrupts).
    std::array<std::atomic<std::uint64_t>, 64> interrupt_at{};
    /// The number of barriers in all of rank 0's programs.
    std::atomic<std::uint64_t> meetings{0};
    std::atomic<std::uint64_t> written{0};    ///< the end of the last record
    std::atomic<std::uint32_t> changes{0};    ///< futex: changes of `written` and `closed`
    std::atomic<std::uint32_t> waiting{0};    ///< threads that wait for `changes`
    std::atomic<std::uint32_t> for_quiet{0};  ///< of these, threads that accept quiet records, too
    std::atomic<std::uint32_t> moves{0};      ///< futex: changes of readers
    std::atomic<std::uint32_t> held_up{0};    ///< threads of rank 0 that wait for `moves`
    std::atomic<std::uint32_t> closed{0};     ///< 1 if rank 0 has ended
    std::array<Reader, most_readers> reader{};
    std::array<std::byte, capacity> ring{};
};

/// The kinds of records. Most records are rank 0's results of wrapped calls.
enum class Answer : std::uint32_t {
    begin,
    clock,
    open,
    prepare,
    contents,
    write,
    state,
    change,
    name,
    child,
    read,
    opencl,
    last
};

/// The header of a record.
struct Record {
    std::uint32_t size;    ///< bytes of the payload, which follows
    std::uint32_t kind;    ///< an Answer
    std::uint32_t thread;  ///< Thread::id of the caller
    std::uint32_t key;     ///< a hash of the call's arguments, or the number of a clock
    std::uint64_t place;   ///< the main thread's place (Session); 0 in other threads
};

/// Waits up to `milliseconds` until `word` differs from `seen`. May return early.
void sleep_on(std::atomic<std::uint32_t> &word, std::uint32_t seen, int milliseconds);
void wake_all(std::atomic<std::uint32_t> &word);

/// A timeout that starts at construction; -1: never. Uses no function that this library wraps.
class Deadline {
public:
    explicit Deadline(int milliseconds) : end_(milliseconds < 0 ? -1 : now_ms() + milliseconds) {}
    [[nodiscard]] int left_ms() const;
    [[nodiscard]] bool is_over() const { return left_ms() == 0; }

private:
    static std::int64_t now_ms();
    std::int64_t end_;
};

/// Writes to the ring. Used by one thread at a time, except wait_for_barrier().
class ChannelWriter {
public:
    explicit ChannelWriter(Channel &channel) : channel_(channel) {}
    /// Waits until there is room for the record, which may take at most a quarter of the ring.
    void put(const Record &record, const void *payload);
    /// The same, but if the slowest reader does not move for a second, drops the record and returns
    /// false. `quietly` wakes only threads that wait for quiet records; others find it later.
    bool try_to_put(const Record &record, const void *payload, bool quietly);
    /// Appends bytes that have been copied from another ring. Waits until there is room.
    void copy(const void *bytes, std::size_t size);
    /// Waits until all readers have reached the barrier or have left. Returns false after
    /// `milliseconds`; -1: no limit.
    bool wait_for_barrier(std::uint64_t number, int milliseconds = -1);

private:
    bool wait_for_room(std::uint64_t end, bool patient);
    std::uint64_t at(std::uint64_t position, const void *bytes, std::size_t size);
    void publish(std::uint64_t end, const std::atomic<std::uint32_t> &sleepers);

    Channel &channel_;
    std::uint64_t least_ = 0;  ///< all readers are at this position or after it
    /// The position of a reader that has not moved for a second.
    std::uint64_t stuck_at_ = Channel::gone;
};

/// A reader of the ring. Used by one thread at a time, except wait() and at_barrier().
class ChannelReader {
public:
    ChannelReader(Channel &channel, std::size_t number)
        : channel_(channel), me_(channel.reader.at(number)) {}
    /// The number of bytes to read.
    [[nodiscard]] std::size_t there() const {
        return static_cast<std::size_t>(channel_.written.load() -
                                        me_.position.load(std::memory_order_relaxed));
    }
    /// The argument `seen` of a later wait(). Call it before you check what you wait for.
    [[nodiscard]] std::uint32_t changes() const { return channel_.changes.load(); }
    /// Waits up to `milliseconds` for a change from `seen` and `there`. `quiet`: quiet records also
    /// end the wait.
    void wait(std::uint32_t seen, std::size_t there, int milliseconds, bool quiet = false);
    /// Ends the waits of other threads, which then check again.
    void wake_others();
    [[nodiscard]] bool ended() const {
        return channel_.closed.load(std::memory_order_acquire) != 0;
    }
    /// Returns true if this process or an earlier one of the rank has called leave().
    [[nodiscard]] bool has_left() const { return me_.position.load() == Channel::gone; }
    /// Copies `size` bytes that begin `offset` bytes after the position, without taking them.
    void peek(void *bytes, std::size_t size, std::size_t offset = 0) const;
    /// Copies the header of the next record. Returns false if the first `there` bytes do not
    /// contain the whole record, which may arrive in pieces from another host.
    bool peek(Record &record, std::size_t there) const;
    /// Takes `size` bytes, which may then be overwritten.
    void take(std::size_t size);
    void at_barrier(std::uint64_t number);
    /// Stops reading. The writer no longer waits for this reader.
    void leave();

private:
    Channel &channel_;
    Channel::Reader &me_;
};

}  // namespace cldist::host
