#include "cluster/world/mpi_agreement.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "base/backoff.hpp"
#include "cluster/world/require_mpi.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/own_yields.hpp"

namespace cldist::cluster {
namespace {

struct BlobHeader {
    std::uint64_t number;  // of the call
    std::uint64_t hash;    // of the call
    std::uint64_t size;    // bytes of the blob
};

// The first message contains the header and the first bytes, usually all of them. The rest follows
// in pieces, because MPI counts in int.
constexpr std::size_t first_room = 4096 - sizeof(BlobHeader);
constexpr std::size_t piece = std::size_t{1} << 30U;

using First = std::array<std::byte, sizeof(BlobHeader) + first_room>;

[[noreturn]] void wait_for_the_end() {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

MpiAgreement::MpiAgreement(MPI_Comm comm)
    : Agreement(static_cast<Process>(rank_in(comm)), static_cast<Process>(processes_in(comm))),
      comm_(duplicate(comm)),
      max_tag_(max_tag_of(comm)) {}

// Unlike MPI_Wait, sleeps between its tests and leaves the core to CPU devices.
void MpiAgreement::wait(MPI_Request request, MPI_Status *status) const {
    int done = 0;
    for (Backoff backoff(caller_patience);;) {
        check_mpi(test_without_yield(request, done, status), "MPI_Test");
        if (done != 0) return;
        backoff.rest(true);
    }
}

int MpiAgreement::tag(const CallHash &call) const {
    return static_cast<int>(call.number % (static_cast<std::uint64_t>(max_tag_) + 1));
}

void MpiAgreement::send(const CallHash &call, std::span<const Process> to, const Blob &blob) const {
    require_mpi();
    const BlobHeader head{call.number, call.hash, blob.size()};
    const std::size_t in_first = std::min(blob.size(), first_room);
    First first;
    std::memcpy(first.data(), &head, sizeof head);
    std::copy_n(blob.begin(), in_first, first.begin() + sizeof head);
    std::vector<MPI_Request> requests;
    const auto post = [&](const std::byte *data, std::size_t size, Process process) {
        check_mpi(PMPI_Isend(data, static_cast<int>(size), MPI_BYTE, static_cast<int>(process),
                             tag(call), comm_, &requests.emplace_back()),
                  "MPI_Isend");
    };
    for (const Process process : to) post(first.data(), sizeof head + in_first, process);
    for (std::size_t begin = in_first; begin < blob.size(); begin += piece)
        for (const Process process : to)
            post(blob.data() + begin, std::min(piece, blob.size() - begin), process);
    for (const MPI_Request request : requests) wait(request);
}

Blob MpiAgreement::receive(const CallHash &call, Process from, Blob) const {
    require_mpi();
    First first;
    const auto take = [&](std::byte *data, std::size_t room) {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Status status;
        check_mpi(PMPI_Irecv(data, static_cast<int>(room), MPI_BYTE, static_cast<int>(from),
                             tag(call), comm_, &request),
                  "MPI_Irecv");
        wait(request, &status);
        return bytes_of(status);
    };
    const std::size_t size = take(first.data(), first.size());
    BlobHeader head{};
    std::memcpy(&head, first.data(), std::min(size, sizeof head));
    const std::size_t in_first = std::min<std::size_t>(head.size, first_room);
    if (size != sizeof head + in_first || head.number != call.number || head.hash != call.hash)
        wait_for_the_end();
    Blob blob(head.size);
    std::copy_n(first.begin() + sizeof head, in_first, blob.begin());
    for (std::size_t begin = in_first; begin < blob.size(); begin += piece) {
        const std::size_t wanted = std::min(piece, blob.size() - begin);
        if (take(blob.data() + begin, wanted) != wanted) wait_for_the_end();
    }
    return blob;
}

}  // namespace cldist::cluster
