#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "mpi_interop/collective_line.hpp"
#include "mpi_interop/collective_rounds.hpp"
#include "mpi_interop/message_driver.hpp"

namespace cldist {

/// How a collective command exchanges messages.
struct CollectiveTransport {
    const std::shared_ptr<CollectiveLine> line;
    MessageDriver &driver;
    const Waker &waker;  ///< called when a message ends
};

/// Executes one process's rounds of a collective. Must not be moved after begin().
class CollectiveExchange {
public:
    struct Memory {
        std::byte *in = nullptr;
        std::byte *out = nullptr;
        std::byte *scratch = nullptr;
    };
    /// How elements are combined. With MPI_OP_NULL they are not combined.
    struct Combination {
        MPI_Datatype type = MPI_BYTE;
        MPI_Op op = MPI_OP_NULL;
        std::size_t element = 1;
    };

    /// Begins the exchange. Its command must be first in the line. Returns false if too many
    /// exchanges are in flight. `transport` must outlive the exchange.
    bool begin(Rounds rounds, const Memory &memory, const Combination &combination,
               const CollectiveTransport &transport);
    /// Returns true when all rounds are done. An error does not end them early, because other
    /// processes wait for the messages.
    bool poll();
    /// Returns true if the last poll() began a round or ended the exchange.
    [[nodiscard]] bool moved() const { return moved_; }
    /// The first error. If a message has an unexpected size, the error is CL_COLLECTIVE_MISMATCH.
    [[nodiscard]] const Status &status() const { return status_; }

private:
    void begin_round();
    void end_round();
    [[nodiscard]] std::byte *at(const Piece &piece) const;
    void combine(const Piece &from, const Piece &to) const;
    void fail(Status status) {
        if (status_.ok()) status_ = std::move(status);
    }

    Rounds rounds_;
    Memory memory_;
    Combination combination_;
    const CollectiveTransport *transport_ = nullptr;
    unsigned number_ = 0;
    std::size_t round_ = 0;
    std::vector<MessageTicket> tickets_;  ///< the round's receives, then its sends
    bool moved_ = false;
    bool ended_ = true;
    Status status_;
};

}  // namespace cldist
