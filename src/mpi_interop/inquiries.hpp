#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "mpi_interop/collective_inquiries.hpp"
#include "mpi_interop/communicator.hpp"

namespace cldist {

/// Finds likely causes of stalled messages by comparing the pending transfers on both sides. If a
/// process's send or receive has not moved for `stall_seconds`, it asks the process at the other
/// end, once. That process logs its own pending transfers. A receive is also compared with the
/// messages that have arrived.
class Inquiries {
public:
    /// 0 seconds: never asks or answers.
    Inquiries(Communicators &communicators, double stall_seconds)
        : communicators_(communicators),
          stall_seconds_(stall_seconds),
          collectives_(communicators, stall_seconds) {}

    /// The largest channel for messages in blocks. Inquiries use the next tag.
    static int largest_channel(int max_tag) { return max_tag - 1; }

    /// Asks about stalled transfers and answers other processes. Called by the progress thread.
    void tick();
    [[nodiscard]] CollectiveInquiries &collectives() { return collectives_; }

private:
    struct Inquiry;
    struct Address;

    void ask_about_stalled();
    void ask(const Record &record, const Communicator &comm, std::uint64_t now) const;
    void answer(MPI_Comm block_comm) const;
    [[nodiscard]] std::vector<Address> addresses_of(MPI_Comm block_comm, int source) const;
    void compare_with_arrived(const Record &record, const Communicator &comm,
                              std::uint64_t now) const;
    [[nodiscard]] int tag() const;

    Communicators &communicators_;
    const double stall_seconds_;
    CollectiveInquiries collectives_;
    std::set<std::uint64_t> asked_;  ///< ids of pending records
};

}  // namespace cldist
