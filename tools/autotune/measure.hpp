#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "pipeline/profile.hpp"

namespace cldist::tool {

/// An error that ends `cldist tune` with exit status 1.
class TuneError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Executes transfers on one route.
class Transfers {
public:
    Transfers() = default;
    Transfers(const Transfers &) = delete;
    Transfers &operator=(const Transfers &) = delete;
    virtual ~Transfers() = default;

    /// Executes `count` transfers, each in both directions if the route has two. Returns the
    /// seconds per transfer.
    virtual double seconds(const Way &way, std::size_t size, unsigned count) = 0;
    /// Transfers once into memory with different contents. Returns whether the sent bytes arrived.
    virtual bool arrives(const Way &way, std::size_t size) = 0;
};

/// A route to measure, and the time for it.
struct Task {
    Route route = Route::same_host;
    bool host_memory = false;  ///< device memory is host memory
    std::size_t largest = 0;   ///< bytes
    double budget = 0;         ///< in seconds; exceeded by less than a transfer of the largest size
    /// the longest duration of a timed loop, unless one transfer takes longer
    double loop_seconds = 0;
    std::function<double()> now;  ///< in seconds
    /// Called before each measurement with the size and the finished fraction of time or work.
    std::function<void(std::size_t size, double done)> progress;
    /// receives the spread of the fastest way's times for each race
    std::vector<double> *spreads = nullptr;
};

/// The numbers of rounds of a race.
struct Rounds {
    unsigned least;
    unsigned most;
    double end;       ///< the value of task.now() after which only the least rounds are measured
    bool drops_slow;  ///< see still_measured
};

/// Measures all ways alternately in rounds, so that disturbances affect all ways alike. Returns the
/// median of each way. Throws a TuneError if wrong bytes arrive.
[[nodiscard]] std::vector<double> race(Transfers &transfers, const Task &task,
                                       const std::vector<Way> &ways, std::size_t size,
                                       const Rounds &rounds);

/// The curves of all ways of a route that could be measured. Throws a TuneError on wrong bytes.
[[nodiscard]] std::vector<Curve> measure(Transfers &transfers, const Task &task);

}  // namespace cldist::tool
