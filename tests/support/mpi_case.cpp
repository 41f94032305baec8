#define DOCTEST_CONFIG_IMPLEMENT
#include "mpi_case.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <semaphore>
#include <sstream>
#include <thread>
#include <vector>

#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

namespace cldist_test {
namespace {

using clock = std::chrono::steady_clock;

/// The result of a case on one rank.
enum class outcome : int { passed, failed, skipped, disturbed };

struct case_skipped {
    std::string reason;
};

/// The values of CLDIST_TEST_MPI.
enum class mpi_use { running, never, finalized };

mpi_use wanted_mpi() {
    const char *text = std::getenv("CLDIST_TEST_MPI");
    const std::string name = text ? text : "running";
    if (name == "running") return mpi_use::running;
    if (name == "never") return mpi_use::never;
    if (name == "finalized") return mpi_use::finalized;
    std::fprintf(stderr, "CLDIST_TEST_MPI is \"%s\", not running, never or finalized\n", text);
    std::exit(2);
}

struct session {
    bool mpi_runs = true;
    int rank = 0;
    int size = 1;
    int rank_on_host = 0;
    MPI_Comm control = MPI_COMM_NULL;  ///< for messages of the harness itself
    int case_number = 0;
    std::atomic<int> failures{0};
    int skipped = 0;
    bool case_was_skipped = false;
};

session &the_session() {
    static session instance;
    return instance;
}

int tag_of_case() { return the_session().case_number % 30000; }

// ---- pending waits of threads -----------------------------------------------------------------

std::mutex waits_mutex;
std::map<std::thread::id, std::string> waits;

std::string pending_waits() {
    const std::lock_guard lock(waits_mutex);
    std::string text;
    for (const auto &[thread, what] : waits) {
        text += "\n    waits for " + what;
    }
    return text.empty() ? "\n    no wait of the harness is pending: it hangs in a call" : text;
}

// ---- stack of the main thread -----------------------------------------------------------------

std::binary_semaphore stack_printed{0};

void print_stack(int) {
    void *frames[64];
    backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
    stack_printed.release();
}

/// Prints the stack of the main thread, which must create the object.
class stack_printer {
public:
    stack_printer() : main_thread(pthread_self()) { std::signal(SIGUSR2, print_stack); }

    void print() const {
        pthread_kill(main_thread, SIGUSR2);
        static_cast<void>(stack_printed.try_acquire_for(std::chrono::seconds(1)));
    }

private:
    pthread_t main_thread;
};

// ---- watchdog ---------------------------------------------------------------------------------

/// Aborts the job if a case takes too long.
class watchdog {
public:
    watchdog() : thread([this](const std::stop_token &stop) { watch(stop); }) {}

    void start(const char *name) {
        const std::lock_guard lock(mutex);
        case_name = name;
        deadline = clock::now() + limit();
        changed.notify_all();
    }

    void stop() {
        const std::lock_guard lock(mutex);
        deadline.reset();
        changed.notify_all();
    }

    static std::chrono::seconds limit() {
        const char *text = std::getenv("CLDIST_TEST_TIMEOUT");
        const int value = text ? std::atoi(text) : 0;
        return std::chrono::seconds(value > 0 ? value : 60);
    }

private:
    void watch(const std::stop_token &stop) {
        std::unique_lock lock(mutex);
        while (!stop.stop_requested()) {
            if (!deadline) {
                changed.wait(lock, stop, [this] { return deadline.has_value(); });
                continue;
            }
            const auto until = *deadline;
            changed.wait_until(lock, stop, until, [&] { return !deadline || *deadline != until; });
            if (deadline && *deadline == until && clock::now() >= until) {
                end_job();
            }
        }
    }

    [[noreturn]] void end_job() {
        std::fprintf(stderr, "[rank %d] TIME-OUT after %lld s in case: %s%s\n", the_session().rank,
                     static_cast<long long>(limit().count()), case_name.c_str(),
                     pending_waits().c_str());
        std::fflush(nullptr);
        main_stack.print();
        ::alarm(5);  // in case MPI_Abort hangs
        if (the_session().mpi_runs) {
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
        std::_Exit(3);
    }

    std::mutex mutex;
    std::condition_variable_any changed;
    std::string case_name;
    std::optional<clock::time_point> deadline;
    stack_printer main_stack;
    std::jthread thread;  // the thread uses the other members, so it is the last one
};

watchdog *the_watchdog = nullptr;

// ---- reporter ---------------------------------------------------------------------------------

/// Prints the failures of every rank. Rank 0 also prints one line per case and doctest's summary.
class mpi_reporter : public doctest::IReporter {
public:
    explicit mpi_reporter(const doctest::ContextOptions &options_in) : options(options_in) {}

