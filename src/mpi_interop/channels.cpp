#include "mpi_interop/channels.hpp"

#include <utility>

namespace cldist {

int Channels::acquire(BlockSend send) {
    const std::lock_guard lock(mutex_);
    if (in_use_.size() > static_cast<std::size_t>(largest_))
        throw Error(
            CL_OUT_OF_RESOURCES,
            "MPI has too few tags for the large messages in flight, or for the communicators with collective commands");
    const auto following = [this](int channel) { return channel == largest_ ? 0 : channel + 1; };
    while (!in_use_.try_emplace(next_, std::move(send)).second) next_ = following(next_);
    return std::exchange(next_, following(next_));
}

void Channels::release(int channel) {
    const std::lock_guard lock(mutex_);
    in_use_.erase(channel);
}

std::vector<BlockSend> Channels::unmoved_since(std::uint64_t time) {
    std::vector<BlockSend> unmoved;
    const std::lock_guard lock(mutex_);
    for (auto &[channel, send] : in_use_) {
        if (send.record == nullptr || send.record->last_moved() > time) continue;
        unmoved.push_back(std::exchange(send, {}));
    }
    return unmoved;
}

}  // namespace cldist
