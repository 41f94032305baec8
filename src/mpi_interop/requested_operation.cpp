#include "mpi_interop/requested_operation.hpp"

#include <utility>

#include "base/error_code.hpp"
#include "base/log.hpp"
#include "mpi_interop/mpi_status.hpp"

namespace cldist {
namespace {

class RequestedOperation final : public Operation {
public:
    RequestedOperation(std::unique_ptr<Operation> operation,
                       std::unique_ptr<StandInRequest> request)
        : Operation(operation->record()),
          operation_(std::move(operation)),
          request_(std::move(request)) {}

    void announce() override { operation_->announce(); }
    void woken_by(const Waker &waker) override {
        operation_->woken_by(waker);
        request_->woken_by(waker);
    }
    void start(const Status &gate) override { operation_->start(gate); }

    Progress poll() override {
        if (request_->cancelled() && !std::exchange(cancel_seen_, true)) operation_->cancel();
        const Progress progress = operation_->poll();
        if (progress == Progress::done) finish();
        return progress;
    }

    [[nodiscard]] bool bytes_in_flight() const override { return operation_->bytes_in_flight(); }
    [[nodiscard]] bool wakes() const override { return operation_->wakes(); }

private:
    void finish() {
        const Status &outcome = operation_->status();
        fail(outcome);
        MPI_Status status = empty_status();
        if (outcome.code == CL_TRANSFER_CANCELLED) {
            PMPI_Status_set_cancelled(&status, 1);
            request_->complete(status, MPI_SUCCESS);
            return;
        }
        if (!outcome.ok())
            log_warning("an MPI request failed: {}: {}", outcome.message, code_text(outcome.code));
        if (record()->direction == Direction::recv) {
            const Record::State state = record()->state();
            set_status(status, state.peer, state.tag, static_cast<MPI_Count>(state.bytes));
        }
        request_->complete(status, mpi_code_of(outcome));
    }

    const std::unique_ptr<Operation> operation_;
    const std::unique_ptr<StandInRequest> request_;
    bool cancel_seen_ = false;
};

}  // namespace

std::unique_ptr<Operation> make_requested(std::unique_ptr<Operation> operation,
                                          std::unique_ptr<StandInRequest> request) {
    return std::make_unique<RequestedOperation>(std::move(operation), std::move(request));
}

}  // namespace cldist
