#include "cluster/world/divergence_watch.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <span>
#include <utility>

#include "base/config.hpp"
#include "base/log.hpp"
#include "cluster/world/new_start.hpp"
#include "events/failure.hpp"
#include "mpi_interop/mpi_status.hpp"

namespace cldist::cluster {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// The pause between two rounds. After a difference, at the end, and while rank 0 decides on a new
// start, the pauses begin short.
constexpr milliseconds longest_pause{50};
constexpr milliseconds shortest_pause{1};
// While a program may wait for the confirmation of its calls.
constexpr microseconds confirming_pause{200};
// How long the report of a difference may take, with some margin.
constexpr milliseconds time_to_name{500};
// How long rank 0 waits until the other ranks have received its decision of a new start.
constexpr milliseconds time_to_stop{500};

// How long a program waits for the confirmation of its calls.
constexpr milliseconds longest_confirmation{2000};

using Seconds = std::chrono::duration<double>;

std::string processor_name() {
    std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
    int size = 0;
    check_mpi(PMPI_Get_processor_name(name.data(), &size), "MPI_Get_processor_name");
    return {name.data(), static_cast<std::size_t>(size)};
}

// The time between two reports without news.
Seconds interval() { return Seconds(std::clamp(config().stall_seconds / 4, 0.1, 5.0)); }

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

DivergenceWatch::DivergenceWatch(MPI_Comm comm, CallLog &log, Start start)
    : log_(log), start_(start), comm_(duplicate(comm)) {
    rank_ = rank_in(comm_);
    size_ = processes_in(comm_);
    if (size_ <= 1) return;
    confirms_ = new_start::is_wanted();
    if (confirms_) {
        log_.ask_for_overlap = new_start::overlap_question();
        log_.ask_for_thread = new_start::thread_question();
    }
    for (const int rank : {rank_ - 1, rank_ + 1}) {
        if (rank < 0 || rank >= size_) continue;
        Neighbour &neighbour = neighbours_.emplace_back();
        neighbour.rank = rank;
        neighbour.told_at = Clock::now();
        send(rank, host_name, processor_name());
    }
    thread_ = std::thread([this] { run(); });
    // If calls differ, a command may fail, such as a transfer of two sizes. The difference must be
    // reported before this failure ends the job.
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
    microseconds pause = longest_pause;
    while (!stop_) {
        const bool something = round();
        if (ended_ && !differs_ && all_ended()) return;
        // Also if this process does not wait, because another one may.
        const bool confirms = new_start::is_wanted() && to_confirm() > equal_;
        const bool hurries = something && (ended_ || differs_ || held_);
        pause = confirms  ? confirming_pause
                : hurries ? shortest_pause
                          : std::min<microseconds>(2 * pause, longest_pause);
        log_.at_checkpoint.wait_for(pause);
    }
} catch (const Error &error) {
    end_job(fmt::format("cannot compare the processes' calls: {}", error.what()));
}

/// Returns true if something was sent or received, or if calls differ.
bool DivergenceWatch::round() {
    bool something = receive();
    if (log_.has_overlap() && !threads_reported_)
        report_threads(
            fmt::format("threads of rank {}'s program call OpenCL at the same time", rank_));
    something |= std::erase_if(sendings_, [](Sending &sending) {
                     int done = 0;
                     check_mpi(PMPI_Test(&sending.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
                     return done != 0;
                 }) > 0;
    if (stopping_since_ && (sendings_.empty() || Clock::now() - *stopping_since_ > time_to_stop))
        new_start::stop(why_);
    for (Neighbour &neighbour : neighbours_) {
        if (differs_) break;
        if (differ(neighbour)) {
            part();
            send(neighbour.rank, hashes, bytes_of<CallHash>(log_.known()));
        } else {
            report_silence(neighbour);  // before the next report is sent
            something |= tell(neighbour);
        }
    }
    note_equal();
    return something || differs_;
}

/// So many calls are known to be equal in this process and all processes with lower (-1) or higher
/// (1) ranks.
std::uint64_t DivergenceWatch::equal_towards(int direction) const {
    for (const Neighbour &n : neighbours_)
        if (n.rank == rank_ + direction)
            return std::min(std::max(n.equal, n.theirs.equal), n.theirs.equal_beyond);
    return std::numeric_limits<std::uint64_t>::max();
}

void DivergenceWatch::note_equal() {
    const std::uint64_t equal = std::min(equal_towards(-1), equal_towards(1));
    if (equal == equal_) return;
    const std::lock_guard lock(confirm_mutex_);
    equal_ = equal;
    confirm_changed_.notify_all();
}

/// The number of the last call that must be equal before the program gets results. The threads of
/// another process may have changed later, so soon after a change this is the last call.
std::uint64_t DivergenceWatch::to_confirm() const {
    constexpr std::uint64_t soon = 1024;
    const std::uint64_t changed_at = log_.changed_at(), last = log_.count();
    return changed_at != 0 && last - changed_at < soon ? last : changed_at;
}

// If the calls differ or the job is about to start again, it does not return.
void DivergenceWatch::confirm() {
    const std::uint64_t wanted = to_confirm();
    const auto confirmed = [&] {
        return !confirms_ || (equal_ >= wanted && (threads_settled_ || !log_.has_overlap()));
    };
    if (confirmed()) return;
    log_.at_checkpoint.wake();
    std::unique_lock lock(confirm_mutex_);
    while (!confirm_changed_.wait_for(lock, longest_confirmation, confirmed)) {
        if (!differs_ && !held_) confirms_ = false;
    }
}

// Receives nothing after the decision of a new start: the sender may end before all of its message
// has arrived.
bool DivergenceWatch::receive() {
    for (bool something = false;; something = true) {
        if (stopping_since_) return something;
        int there = 0;
        MPI_Status status;
        check_mpi(PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &there, &status), "MPI_Iprobe");
        if (there == 0) return something;
        std::string bytes(cldist::bytes_of(status), '\0');
        check_mpi(PMPI_Recv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE,
                            status.MPI_SOURCE, status.MPI_TAG, comm_, MPI_STATUS_IGNORE),
                  "MPI_Recv");
        take(status.MPI_SOURCE, static_cast<Tag>(status.MPI_TAG), bytes);
    }
}

void DivergenceWatch::take(int from, Tag tag, const std::string &bytes) {
    const auto expect = [&](bool right) {
        if (!right)
            throw Error(
                CL_MPI_ERROR,
                fmt::format("rank {} sent {} bytes that this version does not understand; do all "
                            "hosts have the same version of cldist?",
                            from, bytes.size()));
    };
    switch (tag) {
        case report: {
            Neighbour *const sender = neighbour(from);
            expect(sender != nullptr && bytes.size() == sizeof(Report));
            sender->theirs = values_in<Report>(bytes).front();
            sender->compared = false;
            return;
        }
        case host_name: {
            Neighbour *const sender = neighbour(from);
            expect(sender != nullptr);
            sender->host = bytes;
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
            Difference difference =
                values_in<Difference>(bytes.substr(0, sizeof(Difference))).front();
            if (log_.from_several_threads()) difference.several_threads = 1;
            const std::string text = bytes.substr(sizeof difference);
            // Several pairs of neighbours may find a difference. Rank 0 prints the first message.
            send(0, verdict,
                 difference_message(difference, rank_, log_.text(difference.differ_at), from, text,
                                    start_));
            return;
        }
        case verdict: return consider(bytes.substr(0, bytes.find(". ")), bytes);
        case threads: return consider(bytes, "");
        case question: held_ = true; return send(0, consent, new_start::hold(start_));
        case consent: return take_consent(from, bytes);
        case decision:
            if (!bytes.empty()) new_start::stop("");
            {
                const std::lock_guard lock(confirm_mutex_);
                held_ = false;
                threads_settled_ = true;
                confirm_changed_.notify_all();
            }
            return new_start::go_on();
    }
}

/// In rank 0: asks all processes whether the job can start again. `difference` is the message to
/// print if it can't.
void DivergenceWatch::consider(std::string why, std::string difference) {
    if (difference_.empty()) difference_ = std::move(difference);
    if (missing_ > 0 || stopping_since_) return;
    // Rank 0 waits in the last barrier. Another rank's program has made other calls than those
    // before it.
    if (barrier_ != MPI_REQUEST_NULL)
        refusal_ = " cldist has not done this itself, because the program of rank 0 has ended.";
    if (!new_start::is_wanted() || !refusal_.empty()) {
        if (!difference_.empty()) end_job(difference_ + refusal_);
        return decide(false);
    }
    why_ = std::move(why);
    missing_ = size_;
    for (int rank = 0; rank < size_; ++rank) send(rank, question, "");
}

void DivergenceWatch::take_consent(int from, const std::string &refusal) {
    if (!refusal.empty() && refusal_.empty())
        refusal_ = fmt::format(
            " cldist has not done this itself, because the program of rank {} {}.", from, refusal);
    if (--missing_ > 0) return;
    if (!refusal_.empty() && !difference_.empty()) end_job(difference_ + refusal_);
    decide(refusal_.empty());
}

/// In rank 0: tells all processes whether the job starts again.
void DivergenceWatch::decide(bool again) {
    if (again) stopping_since_ = Clock::now();
    for (int rank = again ? 1 : 0; rank < size_; ++rank) send(rank, decision, again ? "stop" : "");
}

DivergenceWatch::Neighbour *DivergenceWatch::neighbour(int rank) {
    const auto found = std::ranges::find(neighbours_, rank, &Neighbour::rank);
    return found == neighbours_.end() ? nullptr : &*found;
}

/// Returns true if the neighbour has not received the last report yet.
bool DivergenceWatch::is_on_its_way(const Neighbour &neighbour) const {
    return std::ranges::any_of(sendings_, [&](const Sending &sending) {
        return sending.to == neighbour.rank && sending.tag == report;
    });
}

void DivergenceWatch::report_silence(Neighbour &neighbour) const {
    const Seconds since = Clock::now() - neighbour.told_at;
    if (!is_on_its_way(neighbour)) {
        if (std::exchange(neighbour.is_silent, false))
            log_error("rank {} (host {}) answers again", neighbour.rank, neighbour.host);
    } else if (config().stall_seconds > 0 && since.count() >= config().stall_seconds &&
               !neighbour.is_silent) {
        neighbour.is_silent = true;
        log_error(
            "rank {} (host {}) has not answered for {} s (CLDIST_STALL_SECONDS); the job waits for "
            "it. Its process may be stopped, or the network to its host interrupted",
            neighbour.rank, neighbour.host, config().stall_seconds);
    }
}

/// Returns true if the neighbour's last report is known to differ from this process's calls.
bool DivergenceWatch::differ(Neighbour &neighbour) {
    if (neighbour.compared) return false;
    const Report &theirs = neighbour.theirs;
    const std::uint64_t calls = theirs.last.number;
    const bool ended = ended_;  // read before last(), so that the last call of an end is included
    // A process that is behind compares once it has made as many calls. If it has ended, it never
    // will, so the calls differ.
    if (log_.last().number < calls) return ended;
    neighbour.compared = true;
    if (const auto hash = log_.hash_after(calls)) {
        if (*hash != theirs.last.hash) return true;
        const auto threads = log_.threads_until(calls);
        if (threads && *threads != theirs.threads && !note_other_threads(neighbour)) return false;
        neighbour.equal = calls;
        return false;
    }
    const auto hash = log_.hash_after(calls - calls % CallLog::checkpoint);
    return hash && *hash != theirs.checkpoint_hash;
}

/// Other threads than this process's made the neighbour's calls. Returns whether the job goes on.
bool DivergenceWatch::note_other_threads(Neighbour &neighbour) {
    if (threads_settled_ && (threads_warned_ || rank_ > neighbour.rank)) return true;
    const std::string what = fmt::format(
        "the threads of rank {}'s and rank {}'s programs make equal OpenCL calls in different "
        "orders",
        std::min(rank_, neighbour.rank), std::max(rank_, neighbour.rank));
    if (!threads_settled_) {
        neighbour.compared = false;
        report_threads(what);
        return false;
    }
    threads_warned_ = true;
    log_warning(
        "{}, and the job cannot start again. If their memory has different contents, results may "
        "be wrong; use `cldist run --host-mode central`",
        what);
    return true;
}

/// Tells rank 0 why the calls of threads may have mixed up the processes' objects or contents.
void DivergenceWatch::report_threads(std::string why) {
    if (!std::exchange(threads_reported_, true)) send(0, threads, std::move(why));
}

/// Sends a report if it is due. Returns true if the report contains news.
bool DivergenceWatch::tell(Neighbour &neighbour) {
    // Only one report is in transit to a neighbour.
    if (is_on_its_way(neighbour)) return false;
    Report now;
    now.ended = ended_ ? 1 : 0;  // read before last()
    now.last = log_.last();
    now.threads = log_.threads_until(now.last.number).value_or(0);
    now.checkpoint_hash =
        log_.hash_after(now.last.number - now.last.number % CallLog::checkpoint).value_or(0);
    now.equal = neighbour.equal;
    now.equal_beyond = equal_towards(rank_ - neighbour.rank);
    const bool is_news = now != neighbour.told;
    // A process that has left the last barrier receives no more reports.
    if (barrier_ != MPI_REQUEST_NULL || (!is_news && Clock::now() - neighbour.told_at < interval()))
        return false;
    neighbour.told = now;
    neighbour.told_at = Clock::now();
    send(neighbour.rank, report, bytes_of<Report>({&now, 1}));
    return is_news;
}

/// From now on, this process only takes part in the report of the difference.
void DivergenceWatch::part() {
    differs_ = true;
    log_.hold();
}

/// Starts a synchronous send, which ends when the receiver has received the message.
void DivergenceWatch::send(int to, Tag tag, std::string bytes) {
    Sending &sending = sendings_.emplace_back(Sending{to, tag, std::move(bytes)});
    check_mpi(PMPI_Issend(sending.bytes.data(), static_cast<int>(sending.bytes.size()), MPI_BYTE,
                          to, tag, comm_, &sending.request),
              "MPI_Issend");
}

void DivergenceWatch::end_job(std::string_view message) {
    log_error("{}", message);
    if (!config().report.empty())
        std::ofstream(config().report, std::ios::app) << message << std::endl;
    PMPI_Abort(comm_, 1);
}

/// Returns true if all processes have ended after the same calls. Once both neighbours have, this
/// process enters a barrier, which completes when all processes have entered it.
bool DivergenceWatch::all_ended() {
    const auto alike = [](const Neighbour &neighbour) {
        return neighbour.compared && neighbour.theirs.ended != 0 && neighbour.told.ended != 0;
    };
    if (!sendings_.empty() || held_ || missing_ > 0 || !std::ranges::all_of(neighbours_, alike))
        return false;
    if (barrier_ == MPI_REQUEST_NULL) check_mpi(PMPI_Ibarrier(comm_, &barrier_), "MPI_Ibarrier");
    int done = 0;
    check_mpi(PMPI_Test(&barrier_, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
}

}  // namespace cldist::cluster
