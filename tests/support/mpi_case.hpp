/// doctest with MPI: every rank runs the same list of test cases.
///
/// A case is written `MPI_CASE("a sentence", ranks) { ... }`. Its body gets `mpi`, a view of a
/// communicator that is created for this case. At the end of each case the ranks exchange their
/// results: if a check fails on one rank, the case fails on all ranks. A rank that leaves early
/// notifies the other ranks, which ends their waits. A watchdog aborts cases that still hang.
///
/// Environment:
///   CLDIST_TEST_FILTER   run only cases whose name contains this text
///   CLDIST_TEST_TIMEOUT  seconds that one case may take (default 60)
///   CLDIST_TEST_MPI      "never": MPI is not initialised; "finalized": it is finalised before the
///                        first case. For programs whose cases need no MPI; cases that need it
///                        call skip_without_mpi().
#pragma once

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <mpi.h>

namespace cldist_test {

/// The ranks that a case runs on.
struct mpi_view {
    /// over all processes, created for this case; MPI_COMM_NULL if MPI does not run
    MPI_Comm comm;
    int rank;
    int size;

    /// An MPI_Barrier that throws peer_left if another rank has left the case.
    void barrier() const;
};

/// The rank of this process among the processes of its host.
int rank_on_host();

/// Thrown in a waiting rank if another rank has left the case early.
struct peer_left : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Leaves the case, counts it as skipped, and prints its name and `reason`.
[[noreturn]] void skip_case(std::string reason);

/// Skips the case if MPI does not run.
inline void skip_without_mpi(const mpi_view &mpi) {
    if (mpi.comm == MPI_COMM_NULL) {
        skip_case("needs MPI");
    }
}

/// Throws peer_left if another rank has left the case.
void throw_if_peer_left();

/// During its life, the watchdog prints `what` if the case hangs. One object per thread at a time.
class waiting_for {
public:
    explicit waiting_for(std::string what);
    ~waiting_for();
    waiting_for(const waiting_for &) = delete;
    waiting_for &operator=(const waiting_for &) = delete;
};

/// Polls `done` until it returns true, and yields the core between polls. Fails the case after
/// `limit`. Throws peer_left if another rank has left the case.
void poll_until(const std::string &what, const std::function<bool()> &done,
                std::chrono::milliseconds limit = std::chrono::seconds(30));

using mpi_body = void (*)(const mpi_view &mpi);
void run_mpi_case(const char *name, int ranks, mpi_body body);

}  // namespace cldist_test

#define CLDIST_MPI_CASE_IMPL(function, name, ranks)                       \
    static void function(const cldist_test::mpi_view &mpi);               \
    TEST_CASE(name) { cldist_test::run_mpi_case(name, ranks, function); } \
    static void function([[maybe_unused]] const cldist_test::mpi_view &mpi)

/// A test case that needs at least `ranks` processes.
#define MPI_CASE(name, ranks) CLDIST_MPI_CASE_IMPL(DOCTEST_ANONYMOUS(mpi_case_), name, ranks)
