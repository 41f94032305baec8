#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "mpi_interop/communicator.hpp"

namespace cldist {

/// A message between the inquiries of two processes.
struct InquiryMessage {
    int source;
    std::string data;
};
/// Does not wait until the message has arrived.
void send_inquiry(std::string data, int rank, int tag, MPI_Comm comm);
/// Returns nothing if no message has arrived.
std::optional<InquiryMessage> receive_inquiry(int tag, MPI_Comm comm);

/// Finds the processes that a collective command waits for. If a command makes no progress for
/// `stall_seconds`, its process asks the other processes of the communicator for their pending
/// collective commands. The lowest waiting rank prints the answers.
class CollectiveInquiries {
public:
    /// 0 seconds: never asks or answers.
    CollectiveInquiries(Communicators &communicators, double stall_seconds);
    CollectiveInquiries(const CollectiveInquiries &) = delete;
    CollectiveInquiries &operator=(const CollectiveInquiries &) = delete;
    ~CollectiveInquiries();

    /// Asks about stalled commands and answers other processes. Called by the progress thread.
    void tick();
    /// For the end of MPI: like tick(), but asks about all pending commands, however old.
    void ask_all() { ask_about_older(0); }
    /// Answers other processes. Returns true if all own questions are answered.
    bool answered();

private:
    struct Question;

    void ask_about_older(std::uint64_t age_ns);
    void ask(const std::shared_ptr<CollectiveLine> &line, std::uint64_t now);
    void serve(MPI_Comm comm);
    void report(std::uint64_t now);

    Communicators &communicators_;
    const double stall_seconds_;
    std::list<Question> questions_;
    std::map<const CollectiveLine *, std::uint64_t> asked_;  ///< last command that was asked about
    int next_ = 0;
};

}  // namespace cldist
