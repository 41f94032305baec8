#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>

#include <mpi.h>

#include "events/operation.hpp"

namespace cldist {

/// A generalised request that the user holds, for something that the library waits for: MPI_Wait and MPI_Test on it wait
/// for complete() and tell what it was given.
class StandInRequest {
public:
    /// Throws an Error.
    StandInRequest();
    StandInRequest(const StandInRequest &) = delete;
    StandInRequest &operator=(const StandInRequest &) = delete;
    /// Completes it with MPI_ERR_OTHER if it is not, and frees it if the user was not given it.
    ~StandInRequest();

    /// The handle, which from now on is the user's.
    MPI_Request give();
    /// Ends it, once. `error` is an MPI code.
    void complete(const MPI_Status &status, int error);
    /// Whether the process has any that is not complete.
    static bool any() { return count != 0; }
    /// What to call once the user has called MPI_Cancel.
    void woken_by(const Waker &waker);
    /// Whether the user called MPI_Cancel.
    [[nodiscard]] bool cancelled() const { return state_->cancelled; }

private:
    // Shared with MPI, which may let go of it first or last.
    struct State {
        std::mutex mutex;
        MPI_Status status{};
        int error = MPI_SUCCESS;
        std::atomic<bool> cancelled{false};
        Waker waker;
    };

    static int query(void *state, MPI_Status *status);
    static int free(void *state);
    static int cancel(void *state, int complete);

    static std::atomic<std::size_t> count;

    const std::shared_ptr<State> state_ = std::make_shared<State>();
    MPI_Request handle_ = MPI_REQUEST_NULL;
    bool given_ = false;
    bool completed_ = false;
};

/// The status of a request with nothing behind it.
MPI_Status empty_status();

}  // namespace cldist
