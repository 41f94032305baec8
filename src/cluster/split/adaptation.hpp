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

/// Measures how fast one device of this process runs parts of one kind of launches, from the
/// profiling times of native events. Waits for no event. Callers hold the lock.
class PartTimes {
public:
    /// Calls `launch(waits)`, which enqueues a part with `work_items` work-items on a native queue
    /// with profiling, and returns its OpenCL code.
    template <typename Launch>
    cl_int measure(double work_items, const Waits &waits, Launch &&launch) {
        note_ended();
        // The first part is not measured: it may include the compilation of the kernel.
        if (std::exchange(is_first_, false) || open_.size() >= most_open) return launch(waits);
        Event event;
        const cl_int code = launch(Waits{waits.count, waits.events, event.out()});
        if (code != CL_SUCCESS) return code;
        if (waits.event != nullptr) *waits.event = Event::share(event.get()).give();
        open_.push_back({std::move(event), work_items});
        return code;
    }

    /// Returns the median speed of the parts that have ended since the last call, in work-items per
    /// second. 0 if none has ended.
    [[nodiscard]] double take_rate();

private:
    static constexpr std::size_t most_open = 8;
    struct Part {
        Event event;
        double work_items;
    };

    void note_ended();

    bool is_first_ = true;
    std::deque<Part> open_;  // measured parts that may still run, oldest first
    splitting::MedianRate rate_;
};

/// The launches of a context whose work distribution adapts to the speeds of its devices. Launches
/// have the same kinds in all processes. Callers hold the lock.
struct Adaptation {
    explicit Adaptation(std::vector<double> first) : shares(std::move(first)) {}

    /// Returns the kind of a launch. Launches of kernels with the same name whose global sizes have
    /// the same order of magnitude are of one kind.
    std::size_t kind_of(const std::string &kernel, const splitting::Launch &launch);

    splitting::AdaptedShares shares;  ///< the same in all processes
    /// Per kind, by device index in the context: the measurements of this process's devices.
    std::vector<std::map<std::size_t, PartTimes>> times;

private:
    std::map<std::pair<std::string, int>, std::size_t> kinds_;
};

}  // namespace cldist::cluster
