#pragma once

namespace cldist {

/// While it lives, MPI's calls that find nothing do not yield the processor, as Open MPI's do with `mpi_yield_when_idle`:
/// who polls does, sees what a yield costs (Backoff), and does it once a turn. Nothing elsewhere.
class OwnYields {
public:
    OwnYields() {
        if (switch_ != nullptr) switch_(false);
    }
    OwnYields(const OwnYields &) = delete;
    OwnYields &operator=(const OwnYields &) = delete;
    ~OwnYields() {
        if (switch_ != nullptr) switch_(true);
    }

    /// Finds out whether MPI yields. Once MPI is initialised.
    static void begin();

private:
    using Switch = bool (*)(bool);
    static Switch switch_;  ///< null where MPI does not yield, or does not tell
};

}  // namespace cldist
