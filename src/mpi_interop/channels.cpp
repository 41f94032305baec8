#include "mpi_interop/channels.hpp"

#include <utility>

#include "base/status.hpp"

namespace cldist {

int Channels::acquire() {
    const std::lock_guard lock(mutex_);
    if (in_use_.size() > static_cast<std::size_t>(largest_))
        throw Error(CL_OUT_OF_RESOURCES,
                    "MPI has too few tags for the large messages in flight, or for the "
                    "communicators with collective commands");
    const auto following = [this](int channel) { return channel == largest_ ? 0 : channel + 1; };
    while (!in_use_.insert(next_).second) next_ = following(next_);
    return std::exchange(next_, following(next_));
}

void Channels::release(int channel) {
    const std::lock_guard lock(mutex_);
    in_use_.erase(channel);
}

}  // namespace cldist
