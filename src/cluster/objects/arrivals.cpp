#include "cluster/objects/arrivals.hpp"

#include <algorithm>
#include <utility>

#include "ocl/query.hpp"

namespace cldist::cluster {

void Arrivals::expect(MemoryId memory, const splitting::Intervals &bytes, Event event) {
    update();
    if (!lacking_.empty()) lacking_[memory].subtract(bytes);
    // If an earlier transfer of the same bytes fails, this one fails, too: it waits for that one.
    for (Arrival &arrival : open_)
        if (arrival.memory == memory) arrival.bytes.subtract(bytes);
    std::erase_if(open_, [](const Arrival &arrival) { return arrival.bytes.empty(); });
    open_.push_back({memory, bytes, std::move(event)});
}

void Arrivals::overwrite(MemoryId memory, const splitting::Interval &bytes) {
    if (!lacking_.empty()) lacking_[memory].subtract({bytes});
}

void Arrivals::update() {
    std::erase_if(open_, [this](const Arrival &arrival) {
        const cl_int status = execution_status(arrival.event.get());
        if (status < 0) lose(arrival.memory, arrival.bytes);
        return status <= CL_COMPLETE;
    });
}

bool Arrivals::lacks(MemoryId memory, const splitting::Interval &bytes) const {
    const auto at = lacking_.find(memory);
    if (at == lacking_.end()) return false;
    splitting::Intervals missing{bytes};
    missing.intersect(at->second);
    return !missing.empty();
}

}  // namespace cldist::cluster
