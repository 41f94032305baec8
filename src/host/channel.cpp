#include "host/channel.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <ctime>
#include <utility>

namespace cldist::host {
namespace {

constexpr int look_again_ms = 1000;

void ring_copy(std::byte *ring, std::uint64_t position, const void *bytes, std::size_t size) {
    const std::size_t begin = position % Channel::capacity;
    const std::size_t first = std::min(size, Channel::capacity - begin);
    std::memcpy(ring + begin, bytes, first);
    std::memcpy(ring, static_cast<const std::byte *>(bytes) + first, size - first);
}

}  // namespace

void sleep_on(std::atomic<std::uint32_t> &word, std::uint32_t seen, int milliseconds) {
    const timespec time{milliseconds / 1000, milliseconds % 1000 * 1000000L};
    syscall(SYS_futex, reinterpret_cast<std::uint32_t *>(&word), FUTEX_WAIT, seen, &time, nullptr,
            0);
}

void wake_all(std::atomic<std::uint32_t> &word) {
    word.fetch_add(1);
    syscall(SYS_futex, reinterpret_cast<std::uint32_t *>(&word), FUTEX_WAKE, INT_MAX, nullptr,
            nullptr, 0);
}

std::int64_t Deadline::now_ms() {
    timespec now{};
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

int Deadline::left_ms() const {
    return end_ < 0 ? INT_MAX : static_cast<int>(std::max<std::int64_t>(end_ - now_ms(), 0));
}

void ChannelWriter::put(const Record &record, const void *payload) {
    const std::uint64_t begin = channel_.written.load(std::memory_order_relaxed);
    wait_for_room(begin + sizeof record + record.size, true);
    publish(at(at(begin, &record, sizeof record), payload, record.size), channel_.waiting);
}

bool ChannelWriter::try_to_put(const Record &record, const void *payload, bool quietly) {
    const std::uint64_t begin = channel_.written.load(std::memory_order_relaxed);
    if (!wait_for_room(begin + sizeof record + record.size, false)) return false;
    publish(at(at(begin, &record, sizeof record), payload, record.size),
            quietly ? channel_.for_quiet : channel_.waiting);
    return true;
}

void ChannelWriter::copy(const void *bytes, std::size_t size) {
    const std::uint64_t begin = channel_.written.load(std::memory_order_relaxed);
    wait_for_room(begin + size, true);
    publish(at(begin, bytes, size), channel_.waiting);
}

std::uint64_t ChannelWriter::at(std::uint64_t position, const void *bytes, std::size_t size) {
    ring_copy(channel_.ring.data(), position, bytes, size);
    return position + size;
}

void ChannelWriter::publish(std::uint64_t end, const std::atomic<std::uint32_t> &sleepers) {
    channel_.written.store(end);
    if (sleepers.load() != 0) wake_all(channel_.changes);
}

bool ChannelWriter::wait_for_room(std::uint64_t end, bool patient) {
    const auto all_past = [&] {
        least_ = Channel::gone;
        for (std::size_t i = 0; i < channel_.readers; ++i)
            least_ = std::min(least_, channel_.reader.at(i).position.load());
        return least_ == Channel::gone || end <= least_ + Channel::capacity;
    };
    if (least_ == Channel::gone || end <= least_ + Channel::capacity || all_past()) return true;
    if (!patient && least_ == stuck_at_) return false;
    channel_.held_up.fetch_add(1);
    std::uint64_t before = least_;
    Deadline deadline(look_again_ms);
    bool is_stuck = false;
    for (std::uint32_t seen = channel_.moves.load(); !all_past() && !is_stuck;
         seen = channel_.moves.load()) {
        if (std::exchange(before, least_) != least_) deadline = Deadline(look_again_ms);
        sleep_on(channel_.moves, seen, look_again_ms);
        is_stuck = !patient && deadline.is_over() && !all_past() && least_ == before;
    }
    channel_.held_up.fetch_sub(1);
    stuck_at_ = is_stuck ? least_ : Channel::gone;
    return !is_stuck;
}

bool ChannelWriter::wait_for_barrier(std::uint64_t number, int milliseconds) {
    const auto all_there = [&] {
        for (std::size_t i = 0; i < channel_.barriers; ++i)
            if (channel_.reader.at(i).barrier.load() < number) return false;
        return true;
    };
    const Deadline deadline(milliseconds);
    channel_.held_up.fetch_add(1);
    bool there = false;
    for (std::uint32_t seen = channel_.moves.load(); !(there = all_there()) && !deadline.is_over();
         seen = channel_.moves.load())
        sleep_on(channel_.moves, seen, std::min(deadline.left_ms(), look_again_ms));
    channel_.held_up.fetch_sub(1);
    return there;
}

void ChannelReader::wait(std::uint32_t seen, std::size_t were_there, int milliseconds, bool quiet) {
    channel_.waiting.fetch_add(1);
    if (quiet) channel_.for_quiet.fetch_add(1);
    if (there() == were_there && !ended()) sleep_on(channel_.changes, seen, milliseconds);
    if (quiet) channel_.for_quiet.fetch_sub(1);
    channel_.waiting.fetch_sub(1);
}

void ChannelReader::wake_others() { wake_all(channel_.changes); }

void ChannelReader::peek(void *bytes, std::size_t size, std::size_t offset) const {
    const std::uint64_t position = me_.position.load(std::memory_order_relaxed) + offset;
    const std::size_t begin = position % Channel::capacity;
    const std::size_t first = std::min(size, Channel::capacity - begin);
    std::memcpy(bytes, channel_.ring.data() + begin, first);
    std::memcpy(static_cast<std::byte *>(bytes) + first, channel_.ring.data(), size - first);
}

bool ChannelReader::peek(Record &record, std::size_t there) const {
    if (there < sizeof record) return false;
    peek(&record, sizeof record);
    return there >= sizeof record + record.size;
}

void ChannelReader::take(std::size_t size) {
    me_.position.store(me_.position.load(std::memory_order_relaxed) + size);
    if (channel_.held_up.load() != 0) wake_all(channel_.moves);
}

void ChannelReader::at_barrier(std::uint64_t number) {
    // Threads may reach their barriers in another order.
    std::uint64_t last = me_.barrier.load();
    while (last < number && !me_.barrier.compare_exchange_weak(last, number)) {
    }
    wake_all(channel_.moves);  // a relay to another host may be waiting
}

void ChannelReader::leave() {
    me_.position.store(Channel::gone);
    me_.barrier.store(Channel::gone);
    wake_all(channel_.moves);
}

}  // namespace cldist::host
