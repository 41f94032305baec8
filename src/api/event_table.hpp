#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "events/operation.hpp"
#include "ocl/handle.hpp"

namespace cldist {

/// The records behind the events that users hold. An event can't tell when it is let go, so the table holds a
/// reference of its own and looks whether there is another: at some of the oldest with each new event, at all when the house
/// looks for what is to be let go.
class EventTable {
public:
    using Records = std::vector<std::shared_ptr<Record>>;

    void add(cl_event event, const std::vector<std::unique_ptr<Operation>> &operations);
    /// Empty if the event is not one of the library's.
    [[nodiscard]] Records find(cl_event event) const;

    /// Lets go of all that nobody else holds.
    void release_unused();

private:
    struct Entry {
        Device device;  ///< of the event's queue, which goes with the last event: see DeviceResources
        Event event;
        Records records;
    };

    void release_some();

    mutable std::mutex mutex_;
    std::list<Entry> entries_;  ///< oldest first
    std::map<cl_event, std::list<Entry>::iterator> index_;
};

EventTable &event_table();

}  // namespace cldist
