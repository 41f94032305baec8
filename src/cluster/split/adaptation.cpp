#include "cluster/split/adaptation.hpp"

#include <bit>

#include "cluster/objects/event.hpp"
#include "ocl/query.hpp"

namespace cldist::cluster {

double PartTimes::take_rate() {
    note_ended();
    const double rate = rate_.median();
    rate_.clear();
    return rate;
}

void PartTimes::note_ended() {
    for (; !open_.empty(); open_.pop_front()) {
        const cl_event event = open_.front().event.get();
        const cl_int status = execution_status(event);
        if (status > CL_COMPLETE) return;
        const Times times = status == CL_COMPLETE ? times_of(event, nullptr) : Times{};
        if (times[3] > times[2])
            rate_.add(open_.front().work_items, 1e-9 * static_cast<double>(times[3] - times[2]));
    }
}

std::size_t Adaptation::kind_of(const std::string &kernel, const splitting::Launch &launch) {
    int magnitude = 0;
    for (const std::size_t size : launch.global)
        magnitude += static_cast<int>(std::bit_width(size));
    const auto [at, is_new] = kinds_.try_emplace({kernel, magnitude}, times.size());
    if (is_new) {
        shares.add_kind();
        times.emplace_back();
    }
    return at->second;
}

}  // namespace cldist::cluster
