#include "cluster/agreement.hpp"

#include <algorithm>
#include <array>
#include <thread>

#include "base/backoff.hpp"
#include "mpi_interop/mpi_status.hpp"

namespace cldist::cluster {
namespace {

// What is broadcast is short in most cases, and then takes one message.
constexpr std::size_t short_size = 480;

struct Short {
    std::size_t size;
    std::array<std::byte, short_size> bytes;
};

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
void Agreement::wait(MPI_Request request) const {
    int done = 0;
    for (Backoff backoff(caller_patience);;) {
        check_mpi(PMPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
        if (done != 0) return;
        if (const auto sleep = backoff.pause(true); sleep.count() > 0) std::this_thread::sleep_for(sleep);
    }
}

Blob Agreement::from(Process root, Blob mine) {
    if (alone()) return mine;
    Short head{};
    if (root == self_) {
        head.size = mine.size();
        std::copy_n(mine.begin(), std::min(mine.size(), short_size), head.bytes.begin());
    }
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(PMPI_Ibcast(&head, sizeof head, MPI_BYTE, static_cast<int>(root), comm_, &request), "MPI_Ibcast");
    wait(request);
    mine.resize(head.size);
    std::copy_n(head.bytes.begin(), std::min(head.size, short_size), mine.begin());
    if (head.size <= short_size) return mine;
    check_mpi(PMPI_Ibcast(mine.data() + short_size, static_cast<int>(head.size - short_size), MPI_BYTE,
                          static_cast<int>(root), comm_, &request),
              "MPI_Ibcast");
    wait(request);
    return mine;
}

std::vector<Blob> Agreement::of_all(const Blob &mine) {
    if (alone()) return {mine};
    std::vector<int> sizes(processes_);
    const int size = static_cast<int>(mine.size());
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(PMPI_Iallgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, comm_, &request), "MPI_Iallgather");
    wait(request);
    std::vector<int> offsets(processes_);
    int total = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) offsets[i] = std::exchange(total, total + sizes[i]);
    Blob all(static_cast<std::size_t>(total));
    check_mpi(PMPI_Iallgatherv(mine.data(), size, MPI_BYTE, all.data(), sizes.data(), offsets.data(), MPI_BYTE, comm_,
                               &request),
              "MPI_Iallgatherv");
    wait(request);
    std::vector<Blob> each;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const auto begin = all.begin() + offsets[i];
        each.emplace_back(begin, begin + sizes[i]);
    }
    return each;
}

// Down a binomial tree.
void Agreement::tell(Process root, std::span<std::byte> data, Turn turn) const {
    const auto tag = static_cast<int>(turn % (static_cast<Turn>(max_tag_) + 1));
    const auto size = static_cast<int>(data.size());
    const Process place = (self_ + processes_ - root) % processes_;
    const auto rank_at = [&](Process at) { return static_cast<int>((at + root) % processes_); };
    MPI_Request request = MPI_REQUEST_NULL;
    Process step = 1;
    while (step < processes_ && (place & step) == 0) step <<= 1U;
    if (place != 0) {
        check_mpi(PMPI_Irecv(data.data(), size, MPI_BYTE, rank_at(place - step), tag, comm_, &request), "MPI_Irecv");
        wait(request);
    }
    for (step >>= 1U; step > 0; step >>= 1U) {
        if (place + step >= processes_) continue;
        check_mpi(PMPI_Isend(data.data(), size, MPI_BYTE, rank_at(place + step), tag, comm_, &request), "MPI_Isend");
        wait(request);
    }
}

int Agreement::least(int mine) {
    if (alone()) return mine;
    int least = mine;
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(PMPI_Iallreduce(&mine, &least, 1, MPI_INT, MPI_MIN, comm_, &request), "MPI_Iallreduce");
    wait(request);
    return least;
}

}  // namespace cldist::cluster
