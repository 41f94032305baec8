#include "mpi_interop/device_collectives.hpp"

#include <algorithm>

#include "mpi_interop/collective_operations.hpp"

namespace cldist {
namespace {

constexpr std::size_t bytes_per_group = 16384;
// Up to this many bytes in all processes, one phase is faster than two.
constexpr std::size_t most_in_one_phase = std::size_t{512} << 10U;
constexpr std::uint32_t groups_of_uneven = 32;

std::size_t blocks_in(std::size_t size, std::size_t block) { return (size + block - 1) / block; }

// The range of the data that a member combines or forwards.
Span chunk_of(const Collective &what, std::size_t member, std::size_t members) {
    if (what.kind == CollectiveKind::reduce_scatter) {
        std::size_t before = 0;
        for (std::size_t i = 0; i < member; ++i) before += what.counts[i];
        return {before * what.element, what.counts[member] * what.element};
    }
    std::size_t position = member;
    if (what.kind == CollectiveKind::bcast) {
        // The root has no chunk.
        const auto root = static_cast<std::size_t>(what.root);
        if (member == root) return {};
        if (member > root) --position;
        --members;
    }
    constexpr std::size_t alignment = 16;
    const std::size_t each =
        (blocks_in(what.bytes, members) + alignment - 1) / alignment * alignment;
    const std::size_t begin = std::min(what.bytes, position * each);
    return {begin, std::min(each, what.bytes - begin)};
}

std::uint32_t groups_for(const Collective &what, std::size_t members, bool in_one_phase,
                         bool on_cpu) {
    std::size_t bytes = what.bytes;
    if (what.kind == CollectiveKind::reduce_scatter || (!in_one_phase && what.op != MPI_OP_NULL) ||
        (!in_one_phase && what.kind == CollectiveKind::bcast))
        bytes = blocks_in(bytes, members);
    const std::size_t groups =
        traits_of(what.kind).has_sizes ? groups_of_uneven : blocks_in(bytes, bytes_per_group);
    return static_cast<std::uint32_t>(
        std::clamp<std::size_t>(groups, 1, on_cpu ? 2 : CollectiveKernels::most_groups));
}

// The type of the value in a pair of MPI.
std::string_view value_of(MPI_Datatype pair) {
    if (pair == MPI_FLOAT_INT) return "float";
    if (pair == MPI_DOUBLE_INT) return "double";
    if (pair == MPI_LONG_INT) return "long";
    return pair == MPI_2INT ? "int" : "short";
}

}  // namespace

CollectiveWork plan_collective(const Collective &what, const CollectiveSide &send,
                               const CollectiveSide &recv, int rank, int size, std::size_t block,
                               bool on_cpu) {
    const auto members = static_cast<std::size_t>(size);
    const auto me = static_cast<std::size_t>(rank);
    const auto root = static_cast<std::size_t>(what.root);
    const bool in_one_phase = what.bytes * members <= most_in_one_phase ||
                              (what.kind == CollectiveKind::bcast && members == 2);
    CollectiveWork work{};
    work.scheme = CollectiveScheme::exchange;
    work.count = static_cast<std::uint32_t>(members);
    work.groups = groups_for(what, members, in_one_phase, on_cpu);
    work.stride = block * members;
    work.block = block;
    work.me = static_cast<std::uint32_t>(me);
    work.root = static_cast<std::uint32_t>(root);
    work.keep = 1;
    work.phases = 1;
    // By member: the bytes that arrive from it in the first phase, and those passed on to it.
    std::vector<std::size_t> arriving(members), passed(members);
    const auto set_own = [&](std::size_t in, std::size_t bytes, std::size_t out) {
        work.own_in = in;
        work.own_size = bytes;
        work.own_out = out;
    };
    const auto give = [&](std::size_t member, Span span) {
        work.members[member].give = span.offset;
        work.members[member].give_size = span.size;
    };
    const auto take = [&](std::size_t member, Span span) {
        work.members[member].take = span.offset;
        work.members[member].take_size = span.size;
    };
    const Span whole{0, what.bytes};
    const bool has_chunks = what.op != MPI_OP_NULL || what.kind == CollectiveKind::bcast;
    const Span own = has_chunks ? chunk_of(what, me, members) : Span{};
    switch (what.kind) {
        case CollectiveKind::barrier: break;
        case CollectiveKind::bcast:
            if (in_one_phase) {
                for (std::size_t m = 0; m < members; ++m)
                    if (me == root && m != me) give(m, whole);
                if (me != root) take(root, whole);
                break;
            }
            work.scheme = CollectiveScheme::forward;
            work.phases = 2;
            if (me != root) {
                arriving[root] = own.size;
                set_own(0, own.size, own.offset);
            }
            for (std::size_t m = 0; m < members; ++m) {
                if (m == me || m == root) continue;
                const Span chunk = chunk_of(what, m, members);
                if (me == root) {
                    give(m, chunk);
                } else {
                    take(m, chunk);
                    passed[m] = own.size;
                    work.targets |= 1U << m;
                }
            }
            break;
        case CollectiveKind::reduce:
        case CollectiveKind::allreduce: {
            work.scheme = CollectiveScheme::reduce;
            const bool for_all = what.kind == CollectiveKind::allreduce;
            const bool keeps = for_all || me == root;
            work.keep = keeps ? 1 : 0;
            if (in_one_phase) {
                if (keeps) set_own(0, what.bytes, 0);
                for (std::size_t m = 0; m < members; ++m) {
                    if (for_all || m == root) give(m, whole);
                    if (keeps) arriving[m] = what.bytes;
                }
                break;
            }
            work.phases = 2;
            set_own(own.offset, own.size, own.offset);
            for (std::size_t m = 0; m < members; ++m) {
                const Span chunk = chunk_of(what, m, members);
                give(m, chunk);
                arriving[m] = own.size;
                if (keeps) take(m, chunk);
                if (m == me || !(for_all || m == root)) continue;
                passed[m] = own.size;
                work.targets |= 1U << m;
            }
            break;
        }
        case CollectiveKind::reduce_scatter:
            work.scheme = CollectiveScheme::reduce;
            set_own(own.offset, own.size, 0);
            for (std::size_t m = 0; m < members; ++m) {
                give(m, chunk_of(what, m, members));
                arriving[m] = own.size;
            }
            break;
        case CollectiveKind::gather:
        case CollectiveKind::gatherv:
        case CollectiveKind::scatter:
        case CollectiveKind::scatterv:
        case CollectiveKind::allgather:
        case CollectiveKind::allgatherv:
        case CollectiveKind::alltoall:
        case CollectiveKind::alltoallv:
            for (std::size_t m = 0; m < members; ++m) {
                const int other = static_cast<int>(m);
                const Span given = given_to(what, send, rank, other);
                const Span got = got_from(what, recv, rank, other);
                if (m == me) {
                    set_own(given.offset, given.size, got.offset);
                } else {
                    give(m, given);
                    take(m, got);
                }
            }
    }
    work.rounds = static_cast<std::uint32_t>(blocks_in(work.own_size, block));
    for (std::size_t m = 0; m < members; ++m) {
        CollectiveWork::Member &member = work.members[m];
        if (m == me) {
            member = {};
            continue;
        }
        const std::size_t most =
            std::max({std::size_t{1}, member.give_size, member.take_size, arriving[m], passed[m]});
        member.rounds = static_cast<std::uint32_t>(blocks_in(most, block));
        work.rounds = std::max(work.rounds, member.rounds);
        member.give += send.range.offset;
        member.take += recv.range.offset;
    }
    work.own_in += send.range.offset;
    work.own_out += recv.range.offset;
    return work;
}

std::optional<CollectiveKernels::Combination> combination_of(const Collective &what) {
    if (what.op == MPI_OP_NULL) return CollectiveKernels::Combination{};
    const std::optional<ElementKind> kind = combinable(what.type, what.op);
    if (!kind) return {};
    const Operator &op = *find_operator(what.op);
    const std::string_view name = op.name.substr(4);  // without "MPI_"
    if (*kind == ElementKind::pair)
        return CollectiveKernels::Combination{value_of(what.type), name, what.element, true};
    const bool is_unsigned =
        *kind == ElementKind::unsigned_integer && op.operands == Operator::numbers;
    const bool is_real = *kind == ElementKind::real;
    std::string_view type;
    switch (what.element) {
        case 1: type = is_unsigned ? "uchar" : "char"; break;
        case 2: type = is_unsigned ? "ushort" : "short"; break;
        case 4: type = is_real ? "float" : is_unsigned ? "uint" : "int"; break;
        case 8: type = is_real ? "double" : is_unsigned ? "ulong" : "long"; break;
        default: return {};
    }
    return CollectiveKernels::Combination{type, name, what.element};
}

DeviceCollectives::DeviceCollectives(std::shared_ptr<DeviceLinks> links,
                                     std::vector<int> world_ranks, int rank)
    : links_(std::move(links)),
      world_ranks_(std::move(world_ranks)),
      rank_(rank),
      arena_(links_->take_arena()),
      rounds_(world_ranks_.size()) {}

DeviceCollectives::~DeviceCollectives() {
    if (arena_.index < 0) return;
    arena_.value += 2 * *std::max_element(rounds_.begin(), rounds_.end()) + 2;
    links_->give_arena(arena_);
}

std::size_t DeviceCollectives::block() const {
    constexpr std::size_t page = 4096;
    constexpr std::size_t memories = 4;  // two phases of two rounds
    return DeviceLinks::arena_space / (memories * world_ranks_.size()) / page * page;
}

void DeviceCollectives::agree(std::vector<DeviceLinks::Arena> arenas) {
    const std::lock_guard lock(mutex_);
    if (std::all_of(arenas.begin(), arenas.end(),
                    [](const DeviceLinks::Arena &arena) { return arena.index >= 0; }))
        arenas_ = std::move(arenas);
}

bool DeviceCollectives::agreed() const {
    const std::lock_guard lock(mutex_);
    return !arenas_.empty();
}

bool DeviceCollectives::ready(const std::shared_ptr<DeviceResources> &resources,
                              cl_command_queue queue) {
    bool all = links_->may_wait();
    for (std::size_t m = 0; m < world_ranks_.size(); ++m)
        if (static_cast<int>(m) != rank_)
            all = links_->connected(world_ranks_[m], resources) && all;
    const std::lock_guard lock(mutex_);
    if (!all || arenas_.empty()) return false;
    if (!announcements_) {
        std::vector<CollectiveBoard *> boards;
        for (std::size_t m = 0; m < world_ranks_.size(); ++m) {
            boards.push_back(&links_->board(world_ranks_[m], arenas_[m].index));
            addresses_.push_back(links_->address_of_arena(world_ranks_[m], arenas_[m].index));
        }
        announcements_.emplace(std::move(boards), static_cast<std::size_t>(rank_));
    }
    // Otherwise an earlier command of another queue, or of the host, could be overtaken.
    return announcements_->begun() &&
           std::all_of(pending_.begin(), pending_.end(),
                       [queue](const auto &command) { return command.second == queue; });
}

bool DeviceCollectives::prepared() const {
    const std::lock_guard lock(mutex_);
    return announcements_.has_value();
}

void DeviceCollectives::activate() {
    const std::lock_guard lock(mutex_);
    if (!announcements_->begun()) announcements_->begin(last_ + 1);
}

CollectiveWork DeviceCollectives::plan(const Collective &what, const CollectiveSide &send,
                                       const CollectiveSide &recv) const {
    return plan_collective(what, send, recv, rank_, static_cast<int>(world_ranks_.size()), block(),
                           links_->is_cpu());
}

void DeviceCollectives::enter(std::uint64_t number, CollectiveWork &work, cl_command_queue queue) {
    const std::lock_guard lock(mutex_);
    last_ = number;
    pending_.emplace(number, queue);
    const auto me = static_cast<std::size_t>(rank_);
    for (std::size_t m = 0; m < world_ranks_.size(); ++m) {
        CollectiveWork::Member &member = work.members[m];
        if (queue != nullptr && m != me) {
            const DeviceLinks::ArenaAddress &there = addresses_[m], &here = addresses_[me];
            const std::uint64_t each = work.stride / world_ranks_.size();
            member.to = there.space + me * each;
            member.from = here.space + m * each;
            member.to_flag = there.flags + me * CollectiveKernels::flags_bytes;
            member.from_flag = here.flags + m * CollectiveKernels::flags_bytes;
            member.to_value = arenas_[m].value + 2 * rounds_[m];
            member.from_value = arena_.value + 2 * rounds_[m];
            member.round = rounds_[m];
        }
        rounds_[m] += member.rounds;
    }
}

void DeviceCollectives::leave(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    pending_.erase(number);
}

bool DeviceCollectives::announce(std::uint64_t number, bool on_devices, const Collective &what,
                                 const std::vector<PartSizes> &parts) {
    const std::lock_guard lock(mutex_);
    return !announcements_ ||
           announcements_->announce(number, pending_.begin()->first, on_devices, what, parts);
}

std::optional<bool> DeviceCollectives::decision(std::uint64_t number,
                                                const Collective &what) const {
    const std::lock_guard lock(mutex_);
    return announcements_->decision(number, what);
}

}  // namespace cldist