    void report_query(const doctest::QueryData &query) override {
        if (the_session().rank == 0) {
            for (unsigned i = 0; i < query.num_data; ++i) {
                std::printf("%s\n", query.data[i]->m_name);
            }
        }
    }
    void test_run_start() override {}
    void test_run_end(const doctest::TestRunStats &stats) override {
        if (the_session().rank != 0) {
            return;
        }
        const unsigned ran =
            stats.numTestCasesPassingFilters - static_cast<unsigned>(the_session().skipped);
        std::printf("[doctest] test cases: %u | %u passed | %u failed | %u skipped\n", ran,
                    ran - stats.numTestCasesFailed, stats.numTestCasesFailed,
                    stats.numTestCases - ran);
        std::printf("[doctest] assertions: %d | %d passed | %d failed\n", stats.numAsserts,
                    stats.numAsserts - stats.numAssertsFailed, stats.numAssertsFailed);
        std::printf("[doctest] Status: %s!\n",
                    stats.numTestCasesFailed == 0 ? "SUCCESS" : "FAILURE");
        std::fflush(stdout);
    }
    void test_case_start(const doctest::TestCaseData &data) override {
        current = &data;
        the_session().case_was_skipped = false;
    }
    void test_case_reenter(const doctest::TestCaseData &) override {}
    void test_case_end(const doctest::CurrentTestCaseStats &stats) override {
        if (the_session().rank == 0 && !the_session().case_was_skipped) {
            std::printf("%s %6.2f s  %s\n", stats.failure_flags == 0 ? "ok    " : "FAILED",
                        stats.seconds, current->m_name);
            std::fflush(stdout);
        }
    }
    void test_case_exception(const doctest::TestCaseException &e) override {
        print(std::string("exception: ") + e.error_string.c_str(), current->m_file.c_str(),
              current->m_line);
    }
    void subcase_start(const doctest::SubcaseSignature &) override {}
    void subcase_end() override {}

    void log_assert(const doctest::AssertData &data) override {
        if (!data.m_failed) {
            return;
        }
        ++the_session().failures;
        std::string text =
            std::string(doctest::assertString(data.m_at)) + "( " + data.m_expr + " )";
        if (data.m_threw) {
            text += std::string(" threw ") + data.m_exception.c_str();
        }
        text += std::string(", values: ") + data.m_decomp.c_str();
        print(text, data.m_file, static_cast<unsigned>(data.m_line));
    }
    void log_message(const doctest::MessageData &data) override {
        if ((data.m_severity & doctest::assertType::is_warn) == 0) {
            ++the_session().failures;
        }
        print(data.m_string.c_str(), data.m_file, static_cast<unsigned>(data.m_line));
    }
    void test_case_skipped(const doctest::TestCaseData &) override {}

private:
    void print(const std::string &text, const char *file, unsigned line) {
        std::ostringstream out;
        out << "[rank " << the_session().rank << "] " << file << ":" << line << ": "
            << (current ? current->m_name : "") << "\n    " << text << "\n";
        const int contexts = get_num_active_contexts();
        for (int i = 0; i < contexts; ++i) {
            out << "    with ";
            get_active_contexts()[i]->stringify(&out);
            out << "\n";
        }
        const std::lock_guard lock(mutex);
        std::fputs(out.str().c_str(), stderr);
        std::fflush(stderr);
    }

