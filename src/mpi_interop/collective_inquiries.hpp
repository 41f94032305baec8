#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>

#include "mpi_interop/communicator.hpp"

namespace cldist {

/// Finds out which processes a collective command waits for. If a command makes no progress for so many seconds, its process
/// asks the other processes of the communicator for their pending collective commands. The lowest rank that waits prints the
/// answers.
class CollectiveInquiries {
public:
    /// 0 seconds: nothing is asked.
    CollectiveInquiries(Communicators &communicators, double stall_seconds);
    CollectiveInquiries(const CollectiveInquiries &) = delete;
    CollectiveInquiries &operator=(const CollectiveInquiries &) = delete;
    ~CollectiveInquiries();

    /// Asks, and answers others. To be called now and then, by the engine.
    void tick();

private:
    struct Question;

    void ask(const std::shared_ptr<CollectiveLine> &line, std::uint64_t now);
    void serve(MPI_Comm comm);
    void report(std::uint64_t now);

    Communicators &communicators_;
    const double stall_seconds_;
    std::list<Question> questions_;
    std::map<const CollectiveLine *, std::uint64_t> asked_;  ///< for which command
    int next_ = 0;
};

}  // namespace cldist
