#include "mpi_interop/communicator.hpp"
#include "base/config.hpp"

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/crowding.hpp"
#include "mpi_interop/mpi_status.hpp"

namespace cldist {
namespace {

Error freed(const char *what) { return {CL_INVALID_COMMUNICATOR, what}; }

// Returns true if `comm` is a valid communicator. In Open MPI a handle is a pointer. After a free
// it dangles, and most calls crash. The conversion to a Fortran handle only reads a number there,
// and the conversion back gives the same pointer only for a valid communicator. In MPICH a handle
// is a number, and a call with an invalid number is an error. MPI reports it to the handler of
// MPI_COMM_WORLD, which ends the job by default. A comparison reports it to the handler of its
// first communicator, which is `own`.
bool alive(MPI_Comm comm, MPI_Comm own) {
    int result = MPI_UNEQUAL;
    // `own` may have received the number of the freed communicator.
    return comm != own && PMPI_Comm_f2c(PMPI_Comm_c2f(comm)) == comm &&
           PMPI_Comm_compare(own, comm, &result) == MPI_SUCCESS;
}

void check_with(MPI_Comm own, MPI_Comm comm) {
    if (comm == MPI_COMM_NULL) throw freed("the communicator is MPI_COMM_NULL");
    if (!alive(comm, own)) throw freed("the communicator is not valid; was it freed?");
}

// The group that the ranks of messages refer to.
MPI_Group peer_group(MPI_Comm comm) {
    int inter = 0;
    MPI_Group group = MPI_GROUP_NULL;
    PMPI_Comm_test_inter(comm, &inter);
    if (inter != 0)
        PMPI_Comm_remote_group(comm, &group);
    else
        PMPI_Comm_group(comm, &group);
    return group;
}

std::vector<int> ranks_in(MPI_Comm target, MPI_Group group) {
    int size = 0;
    PMPI_Group_size(group, &size);
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    std::vector<int> translated(ranks.size(), MPI_UNDEFINED);
    MPI_Group target_group = MPI_GROUP_NULL;
    PMPI_Comm_group(target, &target_group);
    PMPI_Group_translate_ranks(group, size, ranks.data(), target_group, translated.data());
    PMPI_Group_free(&target_group);
    return translated;
}

// Registers the job's processes on this host, so that their load is not taken for other programs'.
void share_process_ids(MPI_Comm host) {
    std::vector<pid_t> processes(static_cast<std::size_t>(processes_in(host)));
    const pid_t mine = getpid();
    check_mpi(
        PMPI_Allgather(&mine, sizeof mine, MPI_BYTE, processes.data(), sizeof mine, MPI_BYTE, host),
        "MPI_Allgather");
    set_processes_of_job(std::move(processes));
}

}  // namespace

Communicator::~Communicator() {
    MPI_Comm handle = handle_;
    if (freed_last_ && mpi_runs()) PMPI_Comm_free(&handle);
}

std::shared_ptr<Communicator> Communicator::with_blocks_on(MPI_Comm block_comm,
                                                           CollectiveRoutes routes) const {
    return std::make_shared<Communicator>(handle_, block_comm, ranks_.with_blocks(routes.ranks),
                                          links_, routes);
}

std::shared_ptr<CollectiveLine> Communicator::collectives() const {
    const std::lock_guard lock(mutex_);
    if (collectives_ == nullptr) collectives_ = std::make_shared<CollectiveLine>(handle_, routes_);
    return collectives_;
}

std::shared_ptr<CollectiveLine> Communicator::known_collectives() const {
    const std::lock_guard lock(mutex_);
    return collectives_;
}

Communicators::Communicators()
    : world_(duplicate(MPI_COMM_WORLD)),
      self_(duplicate(MPI_COMM_SELF)),
      collectives_(duplicate(world_)),
      contexts_(std::make_shared<Channels>(CollectiveLine::largest_context(max_tag_of(world_)))) {
    check_mpi(PMPI_Comm_split_type(world_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host_),
              "MPI_Comm_split_type");
    share_process_ids(host_);
    links_ = std::make_shared<HostLinks>(host_, world_);
    check_mpi(
        PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &Communicators::on_free, &keyval_, this),
        "MPI_Comm_create_keyval");
}

Communicators::~Communicators() {
    std::vector<MPI_Comm> handles;
    for (const auto &[handle, communicator] : known_) handles.push_back(handle);
    for (const MPI_Comm handle : handles) PMPI_Comm_delete_attr(handle, keyval_);
    PMPI_Comm_free_keyval(&keyval_);
    for (MPI_Comm &copy : foreign_) PMPI_Comm_free(&copy);
    for (MPI_Comm &copy : foreign_collectives_) PMPI_Comm_free(&copy);
    PMPI_Comm_free(&collectives_);
    PMPI_Comm_free(&host_);
    PMPI_Comm_free(&self_);
    PMPI_Comm_free(&world_);
}

void Communicators::check(MPI_Comm comm) {
    static std::mutex one_at_a_time;  // duplicating is collective
    const std::lock_guard lock(one_at_a_time);
    MPI_Comm own = duplicate(MPI_COMM_SELF);
    try {
        check_with(own, comm);
    } catch (...) {
        PMPI_Comm_free(&own);
        throw;
    }
    PMPI_Comm_free(&own);
}

