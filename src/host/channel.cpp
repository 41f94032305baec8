#include "host/channel.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <ctime>

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
    syscall(SYS_futex, reinterpret_cast<std::uint32_t *>(&word), FUTEX_WAIT, seen, &time, nullptr, 0);
}

void wake_all(std::atomic<std::uint32_t> &word) {
    word.fetch_add(1);
    syscall(SYS_futex, reinterpret_cast<std::uint32_t *>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void ChannelWriter::put(const Record &record, const void *payload) {
    const std::uint64_t begin = channel_.written.load(std::memory_order_relaxed);
    wait_for_room(begin + sizeof record + record.size);
    publish(at(at(begin, &record, sizeof record), payload, record.size));
}

void ChannelWriter::copy(const void *bytes, std::size_t size) {
    const std::uint64_t begin = channel_.written.load(std::memory_order_relaxed);
    wait_for_room(begin + size);
    publish(at(begin, bytes, size));
}

std::uint64_t ChannelWriter::at(std::uint64_t position, const void *bytes, std::size_t size) {
    ring_copy(channel_.ring.data(), position, bytes, size);
    return position + size;
}

void ChannelWriter::publish(std::uint64_t end) {
    channel_.written.store(end);
    if (channel_.waiting.load() != 0) wake_all(channel_.changes);
}

void ChannelWriter::wait_for_room(std::uint64_t end) {
    const auto all_past = [&] {
        least_ = Channel::gone;
        for (std::size_t i = 0; i < channel_.readers; ++i)
            least_ = std::min(least_, channel_.reader.at(i).position.load());
        return least_ == Channel::gone || end <= least_ + Channel::capacity;
    };
    if (least_ == Channel::gone || end <= least_ + Channel::capacity || all_past()) return;
    channel_.held_up.fetch_add(1);
    for (std::uint32_t seen = channel_.moves.load(); !all_past(); seen = channel_.moves.load())
        sleep_on(channel_.moves, seen, look_again_ms);
    channel_.held_up.fetch_sub(1);
}

void ChannelWriter::wait_for_barrier(std::uint64_t number) {
    const auto all_there = [&] {
        for (std::size_t i = 0; i < channel_.barriers; ++i)
            if (channel_.reader.at(i).barrier.load() < number) return false;
        return true;
    };
    channel_.held_up.fetch_add(1);
    for (std::uint32_t seen = channel_.moves.load(); !all_there(); seen = channel_.moves.load())
        sleep_on(channel_.moves, seen, look_again_ms);
    channel_.held_up.fetch_sub(1);
}

void ChannelReader::wait(std::uint32_t seen, std::size_t were_there, int milliseconds) {
    channel_.waiting.fetch_add(1);
    if (there() == were_there && !ended()) sleep_on(channel_.changes, seen, milliseconds);
    channel_.waiting.fetch_sub(1);
}

void ChannelReader::wake_others() {
    if (channel_.waiting.load() != 0) wake_all(channel_.changes);
}

void ChannelReader::look(void *bytes, std::size_t size, std::size_t behind) const {
    const std::uint64_t position = me_.position.load(std::memory_order_relaxed) + behind;
    const std::size_t begin = position % Channel::capacity;
    const std::size_t first = std::min(size, Channel::capacity - begin);
    std::memcpy(bytes, channel_.ring.data() + begin, first);
    std::memcpy(static_cast<std::byte *>(bytes) + first, channel_.ring.data(), size - first);
}

void ChannelReader::take(std::size_t size) {
    me_.position.store(me_.position.load(std::memory_order_relaxed) + size);
    tell();
}

void ChannelReader::at_barrier(std::uint64_t number) {
    me_.barrier.store(number);
    wake_all(channel_.moves);  // a relay may wait, too
}

void ChannelReader::leave() {
    me_.position.store(Channel::gone);
    me_.barrier.store(Channel::gone);
    wake_all(channel_.moves);
}

void ChannelReader::tell() {
    if (channel_.held_up.load() != 0) wake_all(channel_.moves);
}

}  // namespace cldist::host
