#include "host/sender.hpp"

#include <chrono>

#include "host/thread.hpp"

namespace cldist::host {

Sender::Sender(Channel &channel)
    : place_(channel.ranks.front().place), meetings_(channel.meetings), writer_(channel) {}

void Sender::post(Answer kind, std::uint32_t key, const void *payload, std::size_t size) {
    const SameErrno same;
    const std::lock_guard lock(mutex_);
    const bool is_main = this_thread.id == main_thread;
    writer_.put({static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(kind), this_thread.id,
                 key, is_main ? ++place_ : 0},
                payload);
}

// Gives up after a second: clock reads do not block.
bool Sender::post_if_there_is_room(const Record &record, const void *payload, bool quietly) {
    const SameErrno same;
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) (void)lock.try_lock_for(std::chrono::seconds(1));
    return lock.owns_lock() && writer_.try_to_put(record, payload, quietly);
}

void Sender::post_clock(std::uint32_t key, const void *payload, std::size_t size) {
    const std::uint64_t place = place_;
    if (no_clocks_at_ == place) return;
    if (!post_if_there_is_room(
            {static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(Answer::clock),
             this_thread.id, key, place},
            payload, false))
        no_clocks_at_ = place;
}

void Sender::note_opencl_call() {
    post_if_there_is_room(
        {0, static_cast<std::uint32_t>(Answer::opencl), this_thread.id, 0, ++place_}, nullptr,
        true);
}

void Sender::meet(std::uint32_t key) {
    const std::lock_guard lock(meeting_);
    const std::uint64_t number = meetings_.fetch_add(1) + 1;
    post(Answer::prepare, key, &number, sizeof number);
    Thread &thread = this_thread;
    if (!writer_.wait_for_barrier(number, thread.patience_ms())) thread.alone = true;
}

}  // namespace cldist::host
