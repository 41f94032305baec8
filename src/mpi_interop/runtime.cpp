#include "mpi_interop/runtime.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <numeric>
#include <sstream>
#include <stop_token>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/backoff.hpp"
#include "base/config.hpp"
#include "base/forks.hpp"
#include "base/job.hpp"
#include "base/log.hpp"
#include "base/mpi_values.hpp"
#include "base/trace.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/own_yields.hpp"
#include "mpi_interop/probed_messages.hpp"
#include "mpi_interop/wire.hpp"
#include "pipeline/cleanup.hpp"
#include "pipeline/file_operation.hpp"

MPI_Datatype cldist_mpi_cl_mem = MPI_DATATYPE_NULL;

namespace cldist {
namespace {

static_assert(mpi_any_source == MPI_ANY_SOURCE && mpi_any_tag == MPI_ANY_TAG &&
              mpi_proc_null == MPI_PROC_NULL && mpi_undefined == MPI_UNDEFINED);

// MPI's name and version number. The rest of the text differs between builds of the same version.
std::string mpi_version() {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    std::string version(text, static_cast<std::size_t>(std::max(length, 0)));
    version = version.substr(0, version.find_first_of(",\n"));
    std::replace(version.begin(), version.end(), '\t', ' ');
    return version.substr(0, version.find('\0'));
}

void abort_job() {
    if (mpi_runs()) PMPI_Abort(MPI_COMM_WORLD, 1);
}

void note_failures(bool thorough) {
    if (const auto runtime = Runtime::find()) runtime->progress_thread().note_failures(thorough);
}

// MPI_Finalize, whoever calls it, first deletes the attributes of MPI_COMM_SELF, the newest one
// first. MPI still works then.
void call_at_finalize(MPI_Comm_delete_attr_function *call) {
    int keyval = MPI_KEYVAL_INVALID;
    check_mpi(PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, call, &keyval, nullptr),
              "MPI_Comm_create_keyval");
    check_mpi(PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, nullptr), "MPI_Comm_set_attr");
    PMPI_Comm_free_keyval(&keyval);
}

// Not Runtime::finish(): it waits for other processes, which may not have called this function.
// They may first close files of MPI, which is collective.
void wait_for_files_at_finalize() {
    int level = MPI_THREAD_SINGLE;
    if (!mpi_runs() || PMPI_Query_thread(&level) != MPI_SUCCESS || level < MPI_THREAD_MULTIPLE)
        return;
    call_at_finalize([](MPI_Comm, int, void *, void *) -> int {
        if (!in_forked_child()) file_progress_thread().wait_idle(config().stall_seconds);
        return MPI_SUCCESS;
    });
}

constexpr Job this_job{&mpi_version, &abort_job, &note_failures, &wait_for_files_at_finalize};
[[maybe_unused]] const Job *const registered = (job = &this_job);

std::mutex runtime_mutex;

// Never destroyed, so a Runtime that exists at exit is kept.
std::shared_ptr<Runtime> &runtime_slot() {
    static auto &slot = *new std::shared_ptr<Runtime>;
    return slot;
}

std::shared_ptr<Runtime> take_runtime() {
    const std::lock_guard lock(runtime_mutex);
    return std::exchange(runtime_slot(), nullptr);
}

// See Runtime::note_requested_level().
std::atomic<bool> level_was_requested{false};
// MPI_Finalize, or the end of the program, has begun.
std::atomic<bool> ending{false};

void at_exit() {
    if (in_forked_child()) return;
    ending = true;
    // Never destroyed, because MPI may already be unloaded.
    static auto &left = *new std::shared_ptr<Runtime>;
    const std::shared_ptr<Runtime> taken = take_runtime();
    if (taken == nullptr) return;
    left = taken;
    const std::string text = pending_records().account(false);
    // Printed first, because the progress thread may be in an MPI call that never returns.
    if (!text.empty())
        log_error("the program ends without MPI_Finalize; these commands have not ended:{}", text);
    left->progress_thread().stop(std::nullopt);
    trace::flush();
}

int on_finalize(MPI_Comm, int, void *, void *) {
    Runtime::finish();
    return MPI_SUCCESS;
}

// Never committed. MPI calls that the library does not wrap therefore refuse it.
void make_datatype() {
    check_mpi(PMPI_Type_contiguous(1, MPI_BYTE, &cldist_mpi_cl_mem), "MPI_Type_contiguous");
    PMPI_Type_set_name(cldist_mpi_cl_mem, "MPI_CL_MEM");
}

