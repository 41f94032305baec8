#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "events/operation.hpp"
#include "ocl/handle.hpp"

namespace cldist {

/// The records of the events that users hold. OpenCL does not report when the user releases an
/// event. Therefore the table holds a reference and checks whether it is the last one: for some old
/// events with each new event, and for all events in each round of the cleanup thread.
class EventTable {
public:
    using Records = std::vector<std::shared_ptr<Record>>;

    void add(cl_event event, const Operations &operations);
    /// Returns no records if the library did not create the event.
    [[nodiscard]] Records find(cl_event event) const;

    /// Releases all events that only the table holds.
    void release_unused();

private:
    struct Entry {
        /// The device of the event's queue, which the last event may free; see DeviceResources.
        Device device;
        Event event;
        Records records;
    };

    void release_some(std::list<Entry> &released);

    mutable std::mutex mutex_;
    std::list<Entry> entries_;  ///< oldest first
    std::map<cl_event, std::list<Entry>::iterator> index_;
};

EventTable &event_table();

[[nodiscard]] EventTable::Records records_of(const Operations &operations);

}  // namespace cldist
