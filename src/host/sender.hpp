#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "host/channel.hpp"

namespace cldist::host {

/// In rank 0: sends the results of its calls to the other processes. Any thread.
class Sender {
public:
    explicit Sender(Channel &channel);

    /// Sends the result of the calling thread's next call.
    void post(Answer kind, std::uint32_t key, const void *payload, std::size_t size);
    /// In the main thread: sends a read of a clock.
    void post_clock(std::uint32_t key, const void *payload, std::size_t size);
    /// In the main thread: sends its place at the start of an OpenCL call.
    void note_opencl_call();
    /// Waits until the other processes have reached the same call.
    void meet(std::uint32_t key);

private:
    bool post_if_there_is_room(const Record &record, const void *payload, bool quietly);

    std::atomic<std::uint64_t> &place_;
    std::atomic<std::uint64_t> &meetings_;
    ChannelWriter writer_;
    std::timed_mutex mutex_;
    std::mutex meeting_;
    /// The place where clock reads are not sent, because a reader was too slow.
    std::uint64_t no_clocks_at_ = ~std::uint64_t{0};
};

}  // namespace cldist::host
