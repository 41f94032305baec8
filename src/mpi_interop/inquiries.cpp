#include "mpi_interop/inquiries.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "mpi_interop/message_order.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/wire.hpp"

namespace cldist {

struct Inquiries::Inquiry {
    std::uint64_t size;
    std::uint64_t seconds;   ///< how long the transfer has been pending
    std::int32_t tag;        ///< the program's tag
    std::int32_t direction;  ///< of the asking process's transfer, as in enum Direction
    std::int64_t plain;      ///< 1: the message has no header
};

/// A communicator on which a process can be reached, and its rank there.
struct Inquiries::Address {
    std::shared_ptr<const Communicator> comm;
    int rank;
};

namespace {

// The stall report lists as many.
constexpr std::size_t most_asked = 20;

/// A pending transfer between this process and the asking process.
struct Mine {
    std::shared_ptr<Record> record;
    Record::State state;
    const Communicator *comm;

    [[nodiscard]] bool is(Direction direction) const { return record->direction == direction; }
    [[nodiscard]] bool waits() const { return state.phase == CL_QUEUED; }
    [[nodiscard]] bool takes(int tag) const { return state.tag == tag || state.tag == MPI_ANY_TAG; }
};

template <typename Addresses>
std::vector<Mine> pending_with(const Addresses &addresses) {
    std::vector<Mine> all;
    for (const auto &record : pending_records().list()) {
        const auto comm = record->communicator.lock();
        const Record::State state = record->state();
        for (const auto &address : addresses)
            if (comm == address.comm &&
                (state.peer == address.rank || state.peer == MPI_ANY_SOURCE))
                all.push_back({record, state, address.comm.get()});
    }
    return all;
}

std::string question(bool tags_differ, bool communicators_differ) {
    if (tags_differ && communicators_differ) return "do tags and communicators differ?";
    return tags_differ ? "do the tags differ?" : "do the communicators differ?";
}

// Lists possible causes why this process does not receive a message from `asker`. `at` contains the
// communicators on which the message, or its header, has arrived but was not received.
template <typename Inquiry>
std::vector<std::string> causes_of_unreceived(const Inquiry &message, const std::vector<Mine> &mine,
                                              const std::vector<const Communicator *> &at,
                                              const std::string &asker) {
    std::vector<std::string> causes;
    for (const Mine &recv : mine) {
        if (!recv.is(Direction::recv) || recv.state.matched) continue;
        const bool known = !at.empty();
        const bool other_comm = known && std::find(at.begin(), at.end(), recv.comm) == at.end();
        const bool other_tag = !recv.takes(message.tag);
        if (recv.waits() && !other_tag && !other_comm)
            causes.push_back(
                fmt::format("its receive has not started: {}", describe(*recv.record, now_ns())));
        else if (other_tag || other_comm || !known)
            causes.push_back(fmt::format("{} is pending here{}: {}", title(*recv.record),
                                         !known       ? ""
                                         : other_comm ? ", on another communicator"
                                                      : ", on the same communicator",
                                         question(other_tag, other_comm || !other_tag)));
    }
    for (const Mine &send : mine)
        if (causes.empty() && send.is(Direction::send) && !send.waits())
            causes.push_back(fmt::format(
                "{} is pending here, too, but no receive. If each process waits for "
                "its send before it receives, neither ends: receive first in one of them, or use "
                "clEnqueueSendrecvBuffer",
                title(*send.record)));
    if (at.empty()) {
        if (message.plain == 0)
            causes.push_back(fmt::format(
                "an MPI call with another datatype than MPI_CL_MEM (MPI_Irecv, MPI_Start, ...) "
                "received {} bytes with that tag, the header of the message. The sender waits "
                "forever. Receive the message with a command or with MPI_CL_MEM, or set the info "
                "key cldist_wire=plain on the communicator",
                header_size));
        causes.push_back("it was sent on a communicator that no command here has used");
        const auto records = pending_records().list();
        if (std::any_of(records.begin(), records.end(),
                        [](const auto &r) { return r->direction == Direction::request; }))
            causes.push_back(fmt::format(
                "an MPI request that became an event here (clCreateEventFromMPIRequest) has not "
                "ended: if it receives from {}, do its tag and communicator match?",
                asker));
    }
    if (causes.empty()) causes.emplace_back("no command here receives it yet");
    return causes;
}

// Lists possible causes why no message arrives for another process's receive. Started sends are not
// covered, because this process asks about them itself.
template <typename Inquiry>
std::vector<std::string> causes_of_unsent(const Inquiry &receive, const std::vector<Mine> &mine) {
    std::vector<std::string> causes;
    for (const Mine &send : mine)
        if (send.is(Direction::send) && send.waits() &&
            (receive.tag == MPI_ANY_TAG || receive.tag == send.state.tag))
            causes.push_back(
                fmt::format("its send has not started: {}", describe(*send.record, now_ns())));
    if (std::any_of(mine.begin(), mine.end(), [](const Mine &m) { return m.is(Direction::send); }))
        return causes;
    for (const Mine &recv : mine)
        if (recv.is(Direction::recv) && !recv.state.matched && recv.state.peer != MPI_ANY_SOURCE)
            causes.push_back(fmt::format(
                "{} is pending here, too, but no send: does each process receive before it sends?",
                title(*recv.record)));
    return causes;
}

std::string lines_of(const std::vector<std::string> &causes) {
    return fmt::format("Possible causes:\n  {}", fmt::join(causes, "\n  "));
}

}  // namespace

int Inquiries::tag() const { return largest_channel(max_tag_of(communicators_.world())) + 1; }

void Inquiries::tick() {
    if (stall_seconds_ <= 0) return;
    ask_about_stalled();
    for (const MPI_Comm block_comm : communicators_.block_comms()) answer(block_comm);
    collectives_.tick();
}

void Inquiries::ask_about_stalled() {
    const std::uint64_t now = now_ns();
    const auto stall_ns = static_cast<std::uint64_t>(stall_seconds_ * 1e9);
    std::set<std::uint64_t> asked;
    for (const auto &record : pending_records().list()) {
        if (asked_.contains(record->id)) asked.insert(record->id);
        if (record->direction != Direction::send && record->direction != Direction::recv) continue;
        const Record::State state = record->state();
        if (asked.size() == most_asked || asked_.contains(record->id) ||
            state.phase != CL_RUNNING || state.matched || record->last_moved() + stall_ns > now)
            continue;
        const auto comm = std::static_pointer_cast<const Communicator>(record->communicator.lock());
        if (comm == nullptr || comm->freed()) continue;
        asked.insert(record->id);
        if (state.peer >= 0) ask(*record, *comm, now);
        if (record->direction == Direction::recv) compare_with_arrived(*record, *comm, now);
    }
    asked_ = std::move(asked);
}

void Inquiries::ask(const Record &record, const Communicator &comm, std::uint64_t now) const {
    const Record::State state = record.state();
    const Inquiry inquiry{state.size, (now - record.created_ns) / 1'000'000'000, state.tag,
                          static_cast<std::int32_t>(record.direction),
                          comm.wire() == Wire::plain ? 1 : 0};
    send_inquiry(std::string(reinterpret_cast<const char *>(&inquiry), sizeof inquiry),
                 comm.block_rank(state.peer), tag(), comm.block_comm());
}

std::vector<Inquiries::Address> Inquiries::addresses_of(MPI_Comm block_comm, int source) const {
    std::vector<Address> addresses;
    for (const auto &comm : communicators_.known()) {
        if (comm->block_comm() != block_comm) continue;
        for (int rank = 0; rank < comm->peers(); ++rank)
            if (comm->block_rank(rank) == source) addresses.push_back({comm, rank});
    }
    return addresses;
}

void Inquiries::answer(MPI_Comm block_comm) const {
    while (const auto message = receive_inquiry(tag(), block_comm)) {
        Inquiry inquiry{};
        message->data.copy(reinterpret_cast<char *>(&inquiry), sizeof inquiry);
        const std::vector<Address> addresses = addresses_of(block_comm, message->source);
        const std::vector<Mine> mine = pending_with(addresses);
        const std::string asker = block_comm == communicators_.world()
                                      ? fmt::format("rank {} of MPI_COMM_WORLD", message->source)
                                      : std::string("a process of another job");
        if (inquiry.direction == static_cast<int>(Direction::recv)) {
            if (const auto causes = causes_of_unsent(inquiry, mine); !causes.empty())
                log_error(
                    "{} has been waiting for a message with {} from this process for {} s. {}",
                    asker, tag_name(inquiry.tag), inquiry.seconds, lines_of(causes));
            continue;
        }
        const bool is_being_received = std::any_of(mine.begin(), mine.end(), [&](const Mine &m) {
            return m.state.matched && m.state.tag == inquiry.tag && m.state.size == inquiry.size;
        });
        if (is_being_received) continue;
        std::vector<const Communicator *> at;
        for (const Address &address : addresses)
            if (const auto found = message_order().peek({address.comm, address.rank, inquiry.tag});
                found && found->error == MPI_SUCCESS)
                at.push_back(address.comm.get());
        log_error(
            "{} has been sending {} bytes with tag {} to this process for {} s, and no cldist "
            "command or MPI call with MPI_CL_MEM here has received them. {}",
            asker, inquiry.size, inquiry.tag, inquiry.seconds,
            lines_of(causes_of_unreceived(inquiry, mine, at, asker)));
    }
}

// Skips messages in blocks, which arrive as a header alone: their senders ask this process.
void Inquiries::compare_with_arrived(const Record &record, const Communicator &comm,
                                     std::uint64_t now) const {
    const Record::State state = record.state();
    std::vector<std::string> causes;
    for (const auto &other : communicators_.known()) {
        const bool same = other.get() == &comm;
        if (state.peer < 0 && !same) continue;
        for (int rank = 0; rank < other->peers(); ++rank) {
            if (state.peer >= 0 && (other->block_comm() != comm.block_comm() ||
                                    other->block_rank(rank) != comm.block_rank(state.peer)))
                continue;
            const auto found = message_order().peek({other, rank, same ? MPI_ANY_TAG : state.tag});
            if (!found || found->error != MPI_SUCCESS || found->bytes == header_size) continue;
            causes.push_back(
                fmt::format("a message with tag {} from rank {} has arrived on {} communicator: {}",
                            found->tag, found->source, same ? "the same" : "another",
                            question(state.tag != MPI_ANY_TAG && found->tag != state.tag, !same)));
        }
    }
    if (!causes.empty())
        log_error("the {}, has been waiting for {} s. {}", title(record),
                  (now - record.created_ns) / 1'000'000'000, lines_of(causes));
}

}  // namespace cldist
