#include "cluster/world/divergence_watch.hpp"

#include <algorithm>
#include <array>
#include <cstring>
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
    : log_(log), start_(start), messages_(comm), confirmation_(log), vote_(messages_) {
    if (messages_.size() <= 1) return;
    if (new_start::is_wanted()) {
        confirmation_.enable();
        log_.threads().ask_for_overlap = new_start::overlap_question();
        log_.threads().ask_for_thread = new_start::thread_question();
    }
    for (const int rank : {messages_.rank() - 1, messages_.rank() + 1}) {
        if (rank < 0 || rank >= messages_.size()) continue;
        Neighbour &neighbour = neighbours_.emplace_back();
        neighbour.rank = rank;
        neighbour.told_at = Clock::now();
        messages_.send(rank, Tag::host, processor_name());
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
    messages_.close();
}

void DivergenceWatch::run() try {
    microseconds pause = longest_pause;
    while (!stop_) {
        const bool something = round();
        if (ended_ && !differs_ && all_ended()) return;
        // Also if this process does not wait, because another one may.
        const bool confirms = new_start::is_wanted() && confirmation_.is_due();
        const bool hurries = something && (ended_ || differs_ || confirmation_.is_held());
        pause = confirms  ? confirming_pause
                : hurries ? shortest_pause
                          : std::min<microseconds>(2 * pause, longest_pause);
        log_.at_checkpoint.wait_for(pause);
    }
} catch (const Error &error) {
    messages_.end_job(fmt::format("cannot compare the processes' calls: {}", error.what()));
}

/// Returns true if something was sent or received, or if calls differ.
bool DivergenceWatch::round() {
    bool something = receive();
    if (log_.threads().has_overlap() && !threads_reported_)
        report_threads(fmt::format("threads of rank {}'s program call OpenCL at the same time",
                                   messages_.rank()));
    something |= messages_.free_sent();
    vote_.stop_in_time();
    for (Neighbour &neighbour : neighbours_) {
        if (differs_) break;
        if (differ(neighbour)) {
            part();
            messages_.send(neighbour.rank, Tag::hashes, bytes_of<CallHash>(log_.known()));
        } else {
            report_silence(neighbour);  // before the next report is sent
            something |= tell(neighbour);
        }
    }
    confirmation_.note_equal(std::min(equal_towards(-1), equal_towards(1)));
    return something || differs_;
}

/// So many calls are known to be equal in this process and all processes with lower (-1) or higher
/// (1) ranks.
std::uint64_t DivergenceWatch::equal_towards(int direction) const {
    for (const Neighbour &n : neighbours_)
        if (n.rank == messages_.rank() + direction)
            return std::min(std::max(n.equal, n.theirs.equal), n.theirs.equal_beyond);
    return std::numeric_limits<std::uint64_t>::max();
}

// Receives nothing after the decision of a new start: the sender may end before all of its message
// has arrived.
bool DivergenceWatch::receive() {
    bool something = false;
    while (!vote_.has_decided_new_start()) {
        const auto message = messages_.receive();
        if (!message) break;
        take(message->from, message->tag, message->bytes);
        something = true;
    }
    return something;
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
        case Tag::report: {
            Neighbour *const sender = neighbour(from);
            expect(sender != nullptr && bytes.size() == sizeof(Report));
            sender->theirs = values_in<Report>(bytes).front();
            sender->compared = false;
            return;
        }
        case Tag::host: {
            Neighbour *const sender = neighbour(from);
            expect(sender != nullptr);
            sender->host = bytes;
            return;
        }
        case Tag::hashes: {
            expect(!bytes.empty() && bytes.size() % sizeof(CallHash) == 0);
            part();
            Difference difference = first_difference(log_.known(), values_in<CallHash>(bytes));
            difference.several_threads = log_.threads().are_several() ? 1 : 0;
            const std::string text = difference.exact() ? log_.text(difference.differ_at) : "";
            messages_.send(from, Tag::answer, bytes_of<Difference>({&difference, 1}) + text);
            return;
        }
        case Tag::answer: {
            expect(bytes.size() >= sizeof(Difference));
            Difference difference =
                values_in<Difference>(bytes.substr(0, sizeof(Difference))).front();
            if (log_.threads().are_several()) difference.several_threads = 1;
            const std::string text = bytes.substr(sizeof difference);
            // Several pairs of neighbours may find a difference. Rank 0 prints the first message.
            messages_.send(0, Tag::verdict,
                           difference_message(difference, messages_.rank(),
                                              log_.text(difference.differ_at), from, text, start_));
            return;
        }
        case Tag::verdict: return vote_.begin(bytes.substr(0, bytes.find(". ")), bytes);
        case Tag::threads: return vote_.begin(bytes, "");
        case Tag::question:
            confirmation_.hold();
            return messages_.send(0, Tag::consent, new_start::hold(start_));
        case Tag::consent: return vote_.take_consent(from, bytes);
        case Tag::decision:
            if (!bytes.empty()) new_start::stop("");
            confirmation_.go_on();
            return new_start::go_on();
    }
}

