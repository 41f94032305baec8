#include "mpi_interop/trace_clock.hpp"

#include <array>
#include <cstdint>
#include <string>

#include "base/clock.hpp"
#include "base/clock_sync.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "mpi_interop/mpi_status.hpp"

namespace cldist {
namespace {

constexpr std::size_t round_trips = 64;

void answer(MPI_Comm comm, int rank) {
    for (std::size_t i = 0; i < round_trips; ++i) {
        PMPI_Recv(nullptr, 0, MPI_BYTE, rank, 0, comm, MPI_STATUS_IGNORE);
        const std::uint64_t now = now_ns();
        PMPI_Send(&now, 1, MPI_UINT64_T, rank, 0, comm);
    }
}

ClockSample ask(MPI_Comm comm) {
    std::array<RoundTrip, round_trips> trips{};
    for (RoundTrip &trip : trips) {
        trip.sent = now_ns();
        PMPI_Send(nullptr, 0, MPI_BYTE, 0, 0, comm);
        PMPI_Recv(&trip.answer, 1, MPI_UINT64_T, 0, 0, comm, MPI_STATUS_IGNORE);
        trip.received = now_ns();
    }
    return clock_sample(trips);
}

}  // namespace

TraceClock::TraceClock() {
    const int rank = rank_in(MPI_COMM_WORLD);
    const int size = processes_in(MPI_COMM_WORLD);
    const bool wanted = trace::enabled();
    const std::string wrong = trace::start(rank, size);
    // The processes agree whether all want a trace, and on the lowest rank that can't write one.
    std::array<int, 2> least{wanted ? 1 : 0, wrong.empty() ? size : rank};
    check_mpi(PMPI_Allreduce(MPI_IN_PLACE, least.data(), 2, MPI_INT, MPI_MIN, MPI_COMM_WORLD),
              "MPI_Allreduce");
    if (least[1] == rank) log_error("{}", wrong);
    if (least[1] != size) return;
    if (least[0] == 0) {
        if (wanted)
            log_warning(
                "CLDIST_TRACE is not set for all processes, so the differences between their "
                "clocks are not measured. To pass it to other hosts, use -x CLDIST_TRACE with Open "
                "MPI, or -genvlist CLDIST_TRACE with MPICH");
        return;
    }
    comm_ = duplicate(MPI_COMM_WORLD);
    measure();
}

void TraceClock::finish() {
    if (comm_ == MPI_COMM_NULL) return;
    measure();
    PMPI_Comm_free(&comm_);
}

void TraceClock::measure() const {
    if (rank_in(comm_) != 0) return trace::add_clock_sample(ask(comm_));
    for (int other = 1; other < processes_in(comm_); ++other) answer(comm_, other);
}

}  // namespace cldist
