#include "cluster/world/divergence_watch.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <span>
#include <utility>

#include "base/config.hpp"
#include "base/log.hpp"
#include "mpi_interop/failure.hpp"
#include "mpi_interop/mpi_status.hpp"

namespace cldist::cluster {

namespace {

using std::chrono::milliseconds;

// Between two looks, while nothing happens; with a difference, or the end, to be agreed upon they begin short.
constexpr milliseconds longest_pause{50};
constexpr milliseconds shortest_pause{1};
// From a difference until it is named, with some to spare.
constexpr milliseconds time_to_name{500};

template <typename T>
std::string bytes_of(std::span<const T> values) {
    return {reinterpret_cast<const char *>(values.data()), values.size_bytes()};
}

template <typename T>
std::vector<T> values_in(std::string_view bytes) {
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
}

}  // namespace

DivergenceWatch::DivergenceWatch(MPI_Comm comm, CallLog &log) : log_(log), comm_(duplicate(comm)) {
    int size = 0;
    check_mpi(PMPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check_mpi(PMPI_Comm_size(comm_, &size), "MPI_Comm_size");
    if (rank_ > 0) neighbours_.push_back({rank_ - 1, {}, {}});
    if (rank_ + 1 < size) neighbours_.push_back({rank_ + 1, {}, {}});
    if (size <= 1) return;
    thread_ = std::thread([this] { run(); });
    // A command that failed for calls that differ, a transfer of two sizes say, ends the job no sooner than that is named.
    before_ending_job = [] { std::this_thread::sleep_for(time_to_name); };
}

DivergenceWatch::~DivergenceWatch() {
    stop_ = true;
    log_.at_checkpoint.wake();
    if (thread_.joinable()) thread_.join();
}

void DivergenceWatch::finish() {
    ended_ = true;
    log_.at_checkpoint.wake();
    if (thread_.joinable()) thread_.join();
    check_mpi(PMPI_Comm_free(&comm_), "MPI_Comm_free");
}

void DivergenceWatch::run() try {
    milliseconds pause = longest_pause;
    while (!stop_) {
        const bool something = round();
        if (ended_ && !differs_ && all_ended()) return;
        pause = something && (ended_ || differs_) ? shortest_pause : std::min(2 * pause, longest_pause);
        log_.at_checkpoint.wait_for(pause);
    }
} catch (const Error &error) {
    end_job(fmt::format("the processes' calls can't be compared: {}", error.what()));
}

/// Whether something was sent or received.
bool DivergenceWatch::round() {
    bool something = receive();
    something |= std::erase_if(sendings_, [](Sending &sending) {
                     int done = 0;
                     check_mpi(PMPI_Test(&sending.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
                     return done != 0;
                 }) > 0;
    for (Neighbour &neighbour : neighbours_) {
        if (differs_) break;
        if (differ(neighbour)) {
            part();
            send(neighbour.rank, hashes, bytes_of<CallHash>(log_.known()));
        } else {
            something |= tell(neighbour);
        }
    }
    return something || differs_;
}

bool DivergenceWatch::receive() {
    for (bool something = false;; something = true) {
        int there = 0;
        MPI_Status status;
        check_mpi(PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &there, &status), "MPI_Iprobe");
        if (there == 0) return something;
        int size = 0;
        check_mpi(PMPI_Get_count(&status, MPI_BYTE, &size), "MPI_Get_count");
        std::string bytes(static_cast<std::size_t>(size), '\0');
        check_mpi(PMPI_Recv(bytes.data(), size, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm_, MPI_STATUS_IGNORE),
                  "MPI_Recv");
        take(status.MPI_SOURCE, static_cast<Tag>(status.MPI_TAG), bytes);
    }
}

void DivergenceWatch::take(int from, Tag tag, const std::string &bytes) {
    const auto expect = [&](bool right) {
        if (!right)
            throw Error(CL_MPI_ERROR, fmt::format("rank {} sent {} bytes that mean nothing", from, bytes.size()));
    };
    switch (tag) {
        case report: {
            const auto of_sender = [&](const Neighbour &neighbour) { return neighbour.rank == from; };
            const auto neighbour = std::find_if(neighbours_.begin(), neighbours_.end(), of_sender);
            expect(neighbour != neighbours_.end() && bytes.size() == sizeof(Report));
            neighbour->theirs = values_in<Report>(bytes).front();
            neighbour->compared = false;
            return;
        }
        case hashes: {
            expect(!bytes.empty() && bytes.size() % sizeof(CallHash) == 0);
            part();
            Difference difference = first_difference(log_.known(), values_in<CallHash>(bytes));
            difference.several_threads = log_.from_several_threads() ? 1 : 0;
            const std::string text = difference.exact() ? log_.text(difference.differ_at) : "";
            send(from, answer, bytes_of<Difference>({&difference, 1}) + text);
            return;
        }
        case answer: {
            expect(bytes.size() >= sizeof(Difference));
            Difference difference = values_in<Difference>(bytes.substr(0, sizeof(Difference))).front();
            if (log_.from_several_threads()) difference.several_threads = 1;
            const std::string text = bytes.substr(sizeof difference);
            // Two neighbours may have found it, or more; rank 0 prints what it gets first.
            send(0, verdict, difference_message(difference, rank_, log_.text(difference.differ_at), from, text));
            return;
        }
        case verdict: end_job(bytes);
    }
}

/// Whether what a neighbour told last is known to differ from our calls.
bool DivergenceWatch::differ(Neighbour &neighbour) const {
    if (neighbour.compared) return false;
    const Report &theirs = neighbour.theirs;
    const std::uint64_t calls = theirs.last.number;
    const bool ended = ended_;  // before it is asked which call is the last
    // Who is behind compares when it is there, unless it has ended; the neighbour may be earlier.
    if (log_.last().number < calls) return ended;
    neighbour.compared = true;
    if (const auto hash = log_.hash_after(calls)) return *hash != theirs.last.hash;
    const auto hash = log_.hash_after(calls - calls % CallLog::checkpoint);
    return hash && *hash != theirs.checkpoint_hash;
}

/// Returns whether there was something new to be told.
bool DivergenceWatch::tell(Neighbour &neighbour) {
    // One report at a time is on its way, however slow the neighbour is.
    if (std::any_of(sendings_.begin(), sendings_.end(),
                    [&](const Sending &sending) { return sending.to == neighbour.rank && sending.tag == report; }))
        return false;
    Report now;
    now.ended = ended_ ? 1 : 0;  // as above
    now.last = log_.last();
    now.checkpoint_hash = log_.hash_after(now.last.number - now.last.number % CallLog::checkpoint).value_or(0);
    if (now == neighbour.told) return false;
    neighbour.told = now;
    send(neighbour.rank, report, bytes_of<Report>({&now, 1}));
    return true;
}

/// From now on all there is to do is to tell where a neighbour's calls differ from ours.
void DivergenceWatch::part() {
    differs_ = true;
    log_.hold();
}

/// A send that ends when the message is received.
void DivergenceWatch::send(int to, Tag tag, std::string bytes) {
    Sending &sending = sendings_.emplace_back(Sending{to, tag, std::move(bytes)});
    check_mpi(PMPI_Issend(sending.bytes.data(), static_cast<int>(sending.bytes.size()), MPI_BYTE, to, tag, comm_,
                          &sending.request),
              "MPI_Issend");
}

void DivergenceWatch::end_job(std::string_view message) {
    log_error("{}", message);
    if (!config().report.empty()) std::ofstream(config().report, std::ios::app) << message << std::endl;
    PMPI_Abort(comm_, 1);
}

/// Whether all processes are known to have ended alike. Once both neighbours have, it asks the others.
bool DivergenceWatch::all_ended() {
    const auto alike = [](const Neighbour &neighbour) {
        return neighbour.compared && neighbour.theirs.ended != 0 && neighbour.told.ended != 0;
    };
    if (!sendings_.empty() || !std::all_of(neighbours_.begin(), neighbours_.end(), alike)) return false;
    if (barrier_ == MPI_REQUEST_NULL) check_mpi(PMPI_Ibarrier(comm_, &barrier_), "MPI_Ibarrier");
    int done = 0;
    check_mpi(PMPI_Test(&barrier_, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
}

}  // namespace cldist::cluster
