#include "api/event_table.hpp"

#include <algorithm>

#include "ocl/query.hpp"

namespace cldist {
namespace {

// Looking at two old events for each new one keeps up with any program; the limit is for platforms whose reference
// counts tell nothing.
constexpr int looks = 2;
constexpr std::size_t most_entries = 65536;

bool ended(const EventTable::Records &records) {
    return std::all_of(records.begin(), records.end(), [](const auto &r) { return r->ended(); });
}

}  // namespace

void EventTable::add(cl_event event, const std::vector<std::unique_ptr<Operation>> &operations) {
    Records records;
    for (const auto &operation : operations) records.push_back(operation->record());
    const std::lock_guard lock(mutex_);
    release_unused();
    index_[event] = entries_.insert(entries_.end(), {Event::share(event), std::move(records)});
}

EventTable::Records EventTable::find(cl_event event) const {
    const std::lock_guard lock(mutex_);
    const auto at = index_.find(event);
    return at == index_.end() ? Records{} : at->second->records;
}

void EventTable::release_unused() {
    for (int i = 0; i < looks && !entries_.empty(); ++i) {
        const auto oldest = entries_.begin();
        const bool unused =
            ended(oldest->records) && query<cl_uint>(oldest->event.get(), CL_EVENT_REFERENCE_COUNT).value_or(1) <= 1;
        if (unused || (entries_.size() > most_entries && ended(oldest->records))) {
            index_.erase(oldest->event.get());
            entries_.erase(oldest);
        } else {
            entries_.splice(entries_.end(), entries_, oldest);
        }
    }
}

EventTable &event_table() {
    // Never destroyed: at exit the OpenCL platform may be gone before.
    static auto &instance = *new EventTable;
    return instance;
}

}  // namespace cldist
