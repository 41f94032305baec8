#include "cluster/world/agreement.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "base/backoff.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/own_yields.hpp"

namespace cldist::cluster {
namespace {

struct Head {
    std::uint64_t number;  // of the call
    std::uint64_t hash;
    std::uint64_t size;  // bytes behind the heads
};

// Most of what is told is short, and fits into the message with the head. What does not follows in pieces: MPI counts in int.
constexpr std::size_t first_room = 4096 - sizeof(Head);
constexpr std::size_t piece = std::size_t{1} << 30U;

using First = std::array<std::byte, sizeof(Head) + first_room>;

[[noreturn]] void wait_for_the_end() {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

Agreement::Agreement(MPI_Comm comm) : comm_(duplicate(comm)), max_tag_(max_tag_of(comm)) {
    int rank = 0;
    int size = 1;
    PMPI_Comm_rank(comm_, &rank);
    PMPI_Comm_size(comm_, &size);
    self_ = static_cast<Process>(rank);
    processes_ = static_cast<Process>(size);
}

void Agreement::end() { PMPI_Comm_free(&comm_); }

// Not MPI_Wait, which would take a core from the devices meanwhile.
void Agreement::wait(MPI_Request request, MPI_Status *status) const {
    int done = 0;
    for (Backoff backoff(caller_patience);;) {
        {
            const OwnYields own_yields;
            check_mpi(PMPI_Test(&request, &done, status), "MPI_Test");
        }
        if (done != 0) return;
        backoff.rest(true);
    }
}

int Agreement::tag(const CallHash &call) const {
    return static_cast<int>(call.number % (static_cast<std::uint64_t>(max_tag_) + 1));
}

void Agreement::send(const CallHash &call, std::span<const Process> to, const Blob &blob) const {
    const Head head{call.number, call.hash, blob.size()};
    const std::size_t in_first = std::min(blob.size(), first_room);
    First first;
    std::memcpy(first.data(), &head, sizeof head);
    std::copy_n(blob.begin(), in_first, first.begin() + sizeof head);
    std::vector<MPI_Request> requests;
    const auto post = [&](const std::byte *data, std::size_t size, Process process) {
        check_mpi(PMPI_Isend(data, static_cast<int>(size), MPI_BYTE, static_cast<int>(process), tag(call), comm_,
                             &requests.emplace_back()),
                  "MPI_Isend");
    };
    for (const Process process : to) post(first.data(), sizeof head + in_first, process);
    for (std::size_t begin = in_first; begin < blob.size(); begin += piece)
        for (const Process process : to) post(blob.data() + begin, std::min(piece, blob.size() - begin), process);
    for (const MPI_Request request : requests) wait(request);
}

Blob Agreement::receive(const CallHash &call, Process from) const {
    First first;
    const auto take = [&](std::byte *data, std::size_t room) {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Status status;
        check_mpi(
            PMPI_Irecv(data, static_cast<int>(room), MPI_BYTE, static_cast<int>(from), tag(call), comm_, &request),
            "MPI_Irecv");
        wait(request, &status);
        int size = 0;
        check_mpi(PMPI_Get_count(&status, MPI_BYTE, &size), "MPI_Get_count");
        return static_cast<std::size_t>(size);
    };
    const std::size_t size = take(first.data(), first.size());
    Head head{};
    std::memcpy(&head, first.data(), std::min(size, sizeof head));
    const std::size_t in_first = std::min<std::size_t>(head.size, first_room);
    if (size != sizeof head + in_first || head.number != call.number || head.hash != call.hash) wait_for_the_end();
    Blob blob(head.size);
    std::copy_n(first.begin() + sizeof head, in_first, blob.begin());
    for (std::size_t begin = in_first; begin < blob.size(); begin += piece) {
        const std::size_t wanted = std::min(piece, blob.size() - begin);
        if (take(blob.data() + begin, wanted) != wanted) wait_for_the_end();
    }
    return blob;
}

// Down a binomial tree.
Blob Agreement::from(const CallHash &call, Process root, Blob mine) const {
    if (alone()) return mine;
    const Process place = (self_ + processes_ - root) % processes_;
    const auto process_at = [&](Process at) { return (at + root) % processes_; };
    Process step = 1;
    while (step < processes_ && (place & step) == 0) step <<= 1U;
    if (place != 0) mine = receive(call, process_at(place - step));
    std::vector<Process> children;
    for (step >>= 1U; step > 0; step >>= 1U)
        if (place + step < processes_) children.push_back(process_at(place + step));
    send(call, children, mine);
    return mine;
}

std::vector<Blob> Agreement::of(const CallHash &call, std::span<const Process> some, Blob mine) const {
    const Process first = some.front();
    const bool is_some = std::find(some.begin(), some.end(), self_) != some.end();
    Packer all;
    if (first == self_) {
        all.put_bytes(mine);
        for (const Process process : some.subspan(1)) all.put_bytes(receive(call, process));
    } else if (is_some) {
        send(call, {&first, 1}, mine);
    }
    const Blob told = from(call, first, all.take());
    Unpacker unpacker(told);
    std::vector<Blob> each;
    for (std::size_t i = 0; i < some.size(); ++i) each.push_back(unpacker.get_bytes());
    return each;
}

// Up the tree that it comes down.
int Agreement::least(const CallHash &call, int mine) const {
    for (Process step = 1; step < processes_; step <<= 1U) {
        if ((self_ & step) != 0) {
            const Process parent = self_ - step;
            send(call, {&parent, 1}, Packer().put(mine).take());
            break;
        }
        if (self_ + step >= processes_) continue;
        const Blob theirs = receive(call, self_ + step);
        mine = std::min(mine, Unpacker(theirs).get<int>());
    }
    const Blob told = from(call, 0, Packer().put(mine).take());
    return Unpacker(told).get<int>();
}

int Agreement::in_turn(const CallHash &call, std::span<const Process> some, int begin,
                       const std::function<int(int before)> &work) const {
    Blob told;
    if (const auto self = std::find(some.begin(), some.end(), self_); self != some.end()) {
        int before = begin;
        if (self != some.begin()) before = Unpacker(receive(call, *(self - 1))).get<int>();
        told = Packer().put(work(before)).take();
        if (self + 1 != some.end()) send(call, {&*(self + 1), 1}, told);
    }
    const Blob last = from(call, some.back(), std::move(told));
    return Unpacker(last).get<int>();
}

}  // namespace cldist::cluster
