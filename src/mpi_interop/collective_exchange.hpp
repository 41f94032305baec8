#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "mpi_interop/collective_line.hpp"
#include "mpi_interop/collective_rounds.hpp"
#include "mpi_interop/message_driver.hpp"

namespace cldist {

/// Does one process's rounds of a collective. Stays where it is once begun.
class CollectiveExchange {
public:
    struct Memory {
        std::byte *in = nullptr;
        std::byte *out = nullptr;
        std::byte *scratch = nullptr;
    };
    /// How elements are combined; not at all with MPI_OP_NULL.
    struct Combination {
        MPI_Datatype type = MPI_BYTE;
        MPI_Op op = MPI_OP_NULL;
        std::size_t element = 1;
    };

    /// Begins, in its command's turn. Whether it could: the line allows so many at once. Messages call `waker`.
    bool begin(Rounds rounds, const Memory &memory, const Combination &combination,
               std::shared_ptr<CollectiveLine> line, MessageDriver &driver, const Waker &waker);
    /// Whether all rounds are done. Errors do not end it earlier: other processes wait for its messages.
    bool poll();
    /// Whether the last poll() began a round, or ended.
    [[nodiscard]] bool moved() const { return moved_; }
    /// The first error. A message of another size than expected is CL_COLLECTIVE_MISMATCH.
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
    std::shared_ptr<CollectiveLine> line_;
    MessageDriver *driver_ = nullptr;
    const Waker *waker_ = nullptr;
    unsigned number_ = 0;
    std::size_t round_ = 0;
    std::vector<MessageTicket> tickets_;  ///< of the round: of its receives, then of its sends
    bool moved_ = false;
    bool ended_ = true;
    Status status_;
};

}  // namespace cldist
