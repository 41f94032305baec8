#include "api/event_table.hpp"

#include <algorithm>

#include "ocl/query.hpp"
#include "pipeline/cleanup.hpp"

namespace cldist {
namespace {

// Two checks of old events per new event free events as fast as any program creates them. The limit
// is for platforms with meaningless reference counts.
constexpr int checks = 2;
constexpr std::size_t most_entries = 65536;

bool ended(const EventTable::Records &records) {
    return std::all_of(records.begin(), records.end(), [](const auto &r) { return r->ended(); });
}

bool unused(cl_event event, const EventTable::Records &records) {
    return ended(records) && query<cl_uint>(event, CL_EVENT_REFERENCE_COUNT).value_or(1) <= 1;
}

}  // namespace

void EventTable::add(cl_event event, const Operations &operations) {
    static std::once_flag once;
    std::call_once(once, [] {
        at_cleanup_rounds([] { event_table().release_unused(); });
        name_of_own_event = [](cl_event of) {
            const Records records = event_table().find(of);
            return records.empty() ? std::string() : title(*records.front());
        };
    });
    Device device = Device::share(device_of(event));
    std::list<Entry> released;  // freed without the lock, as in release_unused()
    const std::lock_guard lock(mutex_);
    release_some(released);
    index_[event] = entries_.insert(
        entries_.end(), {std::move(device), Event::share(event), records_of(operations)});
}

EventTable::Records EventTable::find(cl_event event) const {
    const std::lock_guard lock(mutex_);
    const auto at = index_.find(event);
    return at == index_.end() ? Records{} : at->second->records;
}

void EventTable::release_unused() {
    // Freed without the lock: an event may hold the last reference to its queue and context.
    std::list<Entry> released;
    const std::lock_guard lock(mutex_);
    for (auto at = entries_.begin(); at != entries_.end();) {
        const auto entry = at++;
        if (!unused(entry->event.get(), entry->records)) continue;
        index_.erase(entry->event.get());
        released.splice(released.end(), entries_, entry);
    }
}

void EventTable::release_some(std::list<Entry> &released) {
    for (int i = 0; i < checks && !entries_.empty(); ++i) {
        const auto oldest = entries_.begin();
        if (unused(oldest->event.get(), oldest->records) ||
            (entries_.size() > most_entries && ended(oldest->records))) {
            index_.erase(oldest->event.get());
            released.splice(released.end(), entries_, oldest);
        } else {
            entries_.splice(entries_.end(), entries_, oldest);
        }
    }
}

EventTable::Records records_of(const Operations &operations) {
    EventTable::Records records;
    for (const auto &operation : operations) records.push_back(operation->record());
    return records;
}

EventTable &event_table() {
    // Never destroyed, because the OpenCL platform may be unloaded earlier at exit.
    static auto &instance = *new EventTable;
    return instance;
}

}  // namespace cldist
