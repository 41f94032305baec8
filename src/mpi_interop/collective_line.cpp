#include "mpi_interop/collective_line.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/own_yields.hpp"

namespace cldist {
namespace {

std::string name_of(MPI_Comm comm) {
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    PMPI_Comm_get_name(comm, name, &length);
    return length > 0 ? std::string(name, static_cast<std::size_t>(length))
                      : "a communicator without a name";
}

}  // namespace

CollectiveLine::CollectiveLine(MPI_Comm comm, CollectiveRoutes routes)
    : routes_(std::move(routes)), name_(name_of(comm)) {
    PMPI_Comm_rank(comm, &rank_);
    Numbers &n = *numbers_;
    if (routes_.devices != nullptr && size() > 1 && size() <= DeviceCollectives::most_members)
        devices_ = std::make_unique<DeviceCollectives>(routes_.devices, routes_.ranks, rank_);
    n.own = {routes_.contexts->acquire(), config().check == Switch::on ? 1 : 0,
             devices_ != nullptr ? devices_->arena() : DeviceLinks::Arena{}};
    n.all.resize(routes_.ranks.size());
    const int code = PMPI_Iallgather(&n.own, sizeof n.own, MPI_BYTE, n.all.data(), sizeof n.own,
                                     MPI_BYTE, comm, &n.request);
    if (code == MPI_SUCCESS) return;
    routes_.contexts->release(n.own.context);
    throw Error(mpi_failure(code, "MPI_Iallgather"));
}

CollectiveLine::~CollectiveLine() {
    if (agreed_)
        routes_.contexts->release(own_context());
    else
        static_cast<void>(numbers_.release());  // MPI may still write to it
}

Outcome CollectiveLine::ready() {
    if (made_) return made_;
    int done = 0;
    const int code = test_without_yield(numbers_->request, done);
    if (code != MPI_SUCCESS) return made_ = mpi_failure(code, "MPI_Iallgather");
    if (done == 0) return std::nullopt;
    compares_calls_ = std::any_of(numbers_->all.begin(), numbers_->all.end(),
                                  [](const Choice &choice) { return choice.compares_calls != 0; });
    if (devices_ != nullptr) {
        std::vector<DeviceLinks::Arena> arenas;
        for (const Choice &choice : numbers_->all) arenas.push_back(choice.arena);
        devices_->agree(std::move(arenas));
    }
    agreed_ = true;
    return made_ = Status{};
}

std::optional<unsigned> CollectiveLine::begin_exchange() {
    if (in_flight_[next_exchange_ % window].exchange(true)) return std::nullopt;
    return next_exchange_++;
}

std::uint64_t PendingCollectives::add(std::shared_ptr<const Record> record,
                                      std::function<std::string()> call) {
    const std::lock_guard lock(mutex_);
    listed_.emplace(++added_, Listed{std::move(record), std::move(call)});
    return added_;
}

void PendingCollectives::remove(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    listed_.erase(number);
    last_removed_ns_ = now_ns();
}

std::vector<PendingCollectives::Pending> PendingCollectives::first(std::size_t most) const {
    std::vector<Pending> all;
    const std::lock_guard lock(mutex_);
    for (const auto &[number, listed] : listed_) {
        if (all.size() == most) break;
        all.push_back({number, listed.record, listed.call()});
    }
    return all;
}

std::uint64_t PendingCollectives::last_removed() const {
    const std::lock_guard lock(mutex_);
    return last_removed_ns_;
}

std::uint64_t PendingCollectives::added() const {
    const std::lock_guard lock(mutex_);
    return added_;
}

}  // namespace cldist
