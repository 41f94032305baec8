#include "mpi_interop/inquiries.hpp"

#include <algorithm>
#include <list>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/own_yields.hpp"
#include "mpi_interop/wire.hpp"

namespace cldist {
namespace {

struct Inquiry {
    std::uint64_t size;
    std::uint64_t seconds;  ///< for which it has been pending
    std::int32_t tag;       ///< the program's
};

bool is_being_received(const Inquiry &inquiry) {
    const auto records = pending_records().list();
    return std::any_of(records.begin(), records.end(), [&](const std::shared_ptr<Record> &record) {
        if (record->direction != Direction::recv) return false;
        const Record::State state = record->state();
        return state.matched && state.tag == inquiry.tag && state.size == inquiry.size;
    });
}

}  // namespace

int Inquiries::tag() const { return largest_channel(max_tag_of(communicators_.world())) + 1; }

void Inquiries::tick() {
    if (stall_seconds_ <= 0) return;
    const std::uint64_t now = now_ns();
    const auto stall_ns = static_cast<std::uint64_t>(stall_seconds_ * 1e9);
    if (now > stall_ns)
        for (const BlockSend &send : channels_.unmoved_since(now - stall_ns)) ask(send, now);
    for (const MPI_Comm block_comm : communicators_.block_comms()) answer(block_comm);
    collectives_.tick();
}

void Inquiries::ask(const BlockSend &send, std::uint64_t now) const {
    struct Sent {
        Inquiry inquiry;
        MPI_Request request;
    };
    // Never destroyed: MPI reads what it has not sent yet.
    static auto &sent = *new std::list<Sent>;
    sent.remove_if([](Sent &s) {
        int done = 0;
        return PMPI_Test(&s.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
    });
    const Record::State state = send.record->state();
    Sent &next = sent.emplace_back(
        Sent{{state.size, (now - send.record->created_ns) / 1'000'000'000, state.tag}, MPI_REQUEST_NULL});
    PMPI_Isend(&next.inquiry, sizeof next.inquiry, MPI_BYTE, send.comm->block_rank(state.peer), tag(),
               send.comm->block_comm(), &next.request);
}

void Inquiries::answer(MPI_Comm block_comm) const {
    for (;;) {
        int asked = 0;
        MPI_Status status;
        Inquiry inquiry{};
        {
            const OwnYields own_yields;
            if (PMPI_Iprobe(MPI_ANY_SOURCE, tag(), block_comm, &asked, &status) != MPI_SUCCESS || asked == 0) return;
            if (PMPI_Recv(&inquiry, sizeof inquiry, MPI_BYTE, status.MPI_SOURCE, tag(), block_comm,
                          MPI_STATUS_IGNORE) != MPI_SUCCESS)
                return;
        }
        if (is_being_received(inquiry)) continue;
        log_error(
            "{} has been sending {} bytes with tag {} to this process for {} s, and no cldist command or MPI call with "
            "MPI_CL_MEM here has received them. If an MPI call with another datatype (MPI_Irecv, MPI_Start, ...) got "
            "{} "
            "bytes with that tag, it took what announces the message, and the sender waits for ever: give the "
            "communicator the info key cldist_wire=plain to receive such messages with any datatype",
            block_comm == communicators_.world() ? fmt::format("rank {} of MPI_COMM_WORLD", status.MPI_SOURCE)
                                                 : std::string("a process of another job"),
            inquiry.size, inquiry.tag, inquiry.seconds, envelope_size);
    }
}

}  // namespace cldist
