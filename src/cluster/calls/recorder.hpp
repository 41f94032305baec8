/// The records of calls that a central host sends to the other processes: contiguous bytes. Pure.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

namespace cldist::cluster {

/// Writes a record. Numbers have a variable length; small numbers take one byte.
class RecordWriter {
public:
    void number(std::uint64_t value) {
        for (; value >= 0x80; value >>= 7U) put(static_cast<std::byte>(value | 0x80U));
        put(static_cast<std::byte>(value));
    }
    void bytes(const void *data, std::size_t size) {
        const auto *const first = static_cast<const std::byte *>(data);
        record_.insert(record_.end(), first, first + size);
    }
    void clear() { record_.clear(); }
    [[nodiscard]] std::span<const std::byte> record() const { return record_; }

private:
    void put(std::byte byte) { record_.push_back(byte); }
    std::vector<std::byte> record_;
};

/// Reads records. Throws std::out_of_range if they are too short.
class RecordReader {
public:
    RecordReader() = default;
    explicit RecordReader(std::span<const std::byte> records) : rest_(records) {}

    std::uint64_t number() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            const auto byte = std::to_integer<std::uint64_t>(bytes(1).front());
            value |= (byte & 0x7fU) << shift;
            if (byte < 0x80) return value;
        }
        throw std::out_of_range("a number in a record has more than 64 bits");
    }
    /// The number of elements of an array, of at least a byte each. Nothing if the array is NULL,
    /// which differs from an empty array.
    std::optional<std::size_t> elements() {
        const std::uint64_t count = number();
        if (count == 0) return {};
        if (count - 1 > rest_.size()) throw std::out_of_range("a record is shorter than it says");
        return count - 1;
    }
    std::span<const std::byte> bytes(std::size_t size) {
        if (size > rest_.size()) throw std::out_of_range("a record is shorter than it says");
        const auto taken = rest_.first(size);
        rest_ = rest_.subspan(size);
        return taken;
    }
    [[nodiscard]] bool empty() const { return rest_.empty(); }

private:
    std::span<const std::byte> rest_;
};

/// A queue of records to be sent. One thread at a time appends records, another takes them all.
class Recorder {
public:
    /// Holds at most `most_bytes` bytes, or one larger record.
    explicit Recorder(std::size_t most_bytes) : most_bytes_(most_bytes) {}

    /// Blocks while the queue is full because the other processes are slower.
    void append(std::span<const std::byte> record) {
        std::unique_lock lock(mutex_);
        taken_.wait(lock, [&] {
            return records_.empty() || records_.size() + record.size() <= most_bytes_;
        });
        records_.insert(records_.end(), record.begin(), record.end());
        if (!waits_) return;
        lock.unlock();
        appended_.notify_one();
    }
    /// No more records will be appended.
    void close() {
        {
            const std::lock_guard lock(mutex_);
            closed_ = true;
        }
        appended_.notify_one();
    }

    /// Replaces `records` with all queued records, possibly none. Returns false after close().
    bool take(std::vector<std::byte> &records) {
        bool more = false;
        {
            const std::lock_guard lock(mutex_);
            records.clear();
            records.swap(records_);
            more = !closed_;
        }
        taken_.notify_one();
        return more;
    }
    /// The same, after waiting for a record or close().
    bool wait_and_take(std::vector<std::byte> &records) {
        {
            std::unique_lock lock(mutex_);
            waits_ = true;
            appended_.wait(lock, [&] { return closed_ || !records_.empty(); });
            waits_ = false;
        }
        return take(records);
    }

private:
    const std::size_t most_bytes_;
    std::mutex mutex_;
    std::condition_variable appended_;
    std::condition_variable taken_;
    std::vector<std::byte> records_;
    bool waits_ = false;
    bool closed_ = false;
};

}  // namespace cldist::cluster