    const doctest::ContextOptions &options;
    const doctest::TestCaseData *current = nullptr;
    std::mutex mutex;
};

REGISTER_REPORTER("mpi", 1, mpi_reporter);

// ---- agreement --------------------------------------------------------------------------------

/// Notifies the other ranks that this one has left the case.
void tell_peers() {
    const session &s = the_session();
    for (int peer = 0; peer < s.size; ++peer) {
        if (peer != s.rank) {
            const char nothing = 0;
            // a small message, which MPI sends without waiting for its receiver
            MPI_Send(&nothing, 1, MPI_CHAR, peer, tag_of_case(), s.control);
        }
    }
}

/// Collects the results of all ranks, and receives the notices of tell_peers().
std::vector<outcome> agree(outcome mine) {
    const session &s = the_session();
    if (!s.mpi_runs) {
        return {mine};
    }
    if (mine != outcome::passed) {
        tell_peers();
    }
    const int value = static_cast<int>(mine);
    std::vector<int> values(static_cast<std::size_t>(s.size));
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallgather(&value, 1, MPI_INT, values.data(), 1, MPI_INT, s.control, &request);
    const waiting_for wait("the other ranks at the end of the case");
    // Sleeps between tests, because other ranks may still run the case and need the cores.
    for (int done = 0; done == 0; std::this_thread::sleep_for(std::chrono::microseconds(200))) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
    std::vector<outcome> all;
    for (int peer = 0; peer < s.size; ++peer) {
        all.push_back(static_cast<outcome>(values[static_cast<std::size_t>(peer)]));
        if (peer != s.rank && all.back() != outcome::passed) {
            char nothing = 0;
            MPI_Recv(&nothing, 1, MPI_CHAR, peer, tag_of_case(), s.control, MPI_STATUS_IGNORE);
        }
    }
    return all;
}

void note_skipped(const char *name, const std::string &reason) {
    session &s = the_session();
    ++s.skipped;
    s.case_was_skipped = true;
    if (s.rank == 0) {
        std::printf("SKIP: %s: %s\n", name, reason.c_str());
        std::fflush(stdout);
    }
}

}  // namespace

void mpi_view::barrier() const {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(comm, &request);
    poll_until("a barrier of the case", [&] {
        int done = 0;
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        return done != 0;
    });
}

int rank_on_host() { return the_session().rank_on_host; }

void skip_case(std::string reason) { throw case_skipped{std::move(reason)}; }

void throw_if_peer_left() {
    const session &s = the_session();
    if (!s.mpi_runs) {
        return;
    }
    int found = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, tag_of_case(), s.control, &found, &status);
    if (found != 0) {
        throw peer_left("rank " + std::to_string(status.MPI_SOURCE) + " has left the case");
    }
}

waiting_for::waiting_for(std::string what) {
    const std::lock_guard lock(waits_mutex);
    waits[std::this_thread::get_id()] = std::move(what);
}

waiting_for::~waiting_for() {
    const std::lock_guard lock(waits_mutex);
    waits.erase(std::this_thread::get_id());
}

void poll_until(const std::string &what, const std::function<bool()> &done,
                std::chrono::milliseconds limit) {
    const waiting_for wait(what);
    const auto deadline = clock::now() + limit;
    while (!done()) {
        throw_if_peer_left();
        if (clock::now() > deadline) {
            FAIL("still waiting for " << what);
        }
        std::this_thread::yield();
    }
}

void run_mpi_case(const char *name, int ranks, mpi_body body) {
    session &s = the_session();
    ++s.case_number;
    if (s.size < ranks) {
        note_skipped(name, "needs " + std::to_string(ranks) + " processes");
        return;
    }
    the_watchdog->start(name);
    s.failures = 0;
    mpi_view mpi{MPI_COMM_NULL, s.rank, s.size};
    if (s.mpi_runs) {
        MPI_Comm_dup(MPI_COMM_WORLD, &mpi.comm);
    }

    std::exception_ptr error;
    std::string skip_reason;
    outcome mine = outcome::passed;
    try {
        body(mpi);
        mine = s.failures == 0 ? outcome::passed : outcome::failed;
    } catch (const case_skipped &skipped) {
        mine = outcome::skipped;
        skip_reason = skipped.reason;
    } catch (const peer_left &) {
        mine = s.failures == 0 ? outcome::disturbed : outcome::failed;
    } catch (...) {
        mine = outcome::failed;
        error = std::current_exception();
    }

    const std::vector<outcome> all = agree(mine);
    bool clean = true;
    bool failed = false;
    for (const outcome one : all) {
        clean = clean && one == outcome::passed;
        failed = failed || one == outcome::failed;
    }
    if (clean && s.mpi_runs) {
        MPI_Comm_free(&mpi.comm);  // after a failure, commands may still be in flight on it
    }
    the_watchdog->stop();
    if (error) {
        std::rethrow_exception(error);
    }
    if (failed && mine != outcome::failed) {
        FAIL_CHECK("the case failed on another rank");
    } else if (!failed && !clean) {
        note_skipped(name, skip_reason.empty() ? "another rank skips it" : skip_reason);
    }
}

}  // namespace cldist_test

namespace {

using namespace cldist_test;

void begin_mpi(int &argc, char **&argv) {
    MPI_Init(&argc, &argv);
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_MULTIPLE) {
        std::fprintf(stderr, "MPI_Init gave thread level %d: the library did not raise it\n",
                     level);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    session &s = the_session();
    MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &s.size);
    MPI_Comm_dup(MPI_COMM_WORLD, &s.control);
    MPI_Comm host = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &s.rank_on_host);
    MPI_Comm_free(&host);
}

void end_mpi() {
    MPI_Comm_free(&the_session().control);
    MPI_Finalize();
}

}  // namespace

int main(int argc, char **argv) {
    ::setenv("CLDIST_ON_ERROR", "event", 0);  // the tests include failing commands
    const mpi_use use = wanted_mpi();
    session &s = the_session();
    if (use != mpi_use::never) {
        begin_mpi(argc, argv);
    }
    if (use == mpi_use::finalized) {
        end_mpi();
    }
    s.mpi_runs = use == mpi_use::running;

    int result = 0;
    {
        watchdog dog;
        the_watchdog = &dog;
        doctest::Context context;
        context.applyCommandLine(argc, argv);
        context.setOption("reporters", "mpi");
        context.setOption("no-path-filenames", true);
        if (const char *filter = std::getenv("CLDIST_TEST_FILTER");
            filter != nullptr && *filter != '\0') {
            context.addFilter("test-case", (std::string("*") + filter + "*").c_str());
        }
        result = context.run();
        if (s.mpi_runs) {
            dog.start("MPI_Finalize");
            end_mpi();
            dog.stop();
        }
    }
    return result;
}
