#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "pipeline/profile.hpp"

namespace cldist::tool {

/// What ends `cldist tune` with exit status 1.
class TuneError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Does transfers on one route.
class Transfers {
public:
    Transfers() = default;
    Transfers(const Transfers &) = delete;
    Transfers &operator=(const Transfers &) = delete;
    virtual ~Transfers() = default;

    /// The seconds that one of `count` transfers took, there and back where there are two ways.
    virtual double seconds(const Way &way, std::size_t size, unsigned count) = 0;
    /// Transfers once into memory that held something else; whether what was sent lies there afterwards.
    virtual bool arrives(const Way &way, std::size_t size) = 0;
};

/// What is measured on a route, and in which time.
struct Task {
    Route route = Route::same_host;
    bool host_memory = false;     ///< the devices' memory is the hosts'
    std::size_t largest = 0;      ///< bytes
    double budget = 0;            ///< seconds, which it exceeds by less than a transfer of the largest size takes
    double loop_seconds = 0;      ///< of a timed loop, at most, unless one transfer takes longer
    std::function<double()> now;  ///< seconds
    /// Told what comes next, and which part of the budget or of the work is done.
    std::function<void(std::size_t size, double done)> progress;
    std::vector<double> *spreads = nullptr;  ///< gets, of each race, that of the fastest way's times
};

/// How often all ways take their turns.
struct Rounds {
    unsigned least;
    unsigned most;
    double end;       ///< of task.now(), after which no more than the least are begun
    bool drops_slow;  ///< see still_measured
};

/// Rounds of all ways in turn, so that what disturbs them disturbs all alike. Gives the median of each. Throws a TuneError
/// where wrong bytes arrive.
[[nodiscard]] std::vector<double> race(Transfers &transfers, const Task &task, const std::vector<Way> &ways,
                                       std::size_t size, const Rounds &rounds);

/// The curves of a route: of each way that could be measured. Throws a TuneError where wrong bytes arrive.
[[nodiscard]] std::vector<Curve> measure(Transfers &transfers, const Task &task);

}  // namespace cldist::tool
