#include "cluster/world/mpi_job.hpp"

#include <cstdlib>
#include <deque>
#include <thread>
#include <utility>

#include "base/backoff.hpp"
#include "base/log.hpp"
#include "cluster/calls/opencl_call.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/own_yields.hpp"

namespace cldist::cluster {
namespace {

bool program_has_mpi = false;  // the program initialised MPI
bool finalizing = false;       // the program has called MPI_Finalize

MPI_Comm join_mpi() {
    // Otherwise hwloc, in MPI, would query this platform for its devices, which are not yet known.
    setenv("HWLOC_COMPONENTS", "-opencl", 0);
    int initialized = 0;
    PMPI_Initialized(&initialized);
    if (initialized == 0) {
        if (auto *const note = host_function<void()>("cldist_host_note_mpi"); note != nullptr)
            note();
        int provided = MPI_THREAD_SINGLE;
        check_mpi(PMPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided),
                  "MPI_Init_thread");
    }
    program_has_mpi = initialized != 0;
    Runtime::begin();
    return MPI_COMM_WORLD;
}

// The most messages in transit to each child.
constexpr std::size_t most_sendings = 4;
constexpr int tag = 0;

/// Sends MPI messages down a binomial tree. A process receives the next message when it has
/// executed the last message's calls, and forwards it at once. Sends are synchronous, and only a
/// few are in transit, so memory is bounded.
class MpiCallStream final : public CallStream {
public:
    /// Duplicates the communicator; collective.
    explicit MpiCallStream(MPI_Comm comm)
        : comm_(duplicate(comm)),
          tree_(static_cast<Process>(rank_in(comm)), static_cast<Process>(processes_in(comm))) {}

    void begin(Recorder &recorder) override {
        thread_ = std::thread([this, &recorder] { run(recorder); });
    }
    void finish() override {
        if (thread_.joinable()) thread_.join();
        wait_for(0);
    }
    std::span<const std::byte> next() override {
        MPI_Message message = MPI_MESSAGE_NULL;
        MPI_Status status;
        for (Backoff backoff(caller_patience);; backoff.rest(false)) {
            int there = 0;
            {
                const OwnYields own_yields;
                check_mpi(PMPI_Improbe(static_cast<int>(tree_.parent), tag, comm_, &there, &message,
                                       &status),
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

private:
    using Records = std::vector<std::byte>;
    struct Sending {
        std::shared_ptr<const Records> records;
        std::vector<MPI_Request> requests;
    };

    void run(Recorder &recorder) try {
        for (bool more = true; more;) {
            auto records = std::make_shared<Records>();
            more = sendings_.empty() ? recorder.wait_and_take(*records) : recorder.take(*records);
            if (records->empty()) {
                // While messages are in transit, polls for new records: a thread may be waiting for
                // the answer to its call.
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

    void send(std::shared_ptr<const Records> records) {
        Sending &sending = sendings_.emplace_back();
        sending.records = std::move(records);
        for (const Process child : tree_.children) {
            if (traffic_ != nullptr) traffic_->sent(child, Carries::calls, sending.records->size());
            check_mpi(
                PMPI_Issend(sending.records->data(), static_cast<int>(sending.records->size()),
                            MPI_BYTE, static_cast<int>(child), tag, comm_,
                            &sending.requests.emplace_back()),
                "MPI_Issend");
        }
    }

    /// Removes the oldest message in transit and returns true if all children have received it.
    bool first_was_taken() {
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

    /// Waits until at most `most` messages are in transit.
    void wait_for(std::size_t most) {
        for (Backoff backoff; sendings_.size() > most;)
            if (!first_was_taken()) backoff.rest(true);
    }

    const MPI_Comm comm_;
    const CallTree tree_;
    std::deque<Sending> sendings_;  ///< messages in transit
    std::shared_ptr<const Records> last_;
    std::thread thread_;
};

}  // namespace

MpiJob::MpiJob()
    : agreement_(join_mpi()),
      comm_(duplicate(MPI_COMM_WORLD)),
      transport_(Runtime::current(), comm_) {}

// Collective. The place is that of this process. The lowest rank of a host identifies the host.
Job::Place MpiJob::place_of(Process) const {
    const MPI_Comm host = Runtime::current()->communicators().host();
    int first = static_cast<int>(agreement_.self());
    check_mpi(PMPI_Bcast(&first, 1, MPI_INT, 0, host), "MPI_Bcast");
    return {static_cast<std::uint32_t>(first), static_cast<std::size_t>(rank_in(host)),
            static_cast<std::size_t>(processes_in(host))};
}

CallStream &MpiJob::call_stream() {
    if (stream_ == nullptr) {
        stream_ = std::make_unique<MpiCallStream>(comm_);
        transport_.reach_host_memory(std::size_t{64} << 10U);
    }
    return *stream_;
}

void MpiJob::compare(CallLog &calls) {
    static const auto has_answers = host_function<int()>("cldist_host_has_session");
    const bool answered = has_answers != nullptr && has_answers() != 0;
    watch_ = std::make_unique<DivergenceWatch>(comm_, calls,
                                               program_has_mpi ? Start::own_mpi
                                               : answered      ? Start::with_answers
                                                               : Start::without_answers);
    // MPI moves smaller results as fast.
    transport_.reach_host_memory(std::size_t{1} << 20U);
}

void MpiJob::end() {
    int finalized = 0;
    PMPI_Finalized(&finalized);
    if (finalized == 0 && !finalizing) PMPI_Finalize();
}

// MPI_Finalize first deletes the attributes of MPI_COMM_SELF, the most recently set one first.
void MpiJob::call_at_finalize(void (*end)()) {
    if (!program_has_mpi) return;
    int key = MPI_KEYVAL_INVALID;
    const auto at_finalize = [](MPI_Comm, int, void *function, void *) {
        finalizing = true;
        (*static_cast<void (**)()>(function))();
        return MPI_SUCCESS;
    };
    static void (*function)() = end;
    check_mpi(PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &key, nullptr),
              "MPI_Comm_create_keyval");
    check_mpi(PMPI_Comm_set_attr(MPI_COMM_SELF, key, &function), "MPI_Comm_set_attr");
}

}  // namespace cldist::cluster
