#include "cluster/world/watch_messages.hpp"

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/config.hpp"
#include "base/log.hpp"
#include "mpi_interop/mpi_status.hpp"

namespace cldist::cluster {

WatchMessages::WatchMessages(MPI_Comm comm)
    : comm_(duplicate(comm)), rank_(rank_in(comm_)), size_(processes_in(comm_)) {}

void WatchMessages::close() { check_mpi(PMPI_Comm_free(&comm_), "MPI_Comm_free"); }

void WatchMessages::send(int to, Tag tag, std::string bytes) {
    Sending &sending = sendings_.emplace_back(Sending{to, tag, std::move(bytes)});
    check_mpi(PMPI_Issend(sending.bytes.data(), static_cast<int>(sending.bytes.size()), MPI_BYTE,
                          to, tag, comm_, &sending.request),
              "MPI_Issend");
}

bool WatchMessages::free_sent() {
    return std::erase_if(sendings_, [](Sending &sending) {
               int done = 0;
               check_mpi(PMPI_Test(&sending.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
               return done != 0;
           }) > 0;
}

bool WatchMessages::is_sending(int to, Tag tag) const {
    return std::ranges::any_of(
        sendings_, [&](const Sending &sending) { return sending.to == to && sending.tag == tag; });
}

std::optional<WatchMessages::Message> WatchMessages::receive() {
    int there = 0;
    MPI_Status status;
    check_mpi(PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &there, &status), "MPI_Iprobe");
    if (there == 0) return {};
    std::string bytes(cldist::bytes_of(status), '\0');
    check_mpi(PMPI_Recv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, status.MPI_SOURCE,
                        status.MPI_TAG, comm_, MPI_STATUS_IGNORE),
              "MPI_Recv");
    return Message{status.MPI_SOURCE, static_cast<Tag>(status.MPI_TAG), std::move(bytes)};
}

bool WatchMessages::pass_barrier() {
    if (!in_barrier()) check_mpi(PMPI_Ibarrier(comm_, &barrier_), "MPI_Ibarrier");
    int done = 0;
    check_mpi(PMPI_Test(&barrier_, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
}

void WatchMessages::end_job(std::string_view message) {
    log_error("{}", message);
    if (!config().report.empty())
        std::ofstream(config().report, std::ios::app) << message << std::endl;
    PMPI_Abort(comm_, 1);
}

}  // namespace cldist::cluster