const char *name_of_level(int level) {
    if (level == MPI_THREAD_SINGLE) return "MPI_THREAD_SINGLE";
    return level == MPI_THREAD_FUNNELED ? "MPI_THREAD_FUNNELED" : "MPI_THREAD_SERIALIZED";
}

// The file with the MPI_Init that the program calls. Empty if it is this library's MPI_Init.
std::string other_init() {
    static const char place = 0;
    Dl_info own{};
    Dl_info found{};
    const void *const init = dlsym(RTLD_DEFAULT, "MPI_Init");
    if (init == nullptr || dladdr(init, &found) == 0 || dladdr(&place, &own) == 0) return {};
    return found.dli_fbase == own.dli_fbase ? std::string{} : found.dli_fname;
}

std::string why_level_is_low() {
    if (level_was_requested)
        return "cldist requested that level, and the MPI library does not provide it. Use an MPI "
               "library with support for threads";
    const std::string other = other_init();
    const std::string cause =
        other.empty()
            ? "MPI was initialised before cldist was loaded, or by a call that bypassed cldist"
            : "the program calls MPI_Init of " + other + ", not cldist's";
    return cause +
           ". Call MPI_Init_thread with MPI_THREAD_MULTIPLE, or link the program with -lcldist "
           "before the MPI library";
}

// Rank 0 logs the complaints about the settings of other processes. Equal complaints are logged
// once.
void complain_for_others(MPI_Comm world) {
    const SettingComplaints &mine = setting_complaints();
    std::map<std::string, std::vector<std::size_t>> ranks_of;
    const std::vector<std::string> texts =
        gather_texts(mine.logged ? "" : fmt::format("{}", fmt::join(mine.lines, "\n")), world);
    if (rank_in(world) != 0) return;
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
        std::istringstream lines(texts[rank]);
        for (std::string line; std::getline(lines, line);) ranks_of[line].push_back(rank);
    }
    for (const auto &[line, ranks] : ranks_of)
        if (!mine.logged || std::ranges::find(mine.lines, line) == mine.lines.end())
            log_warning("{} (rank{} {})", line, ranks.size() == 1 ? "" : "s",
                        fmt::join(ranks, ", "));
}

// Why the processes cannot exchange messages. Empty if they can. Guarded by runtime_mutex.
std::string version_mismatch;

void check_same_version() {
    const std::lock_guard lock(runtime_mutex);
    if (!version_mismatch.empty()) throw Error(CL_INVALID_OPERATION, version_mismatch);
}

// Throws an Error in all processes if their wire versions differ. Collective. In all versions of
// the library, it must be the first communication.
void compare_versions() {
    std::array<int, 2> bounds{wire_version, -wire_version};
    check_mpi(PMPI_Allreduce(MPI_IN_PLACE, bounds.data(), 2, MPI_INT, MPI_MIN, MPI_COMM_WORLD),
              "MPI_Allreduce");
    if (bounds[0] == -bounds[1]) return;
    const int other = bounds[0] == wire_version ? -bounds[1] : bounds[0];
    {
        const std::lock_guard lock(runtime_mutex);
        version_mismatch = fmt::format(
            "the processes use different versions of cldist, which cannot exchange messages: this "
            "process has wire version {}, another has {}. Install the same version on all hosts; "
            "`cldist --version` prints the wire version",
            wire_version, other);
    }
    check_same_version();
}

// Logs a warning if processes wait in Runtime::begin() for others that do not call it. The end of
// the thread's object ends the wait.
std::jthread watch_meeting() {
    const std::chrono::duration<double> patience(config().stall_seconds);
    if (patience.count() <= 0) return {};
    return std::jthread([patience](const std::stop_token &met) {
        std::mutex mutex;
        std::unique_lock lock(mutex);
        std::condition_variable_any never_notified;
        never_notified.wait_for(lock, met, patience, [] { return false; });
        if (met.stop_requested()) return;
        log_warning(
            "the first command has waited {} s for all processes of MPI_COMM_WORLD to enqueue "
            "one, because cldist did not see MPI_Init. Call clDistInit in all processes after "
            "MPI_Init",
            patience.count());
    });
}

// Throws an Error if a Runtime can't be created.
void check_possible() {
    Runtime::check_mpi_runs();
    if (ending)
        throw Error(CL_MPI_NOT_INITIALIZED, "MPI_Finalize or the end of the program has begun");
    Runtime::check_thread_level();
    check_same_version();
}

}  // namespace