std::shared_ptr<const Communicator> Communicators::find(MPI_Comm comm) {
    {
        const std::lock_guard lock(mutex_);
        if (const auto at = known_.find(comm); at != known_.end()) return at->second;
    }
    const std::shared_ptr<Communicator> made = make(comm);
    if (!made->complete())
        throw freed(
            "a process of the communicator is not in MPI_COMM_WORLD; call clDistInit with the "
            "communicator first");
    return keep(made);
}

void Communicators::add_foreign(MPI_Comm comm) {
    {
        const std::lock_guard lock(mutex_);
        const auto at = known_.find(comm);
        if (at != known_.end() && at->second->added()) return;
    }
    const std::shared_ptr<Communicator> made = make(comm);
    made->note_added();
    // For an inter-communicator the two sides may have different results, but both must duplicate.
    int local = made->complete() ? 1 : 0;
    int all = local;
    check_mpi(PMPI_Allreduce(&local, &all, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
    if (all == 1 && local == 1) {
        keep(made);
        const std::lock_guard lock(mutex_);
        known_.at(comm)->note_added();  // a command may have used the communicator before
        return;
    }
    const MPI_Comm copy = duplicate(comm);
    const MPI_Comm for_collectives = duplicate(comm);
    std::vector<int> ranks(static_cast<std::size_t>(made->peers()));
    std::iota(ranks.begin(), ranks.end(), 0);
    {
        const std::lock_guard lock(mutex_);
        foreign_.push_back(copy);
        foreign_collectives_.push_back(for_collectives);
    }
    const auto foreign =
        made->with_blocks_on(copy, {for_collectives, self_, std::move(ranks), contexts_});
    foreign->note_added();
    keep(foreign);
}

std::shared_ptr<Communicator> Communicators::make(MPI_Comm comm) const {
    check_with(self_, comm);
    MPI_Group group = peer_group(comm);
    std::vector<int> ranks = ranks_in(world_, group);
    std::vector<int> host_ranks = ranks_in(host_, group);
    PMPI_Group_free(&group);
    return std::make_shared<Communicator>(
        comm, world_, PeerRanks(ranks, ranks, std::move(host_ranks)), links_,
        CollectiveRoutes{collectives_, self_, ranks, contexts_,
                         config().path == Path::device ? links_->devices() : nullptr});
}

void Communicators::note_wire(MPI_Comm comm, Wire wire) {
    const std::lock_guard lock(mutex_);
    if (const auto at = known_.find(comm); at != known_.end()) at->second->note_wire(wire);
}

bool Communicators::free_later(MPI_Comm comm) {
    if (comm == MPI_COMM_WORLD || comm == MPI_COMM_SELF) return false;  // MPI refuses to free these
    std::shared_ptr<Communicator> communicator;  // freed after the lock, because it may call MPI
    const std::lock_guard lock(mutex_);
    const auto at = known_.find(comm);
    if (at == known_.end() || at->second.use_count() == 1) return false;
    communicator = std::move(at->second);
    known_.erase(at);
    communicator->free_with_last_use();
    return true;
}

std::shared_ptr<const Communicator> Communicators::keep(
    const std::shared_ptr<Communicator> &communicator) {
    communicator->note_wire(wire_of(communicator->handle()));
    {
        const std::lock_guard lock(mutex_);
        // Another thread may have inserted it first.
        const auto [at, added] = known_.emplace(communicator->handle(), communicator);
        if (!added) return at->second;
    }
    // on_free() removes the entry when the communicator is freed, because the handle may then
    // denote another communicator.
    PMPI_Comm_set_attr(communicator->handle(), keyval_, communicator.get());
    return communicator;
}

int Communicators::on_free(MPI_Comm comm, int, void *communicator, void *self) {
    auto &freed = *static_cast<Communicator *>(communicator);
    freed.note_freed();
    if (freed.freed_with_last_use())
        return MPI_SUCCESS;  // `self` has forgotten it and may have been destroyed
    auto &all = *static_cast<Communicators *>(self);
    const std::lock_guard lock(all.mutex_);
    all.known_.erase(comm);
    return MPI_SUCCESS;
}

std::vector<std::shared_ptr<const Communicator>> Communicators::known() {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<const Communicator>> all;
    for (const auto &[handle, communicator] : known_) all.push_back(communicator);
    return all;
}

std::vector<MPI_Comm> Communicators::block_comms() {
    const std::lock_guard lock(mutex_);
    std::vector<MPI_Comm> all = foreign_;
    all.push_back(world_);
    return all;
}

std::vector<MPI_Comm> Communicators::collective_comms() {
    const std::lock_guard lock(mutex_);
    std::vector<MPI_Comm> all = foreign_collectives_;
    all.push_back(collectives_);
    return all;
}

std::vector<std::shared_ptr<CollectiveLine>> Communicators::collectives() {
    std::vector<std::shared_ptr<CollectiveLine>> all;
    for (const auto &communicator : known())
        if (auto line = communicator->known_collectives()) all.push_back(std::move(line));
    return all;
}

}  // namespace cldist
