#pragma once

#include <mutex>
#include <set>

namespace cldist {

/// Allocates numbers from 0 to `largest`: the channels of messages in blocks, or the contexts of
/// CollectiveLines. A number has one user at a time. Thread-safe.
class Channels {
public:
    explicit Channels(int largest) : largest_(largest) {}

    /// Throws an Error with CL_OUT_OF_RESOURCES if all are in use.
    int acquire();
    void release(int channel);

private:
    const int largest_;
    std::mutex mutex_;
    int next_ = 0;
    std::set<int> in_use_;
};

}  // namespace cldist