Runtime::Runtime()
    : rank_(rank_in(communicators_.world())),
      max_tag_(max_tag_of(communicators_.world())),
      channels_(Inquiries::largest_channel(max_tag_)),
      inquiries_(communicators_, config().stall_seconds) {
    auto driver = std::make_unique<MessageDriver>(&inquiries_);
    driver_ = driver.get();
    progress_thread_ = std::make_unique<ProgressThread>(std::move(driver), config().stall_seconds);
    start_cleanup_thread();
    static std::once_flag once;
    std::call_once(once, [] {
        at_cleanup_rounds([] {
            if (const std::shared_ptr<Runtime> runtime = find())
                runtime->progress_thread().remains().release();
        });
    });
}

Runtime::~Runtime() = default;

void Runtime::check_mpi_runs() {
    int initialized = 0;
    PMPI_Initialized(&initialized);
    if (!mpi_runs())
        throw Error(CL_MPI_NOT_INITIALIZED,
                    initialized == 0 ? "MPI is not initialised" : "MPI was finalised");
}

void Runtime::check_thread_level() {
    int level = MPI_THREAD_SINGLE;
    check_mpi(PMPI_Query_thread(&level), "MPI_Query_thread");
    if (level < MPI_THREAD_MULTIPLE)
        throw Error(CL_MPI_THREAD_LEVEL_TOO_LOW,
                    fmt::format("MPI runs at {}, but commands need MPI_THREAD_MULTIPLE: {}",
                                name_of_level(level), why_level_is_low()));
}

void Runtime::note_requested_level() { level_was_requested = true; }

bool Runtime::requested_level() { return level_was_requested; }

void Runtime::begin() {
    if (find() != nullptr) return;
    check_thread_level();
    check_same_version();
    compare_versions();
    OwnYields::begin();  // before the progress thread reads what it sets
    auto made = std::make_shared<Runtime>();
    set_log_rank(made->rank());
    complain_for_others(made->communicators().world());
    probed_messages().begin();
    make_datatype();
    call_at_finalize(&on_finalize);
    {
        const std::lock_guard lock(runtime_mutex);
        runtime_slot() = std::move(made);
    }
    stop_at_exit();
}

void Runtime::finish() {
    if (in_forked_child()) return;
    ending = true;
    const std::shared_ptr<Runtime> runtime = take_runtime();
    if (runtime == nullptr) return;
    runtime->progress_thread().wait_idle(config().stall_seconds);
    if (ProgressThread *const files = find_file_progress_thread())
        files->wait_idle(config().stall_seconds);
    const std::vector<Unmatched> mine = runtime->unmatched();
    const std::vector<int> counts = runtime->gather_counts(static_cast<int>(mine.size()));
    // Before the progress thread stops, because failed commands may end the job (CLDIST_ON_ERROR).
    runtime->name_unmatched(mine, counts);
    runtime->progress_thread().stop(
        Status::failure(CL_TRANSFER_ABANDONED, "MPI was finalised before the command completed"));
    PMPI_Type_free(&cldist_mpi_cl_mem);
    probed_messages().end();
    runtime->trace_clock_.finish();
    trace::flush();
    clean_up();
}

std::shared_ptr<Runtime> Runtime::find() {
    const std::lock_guard lock(runtime_mutex);
    return runtime_slot();
}

std::shared_ptr<Runtime> Runtime::current() {
    if (std::shared_ptr<Runtime> found = find()) return found;
    check_possible();
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    if (find() == nullptr) {
        const std::jthread watch = watch_meeting();
        begin();
    }
    return current_in_mpi_call();
}

std::shared_ptr<Runtime> Runtime::current_in_mpi_call() {
    if (std::shared_ptr<Runtime> found = find()) return found;
    check_possible();
    throw Error(CL_MPI_NOT_INITIALIZED,
                "MPI_CL_MEM is not usable yet, because cldist did not see MPI_Init. Call "
                "clDistInit in all processes after MPI_Init");
}

void Runtime::stop_at_exit() { std::atexit(&at_exit); }

std::vector<Unmatched> Runtime::unmatched() const {
    std::vector<Unmatched> mine;
    for (const auto &record : pending_records().list()) {
        if (is_file(record->direction)) continue;
        const Record::State state = record->state();
        Unmatched &u = mine.emplace_back(Unmatched{static_cast<int>(record->direction), rank_,
                                                   record->world_peer, state.tag, state.size});
        if (record->direction == Direction::request || record->direction == Direction::event)
            continue;
        std::string text = record->far_end;
        if (const std::string why = hold_up(*record); !why.empty()) text += ": " + why;
        text.copy(u.text.data(), u.text.size() - 1);
    }
    return mine;
}

