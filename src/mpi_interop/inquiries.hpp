#pragma once

#include <cstdint>

#include "mpi_interop/collective_inquiries.hpp"
#include "mpi_interop/communicator.hpp"

namespace cldist {

/// Half converted programs: an MPI receive with another datatype may have taken what announces a message in blocks, and then
/// nobody asks for the blocks. A send of which nothing moves for so many seconds asks its receiver's process once, which
/// names the message if none of its receives has it.
class Inquiries {
public:
    /// 0 seconds: nothing is asked.
    Inquiries(Communicators &communicators, Channels &channels, double stall_seconds)
        : communicators_(communicators),
          channels_(channels),
          stall_seconds_(stall_seconds),
          collectives_(communicators, stall_seconds) {}

    /// Of the messages in blocks; inquiries have it on the same communicators.
    static int largest_channel(int max_tag) { return max_tag - 1; }

    /// Asks, and answers others. To be called now and then, by the engine.
    void tick();

private:
    void ask(const BlockSend &send, std::uint64_t now) const;
    void answer(MPI_Comm block_comm) const;
    [[nodiscard]] int tag() const;

    Communicators &communicators_;
    Channels &channels_;
    const double stall_seconds_;
    CollectiveInquiries collectives_;
};

}  // namespace cldist
