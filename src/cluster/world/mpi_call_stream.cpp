#include "cluster/world/mpi_call_stream.hpp"

#include <algorithm>
#include <utility>

#include "base/backoff.hpp"
#include "base/log.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/own_yields.hpp"

namespace cldist::cluster {
namespace {

// The most messages in transit to each child.
constexpr std::size_t most_sendings = 4;
constexpr int tag = 0;

}  // namespace

MpiCallStream::MpiCallStream(MPI_Comm comm)
    : comm_(duplicate(comm)),
      tree_(static_cast<Process>(rank_in(comm)), static_cast<Process>(processes_in(comm))) {}

void MpiCallStream::begin(Recorder &recorder) {
    thread_ = std::thread([this, &recorder] { run(recorder); });
}

void MpiCallStream::finish() {
    if (thread_.joinable()) thread_.join();
    wait_for(0);
}

void MpiCallStream::run(Recorder &recorder) try {
    for (bool more = true; more;) {
        auto records = std::make_shared<Records>();
        more = sendings_.empty() ? recorder.wait_and_take(*records) : recorder.take(*records);
        if (records->empty()) {
            // While messages are in transit, polls for new records: a thread may be waiting for the
            // answer to its call.
            for (Backoff backoff; !sendings_.empty() && more && records->empty();
                 backoff.rest(true)) {
                first_was_taken();
                more = recorder.take(*records);
            }
        }
        if (!records->empty()) send(std::move(records));
        wait_for(most_sendings);
    }
} catch (const Error &error) {
    log_error("cannot send the program's calls to the workers: {}", error.what());
    PMPI_Abort(comm_, 1);
}

void MpiCallStream::send(std::shared_ptr<const Records> records) {
    Sending &sending = sendings_.emplace_back();
    sending.records = std::move(records);
    for (const Process child : tree_.children) {
        if (traffic_ != nullptr) traffic_->sent(child, Carries::calls, sending.records->size());
        check_mpi(PMPI_Issend(sending.records->data(), static_cast<int>(sending.records->size()),
                              MPI_BYTE, static_cast<int>(child), tag, comm_,
                              &sending.requests.emplace_back()),
                  "MPI_Issend");
    }
}

bool MpiCallStream::first_was_taken() {
    if (sendings_.empty()) return false;
    Sending &first = sendings_.front();
    int done = 0;
    {
        const OwnYields own_yields;
        check_mpi(PMPI_Testall(static_cast<int>(first.requests.size()), first.requests.data(),
                               &done, MPI_STATUSES_IGNORE),
                  "MPI_Testall");
    }
    if (done != 0) sendings_.pop_front();
    return done != 0;
}

void MpiCallStream::wait_for(std::size_t most) {
    for (Backoff backoff; sendings_.size() > most;)
        if (!first_was_taken()) backoff.rest(true);
}

std::span<const std::byte> MpiCallStream::next() {
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    for (Backoff backoff(caller_patience);; backoff.rest(false)) {
        int there = 0;
        {
            const OwnYields own_yields;
            check_mpi(
                PMPI_Improbe(static_cast<int>(tree_.parent), tag, comm_, &there, &message, &status),
                "MPI_Improbe");
        }
        if (there != 0) break;
        first_was_taken();
    }
    auto records = std::make_shared<Records>(bytes_of(status));
    check_mpi(PMPI_Mrecv(records->data(), static_cast<int>(records->size()), MPI_BYTE, &message,
                         MPI_STATUS_IGNORE),
              "MPI_Mrecv");
    if (traffic_ != nullptr) traffic_->received(tree_.parent, Carries::calls, records->size());
    last_ = records;
    wait_for(most_sendings - 1);
    send(std::move(records));
    return *last_;
}

}  // namespace cldist::cluster
