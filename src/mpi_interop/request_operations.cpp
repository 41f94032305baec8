#include "mpi_interop/request_operations.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/error_code.hpp"
#include "base/log.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "ocl/query.hpp"

namespace cldist {
namespace {

class RequestWait final : public Operation {
public:
    RequestWait(std::shared_ptr<Record> record, MPI_Request request,
                std::unique_ptr<StandInRequest> stand_in, AdoptedRequests &adopted)
        : Operation(std::move(record)),
          original_{request, {}},
          stand_in_(std::move(stand_in)),
          adopted_(adopted) {}

    void woken_by(const Waker &waker) override {
        original_.waker = waker;
        stand_in_->woken_by(waker);
    }
    void start(const Status &) override {
        start_ns_ = now_ns();
        adopted_.add(original_);
    }

    Progress poll() override {
        if (original_.done) {
            finish();
            return Progress::done;
        }
        if (stand_in_->cancelled() && !std::exchange(cancelled_, true))
            PMPI_Cancel(&original_.request);
        return Progress::idle;
    }

    // This is unknown here. AdoptedRequests detects moving bytes.
    [[nodiscard]] bool bytes_in_flight() const override { return false; }
    [[nodiscard]] bool wakes() const override { return static_cast<bool>(original_.waker); }

private:
    void finish() {
        int cancelled = 0;
        MPI_Count bytes = 0;
        // Open MPI 4.1 does not set the flag for a file operation, so its value is undefined.
        if (cancelled_)
            PMPI_Test_cancelled(&original_.status, &cancelled);
        else
            PMPI_Status_set_cancelled(&original_.status, 0);
        if (original_.error != MPI_SUCCESS) {
            fail(mpi_failure(original_.error, "the operation of the MPI request"));
        } else if (cancelled != 0) {
            fail(Status::failure(CL_TRANSFER_CANCELLED,
                                 "the operation of the MPI request was cancelled"));
        } else {
            PMPI_Get_elements_x(&original_.status, MPI_BYTE, &bytes);
            const auto size = static_cast<std::size_t>(std::max<MPI_Count>(bytes, 0));
            record()->matched(original_.status.MPI_SOURCE, original_.status.MPI_TAG, size);
            record()->moved(size);
            record()->stage_done(Stage::message, start_ns_);
        }
        stand_in_->complete(original_.status, original_.error);
    }

    AdoptedRequest original_;
    const std::unique_ptr<StandInRequest> stand_in_;
    AdoptedRequests &adopted_;
    std::uint64_t start_ns_ = 0;
    bool cancelled_ = false;
};

// The MPI error code for an event that failed with `status`. It is created at its first use.
int failed_event_code(cl_int status) {
    static std::mutex mutex;
    static std::map<cl_int, int> codes;
    static int error_class = MPI_ERR_OTHER;
    const std::lock_guard lock(mutex);
    if (const auto at = codes.find(status); at != codes.end()) return at->second;
    if (codes.empty()) {
        if (PMPI_Add_error_class(&error_class) != MPI_SUCCESS) return MPI_ERR_OTHER;
        PMPI_Add_error_string(error_class, "an OpenCL event failed");
    }
    int code = MPI_ERR_OTHER;
    if (PMPI_Add_error_code(error_class, &code) != MPI_SUCCESS) return MPI_ERR_OTHER;
    PMPI_Add_error_string(code, fmt::format("the OpenCL event of the request failed with status {}",
                                            status_text(status))
                                    .c_str());
    return codes.emplace(status, code).first->second;
}

class EventWait final : public Operation {
public:
    EventWait(std::shared_ptr<Record> record, cl_event event,
              std::unique_ptr<StandInRequest> stand_in)
        : Operation(std::move(record)),
          event_(Event::share(event)),
          stand_in_(std::move(stand_in)) {}

    void start(const Status &gate) override {
        if (!gate.ok()) fail(gate);
        stand_in_->complete(
            empty_status(),
            gate.ok() ? MPI_SUCCESS : failed_event_code(execution_status(event_.get())));
    }
    Progress poll() override { return Progress::done; }
    [[nodiscard]] bool bytes_in_flight() const override { return false; }

private:
    const Event event_;
    const std::unique_ptr<StandInRequest> stand_in_;
};

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

std::shared_ptr<Record> make_record(Direction direction) {
    return std::make_shared<Record>(direction, MPI_ANY_SOURCE, MPI_UNDEFINED, MPI_ANY_TAG, 0);
}

}  // namespace

std::unique_ptr<Operation> make_request_wait(MPI_Request request,
                                             std::unique_ptr<StandInRequest> stand_in,
                                             AdoptedRequests &adopted) {
    return std::make_unique<RequestWait>(make_record(Direction::request), request,
                                         std::move(stand_in), adopted);
}

std::unique_ptr<Operation> make_event_wait(cl_event event,
                                           std::unique_ptr<StandInRequest> stand_in) {
    return std::make_unique<EventWait>(make_record(Direction::event), event, std::move(stand_in));
}

std::unique_ptr<Operation> make_requested(std::unique_ptr<Operation> operation,
                                          std::unique_ptr<StandInRequest> request) {
    return std::make_unique<RequestedOperation>(std::move(operation), std::move(request));
}

}  // namespace cldist
