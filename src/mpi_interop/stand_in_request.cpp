#include "mpi_interop/stand_in_request.hpp"

#include "mpi_interop/mpi_status.hpp"

namespace cldist {

std::atomic<std::size_t> StandInRequest::count = 0;

StandInRequest::StandInRequest() {
    auto state = std::make_unique<std::shared_ptr<State>>(state_);
    check_mpi(PMPI_Grequest_start(&query, &free, &cancel, state.get(), &handle_),
              "MPI_Grequest_start");
    // MPI owns the state until it calls free().
    [[maybe_unused]] const auto *owned_by_mpi = state.release();
    ++count;
}

StandInRequest::~StandInRequest() {
    if (!completed_) complete(empty_status(), MPI_ERR_OTHER);
    if (!given_) PMPI_Request_free(&handle_);
    --count;
}

void StandInRequest::woken_by(const Waker &waker) {
    const std::lock_guard lock(state_->mutex);
    state_->waker = waker;
}

MPI_Request StandInRequest::give() {
    given_ = true;
    return handle_;
}

void StandInRequest::complete(const MPI_Status &status, int error) {
    completed_ = true;
    {
        const std::lock_guard lock(state_->mutex);
        state_->status = status;
        state_->error = error;
    }
    PMPI_Grequest_complete(handle_);
}

int StandInRequest::query(void *state, MPI_Status *status) {
    State &s = **static_cast<std::shared_ptr<State> *>(state);
    const std::lock_guard lock(s.mutex);
    *status = s.status;  // includes the count and the cancelled flag
    // Open MPI takes the error from the member, MPICH from the return value.
    status->MPI_ERROR = s.error;
    return s.error;
}

int StandInRequest::free(void *state) {
    const std::unique_ptr<std::shared_ptr<State>> owned(
        static_cast<std::shared_ptr<State> *>(state));
    return MPI_SUCCESS;
}

int StandInRequest::cancel(void *state, int complete) {
    if (complete != 0) return MPI_SUCCESS;
    State &s = **static_cast<std::shared_ptr<State> *>(state);
    const std::lock_guard lock(s.mutex);
    s.cancelled = true;
    if (s.waker) s.waker();
    return MPI_SUCCESS;
}

MPI_Status empty_status() {
    MPI_Status status{};
    status.MPI_SOURCE = MPI_ANY_SOURCE;
    status.MPI_TAG = MPI_ANY_TAG;
    PMPI_Status_set_elements_x(&status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(&status, 0);
    return status;
}

}  // namespace cldist
