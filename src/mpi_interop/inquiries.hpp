#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "mpi_interop/collective_inquiries.hpp"
#include "mpi_interop/communicator.hpp"

namespace cldist {

/// Finds likely causes of messages that do not move, from what is pending on both sides. A process whose send or receive has
/// not moved for so many seconds asks the process at its other end, once. That process prints what it has instead. A
/// receive is also compared with the messages that have arrived.
class Inquiries {
public:
    /// 0 seconds: nothing is asked.
    Inquiries(Communicators &communicators, double stall_seconds)
        : communicators_(communicators), stall_seconds_(stall_seconds), collectives_(communicators, stall_seconds) {}

    /// Of the messages in blocks; inquiries have it on the same communicators.
    static int largest_channel(int max_tag) { return max_tag - 1; }

    /// Asks, and answers others. To be called now and then, by the engine.
    void tick();

private:
    struct Inquiry;
    struct Place;

    void ask_about_stalled();
    void ask(const Record &record, const Communicator &comm, std::uint64_t now) const;
    void answer(MPI_Comm block_comm) const;
    [[nodiscard]] std::vector<Place> places_of(MPI_Comm block_comm, int source) const;
    void compare_with_arrived(const Record &record, const Communicator &comm, std::uint64_t now) const;
    [[nodiscard]] int tag() const;

    Communicators &communicators_;
    const double stall_seconds_;
    CollectiveInquiries collectives_;
    std::set<std::uint64_t> asked_;  ///< the ids of pending records
};

}  // namespace cldist
