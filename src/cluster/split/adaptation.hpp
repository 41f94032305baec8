#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cluster/execution/executor.hpp"
#include "splitting/launch.hpp"
#include "splitting/shares.hpp"

namespace cldist::cluster {

/// How fast one device of this process does the parts of launches of one kind, by its events'
/// times. Waits for none of them. Under the lock.
class PartTimes {
public:
    /// `launch(waits)` enqueues a part of so many work-items on a native queue that keeps times,
    /// and returns OpenCL's code.
    template <typename Launch>
    cl_int measure(double work_items, const Waits &waits, Launch &&launch) {
        look();
        // The first one may take as long as its kernel's compilation.
        if (std::exchange(is_first_, false) || open_.size() >= most_open) return launch(waits);
        Event event;
        const cl_int code = launch(Waits{waits.count, waits.events, event.out()});
        if (code != CL_SUCCESS) return code;
        if (waits.event != nullptr) *waits.event = Event::share(event.get()).give();
        open_.push_back({std::move(event), work_items});
        return code;
    }

    /// In work-items per second, of those parts that have ended since the last call; 0 if none has.
    [[nodiscard]] double take_rate();

private:
    static constexpr std::size_t most_open = 8;
    struct Part {
        Event event;
        double work_items;
    };

    void look();

    bool is_first_ = true;
    std::deque<Part> open_;  // the oldest first
    splitting::MedianRate rate_;
};

/// Launches of a context where shares are adapted to how fast devices are. Kinds of them are the
/// same in all processes. Under the lock.
struct Adaptation {
    explicit Adaptation(std::vector<double> first) : shares(std::move(first)) {}

    /// That of launches of kernels of that name whose numbers of work-items are of one magnitude.
    std::size_t kind_of(const std::string &kernel, const splitting::Launch &launch);

    splitting::AdaptedShares shares;  ///< the same in all processes
    /// For each kind the times of the parts of this process's devices, by the member's place.
    std::vector<std::map<std::size_t, PartTimes>> times;

private:
    std::map<std::pair<std::string, int>, std::size_t> kinds_;
};

}  // namespace cldist::cluster