// The progress thread continues, because messages may still end. During MPI_Finalize, MPICH calls
// attribute callbacks without its locks, so this thread and the progress thread must take turns.
template <typename Begin>
void Runtime::complete(Begin &&begin) {
    MPI_Request request = MPI_REQUEST_NULL;
    progress_thread().between_rounds([&] { begin(&request); });
    int done = 0;
    for (Backoff backoff; done == 0;) {
        progress_thread().between_rounds([&] {
            inquiries_.collectives().answered();
            if (test_without_yield(request, done) != MPI_SUCCESS) done = 1;
        });
        if (done != 0) break;
        backoff.rest(true);
    }
}

std::vector<int> Runtime::gather_counts(int mine) {
    const MPI_Comm world = communicators_.world();
    std::vector<int> counts(static_cast<std::size_t>(processes_in(world)));
    complete([&](MPI_Request *request) {
        PMPI_Iallgather(&mine, 1, MPI_INT, counts.data(), 1, MPI_INT, world, request);
    });
    return counts;
}

// Returns after rank 0 has printed the list.
void Runtime::name_unmatched(const std::vector<Unmatched> &mine, std::vector<int> counts) {
    const MPI_Comm world = communicators_.world();
    const int bytes = static_cast<int>(mine.size() * sizeof(Unmatched));
    for (int &count : counts) count *= static_cast<int>(sizeof(Unmatched));
    std::vector<int> offsets(counts.size());
    std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), 0);
    const int total = offsets.back() + counts.back();
    if (total == 0) return;
    std::vector<Unmatched> all(static_cast<std::size_t>(total) / sizeof(Unmatched));
    complete([&](MPI_Request *request) {
        PMPI_Igatherv(mine.data(), bytes, MPI_BYTE, all.data(), counts.data(), offsets.data(),
                      MPI_BYTE, 0, world, request);
    });
    if (rank_ == 0) {
        std::string text;
        for (const std::string &line : match_unmatched(all)) text += "\n  " + line;
        log_error("MPI_Finalize ends commands that cannot complete:{}", text);
    }
    // All processes answer until all have reached the barrier.
    progress_thread().between_rounds([&] { inquiries_.collectives().ask_all(); });
    bool answered = false;
    for (Backoff backoff; !answered; backoff.rest(true))
        progress_thread().between_rounds([&] { answered = inquiries_.collectives().answered(); });
    complete([&](MPI_Request *request) { PMPI_Ibarrier(world, request); });
}

std::vector<std::string> match_unmatched(const std::vector<Unmatched> &all) {
    const auto rank_name = [](int rank) {
        if (rank == MPI_ANY_SOURCE) return std::string("any rank");
        return rank == MPI_UNDEFINED ? "a rank of another job" : fmt::format("rank {}", rank);
    };
    const auto line_of = [&](const Unmatched &u) {
        const auto direction = static_cast<Direction>(u.direction);
        const char *const text = u.text.data();
        if (direction == Direction::request || direction == Direction::event ||
            direction == Direction::collective)
            return fmt::format("rank {}: {}", u.rank, *text != 0 ? text : name_of(direction));
        const bool send = direction == Direction::send;
        const auto opposite = static_cast<int>(send ? Direction::recv : Direction::send);
        std::string others;
        for (const Unmatched &v : all) {
            const bool answers = v.direction == opposite &&
                                 (u.peer == v.rank || u.peer == MPI_ANY_SOURCE) &&
                                 (v.peer == u.rank || v.peer == MPI_ANY_SOURCE);
            if (!answers) continue;
            others += fmt::format("{}{}, {} bytes{}", others.empty() ? "" : "; ", tag_name(v.tag),
                                  v.bytes, v.text.front() != 0 ? ", that has not started" : "");
        }
        return fmt::format(
            "rank {}: {} {}, {}, {} bytes{}; {} has {}", u.rank, send ? "send to" : "recv from",
            rank_name(u.peer), tag_name(u.tag), u.bytes, text, rank_name(u.peer),
            others.empty() ? fmt::format("no pending {} for it", send ? "recv" : "send")
                           : fmt::format("a pending {} with {}", send ? "recv" : "send", others));
    };
    std::vector<std::string> lines;
    for (const Unmatched &u : all) {
        lines.push_back(line_of(u));
        if (lines.size() == 40) {
            lines.push_back(fmt::format("... and {} more", all.size() - lines.size()));
            break;
        }
    }
    return lines;
}

}  // namespace cldist
