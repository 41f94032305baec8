#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>

#include <mpi.h>

#include "events/operation.hpp"

namespace cldist {

/// A generalised request that the user holds while the library waits for something. MPI_Wait and
/// MPI_Test wait for complete() and return its arguments.
class StandInRequest {
public:
    /// Throws an Error.
    StandInRequest();
    StandInRequest(const StandInRequest &) = delete;
    StandInRequest &operator=(const StandInRequest &) = delete;
    /// Completes the request with MPI_ERR_OTHER unless it is complete. Frees it unless give() was
    /// called.
    ~StandInRequest();

    /// Returns the handle and passes its ownership to the user.
    MPI_Request give();
    /// Completes the request, once. `error` is an MPI code.
    void complete(const MPI_Status &status, int error);
    /// Returns true if any such object exists in the process.
    static bool any() { return count != 0; }
    /// Sets the function to call after the user has called MPI_Cancel.
    void woken_by(const Waker &waker);
    /// Returns true if the user has called MPI_Cancel.
    [[nodiscard]] bool cancelled() const { return state_->cancelled; }

private:
    // Shared with MPI, which may release it before or after this object.
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

/// The status of an empty request.
MPI_Status empty_status();

}  // namespace cldist
