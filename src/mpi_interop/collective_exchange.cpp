#include "mpi_interop/collective_exchange.hpp"

#include <algorithm>
#include <cstring>

#include "mpi_interop/mpi_status.hpp"

namespace cldist {

bool CollectiveExchange::begin(Rounds rounds, const Memory &memory, const Combination &combination,
                               const CollectiveTransport &transport) {
    const std::optional<unsigned> number = transport.line->begin_exchange();
    if (!number) return false;
    rounds_ = std::move(rounds);
    memory_ = memory;
    combination_ = combination;
    transport_ = &transport;
    number_ = *number;
    round_ = 0;
    ended_ = false;
    status_ = {};
    if (!rounds_.rounds.empty()) begin_round();
    return true;
}

bool CollectiveExchange::poll() {
    moved_ = false;
    if (ended_) return true;
    while (round_ < rounds_.rounds.size()) {
        if (std::any_of(tickets_.begin(), tickets_.end(),
                        [](const MessageTicket &ticket) { return !ticket.done; }))
            return false;
        end_round();
        moved_ = true;
        if (++round_ < rounds_.rounds.size()) begin_round();
    }
    ended_ = moved_ = true;
    transport_->line->end_exchange(number_);
    return true;
}

std::byte *CollectiveExchange::at(const Piece &piece) const {
    std::byte *const area = piece.area == Area::in    ? memory_.in
                            : piece.area == Area::out ? memory_.out
                                                      : memory_.scratch;
    return area + piece.offset;
}

void CollectiveExchange::begin_round() {
    const CollectiveLine &line = *transport_->line;
    MessageDriver &driver = transport_->driver;
    const Round &round = rounds_.rounds[round_];
    tickets_.assign(round.receives.size() + round.sends.size(),
                    {.done = true, .waker = &transport_->waker});
    auto ticket = tickets_.begin();
    // If a message can't be started, its ticket stays done, and the exchange has failed.
    const auto post = [&](const auto &begin) {
        try {
            begin(*ticket);
        } catch (const Error &error) {
            fail(error.status());
        }
        ++ticket;
    };
    const auto rank = [&](int peer) { return line.ranks()[static_cast<std::size_t>(peer)]; };
    for (const auto &[peer, piece] : round.receives)
        post([&, peer = peer, piece = piece](MessageTicket &to) {
            driver.receive(at(piece), piece.size, rank(peer), line.tag(line.rank(), number_),
                           line.comm(), to);
        });
    for (const auto &[peer, piece] : round.sends)
        post([&, peer = peer, piece = piece](MessageTicket &to) {
            driver.send(at(piece), piece.size, rank(peer), line.tag(peer, number_), line.comm(),
                        to);
        });
}

void CollectiveExchange::end_round() {
    const Round &round = rounds_.rounds[round_];
    for (std::size_t i = 0; i < tickets_.size(); ++i) {
        const bool received = i < round.receives.size();
        const PieceMessage &message =
            received ? round.receives[i] : round.sends[i - round.receives.size()];
        const int error = tickets_[i].error;
        int kind = MPI_SUCCESS;
        if (error != MPI_SUCCESS) PMPI_Error_class(error, &kind);
        if (error != MPI_SUCCESS && kind != MPI_ERR_TRUNCATE)
            fail(mpi_failure(error, "a message of a collective command"));
        else if (received && status_.ok() &&
                 (kind == MPI_ERR_TRUNCATE || tickets_[i].bytes != message.piece.size))
            fail(Status::failure(
                CL_COLLECTIVE_MISMATCH,
                fmt::format(
                    "rank {} sent {} bytes, but this process expects {}: the processes' collective "
                    "commands on {} differ in call, count or order. CLDIST_CHECK=on compares them",
                    message.peer,
                    kind == MPI_ERR_TRUNCATE ? "more" : fmt::format("{}", tickets_[i].bytes),
                    message.piece.size, transport_->line->name())));
    }
    for (const LocalStep &step : round.steps) {
        if (step.combines)
            combine(step.from, step.to);
        else if (at(step.from) != at(step.to))
            std::memcpy(at(step.to), at(step.from), step.from.size);
    }
}

void CollectiveExchange::combine(const Piece &from, const Piece &to) const {
    if (combination_.op == MPI_OP_NULL) return;
    std::size_t left = from.size / combination_.element;
    for (std::size_t at_byte = 0; left != 0;) {
        const int count = static_cast<int>(std::min(left, std::size_t{1} << 30U));
        PMPI_Reduce_local(at(from) + at_byte, at(to) + at_byte, count, combination_.type,
                          combination_.op);
        left -= static_cast<std::size_t>(count);
        at_byte += static_cast<std::size_t>(count) * combination_.element;
    }
}

}  // namespace cldist