DivergenceWatch::Neighbour *DivergenceWatch::neighbour(int rank) {
    const auto found = std::ranges::find(neighbours_, rank, &Neighbour::rank);
    return found == neighbours_.end() ? nullptr : &*found;
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
        const auto threads = log_.threads().hash_until(calls);
        if (threads && *threads != theirs.threads && !note_other_threads(neighbour)) return false;
        neighbour.equal = calls;
        return false;
    }
    const auto hash = log_.hash_after(calls - calls % CallLog::checkpoint);
    return hash && *hash != theirs.checkpoint_hash;
}

/// Other threads than this process's made the neighbour's calls. Returns whether the job goes on.
bool DivergenceWatch::note_other_threads(Neighbour &neighbour) {
    const int rank = messages_.rank();
    const bool settled = confirmation_.threads_settled();
    if (settled && (threads_warned_ || rank > neighbour.rank)) return true;
    const std::string what = fmt::format(
        "the threads of rank {}'s and rank {}'s programs make equal OpenCL calls in different "
        "orders",
        std::min(rank, neighbour.rank), std::max(rank, neighbour.rank));
    if (!settled) {
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
    if (!std::exchange(threads_reported_, true)) messages_.send(0, Tag::threads, std::move(why));
}

/// Sends a report if it is due. Returns true if the report contains news.
bool DivergenceWatch::tell(Neighbour &neighbour) {
    // Only one report is in transit to a neighbour.
    if (is_on_its_way(neighbour)) return false;
    Report now;
    now.ended = ended_ ? 1 : 0;  // read before last()
    now.last = log_.last();
    now.threads = log_.threads().hash_until(now.last.number).value_or(0);
    now.checkpoint_hash =
        log_.hash_after(now.last.number - now.last.number % CallLog::checkpoint).value_or(0);
    now.equal = neighbour.equal;
    now.equal_beyond = equal_towards(messages_.rank() - neighbour.rank);
    const bool is_news = now != neighbour.told;
    // A process that has left the last barrier receives no more reports.
    if (messages_.in_barrier() || (!is_news && Clock::now() - neighbour.told_at < interval()))
        return false;
    neighbour.told = now;
    neighbour.told_at = Clock::now();
    messages_.send(neighbour.rank, Tag::report, bytes_of<Report>({&now, 1}));
    return is_news;
}

/// From now on, this process only takes part in the report of the difference.
void DivergenceWatch::part() {
    differs_ = true;
    log_.hold();
}

/// Returns true if all processes have ended after the same calls. Once both neighbours have, this
/// process enters a barrier, which completes when all processes have entered it.
bool DivergenceWatch::all_ended() {
    const auto alike = [](const Neighbour &neighbour) {
        return neighbour.compared && neighbour.theirs.ended != 0 && neighbour.told.ended != 0;
    };
    return !messages_.is_sending() && !confirmation_.is_held() && !vote_.is_open() &&
           std::ranges::all_of(neighbours_, alike) && messages_.pass_barrier();
}

}  // namespace cldist::cluster
