#pragma once

#include <map>
#include <vector>

#include "cluster/schedule/topology.hpp"
#include "ocl/handle.hpp"
#include "splitting/intervals.hpp"

namespace cldist::cluster {

/// The bytes of one memory object that transfers bring to memories of this process, and the bytes
/// that a memory lacks because a transfer has failed. Commands that read missing bytes must fail,
/// even if the transfer failed long before. Under the lock.
class Arrivals {
public:
    /// A transfer brings the bytes, and `event` ends when it ends.
    void expect(MemoryId memory, const splitting::Intervals &bytes, Event event);
    /// A transfer could not start.
    void lose(MemoryId memory, const splitting::Intervals &bytes) { lacking_[memory].unite(bytes); }
    /// A command writes all of the bytes.
    void overwrite(MemoryId memory, const splitting::Interval &bytes);

    /// Finds transfers that have ended or failed. Call it before lacks().
    void update();
    [[nodiscard]] bool lacks(MemoryId memory, const splitting::Interval &bytes) const;

private:
    struct Arrival {
        MemoryId memory;
        splitting::Intervals bytes;
        Event event;
    };

    std::vector<Arrival> open_;
    std::map<MemoryId, splitting::Intervals> lacking_;
};

}  // namespace cldist::cluster
