#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "events/bridge.hpp"
#include "ocl/handle.hpp"

namespace cldist {

/// The objects of failed commands, kept until the platform has stopped using them
/// (Quirks::uses_ended_events). Thread-safe.
class Remains {
public:
    /// One of the arguments may be empty.
    void keep(std::unique_ptr<Bridge> bridge, std::vector<Event> events);
    /// Frees the objects that the platform does not use any more.
    void release();
    /// Keeps all objects, and `bridges`, until the process ends.
    void leave_behind(std::vector<std::unique_ptr<Bridge>> bridges);

private:
    struct Kept {
        Device device;  ///< held for the reason in Bridge::device_
        std::unique_ptr<Bridge> bridge;
        std::vector<Event> events;
        std::uint64_t since_ns;
        bool used_on;  ///< Quirks::uses_ended_events
    };

    std::mutex mutex_;
    std::vector<Kept> kept_;
};

}  // namespace cldist
