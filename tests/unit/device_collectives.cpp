// The plans and announcements of device-ordered collectives, for all processes in one process.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "mpi_interop/announcements.hpp"
#include "mpi_interop/collective_check.hpp"
#include "mpi_interop/collective_operations.hpp"

using namespace cldist;

namespace {

using numbers = std::vector<std::int32_t>;
constexpr std::size_t element_size = sizeof(std::int32_t);

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

/// A collective of all processes.
struct job {
    CollectiveKind kind;
    int size;
    int root;
    std::size_t count;  ///< elements that each process contributes
    std::vector<numbers> in{}, out{}, wanted{};
    std::vector<CollectiveWork> works{};

    /// For kinds with a size per process: the elements that rank `from` sends to rank `to`.
    [[nodiscard]] std::size_t uneven(int from, int to) const {
        if (kind == CollectiveKind::alltoallv)
            return (from + to) % 3 == 0 ? 0 : count / index(from + 2 * to + 1);
        const int owner = kind == CollectiveKind::scatterv ? to : from;
        return count / index(owner + 1);
    }
};

/// The parts of a side, with gaps of one element between them. Sets `elements` to the side's
/// size.
std::vector<Span> parts_of(const std::vector<std::size_t> &counts, std::size_t &elements) {
    std::vector<Span> parts;
    elements = 0;
    for (const std::size_t count : counts) {
        parts.push_back({elements * element_size, count * element_size});
        elements += count + 1;
    }
    return parts;
}

/// Plans the collective for all processes, fills their inputs, and computes the results.
void prepare(job &j, std::size_t block) {
    const std::size_t n = j.count, size = index(j.size);
    std::vector<std::size_t> counts;
    for (int r = 0; r < j.size; ++r) counts.push_back(n / index(r + 1));
    const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    std::vector<CollectiveSide> sends(size), recvs(size);
    for (int r = 0; r < j.size; ++r) {
        CollectiveSide &send = sends[index(r)], &recv = recvs[index(r)];
        std::size_t sent = n, received = n;
        const auto uneven_side = [&](CollectiveSide &side, bool sending, std::size_t &elements) {
            std::vector<std::size_t> sizes;
            for (int p = 0; p < j.size; ++p)
                sizes.push_back(sending ? j.uneven(r, p) : j.uneven(p, r));
            side.parts = parts_of(sizes, elements);
        };
        switch (j.kind) {
            case CollectiveKind::barrier: sent = received = 0; break;
            case CollectiveKind::bcast:
                sent = r == j.root ? n : 0;
                received = r == j.root ? 0 : n;
                break;
            case CollectiveKind::reduce: received = r == j.root ? n : 0; break;
            case CollectiveKind::allreduce: break;
            case CollectiveKind::reduce_scatter:
                sent = all;
                received = counts[index(r)];
                break;
            case CollectiveKind::gather: received = r == j.root ? n * size : 0; break;
            case CollectiveKind::allgather: received = n * size; break;
            case CollectiveKind::scatter: sent = r == j.root ? n * size : 0; break;
            case CollectiveKind::alltoall: sent = received = n * size; break;
            case CollectiveKind::gatherv:
            case CollectiveKind::allgatherv:
                sent = j.uneven(r, 0);
                received = 0;
                if (j.kind == CollectiveKind::allgatherv || r == j.root)
                    uneven_side(recv, false, received);
                break;
            case CollectiveKind::scatterv:
                sent = 0;
                if (r == j.root) uneven_side(send, true, sent);
                received = j.uneven(j.root, r);
                break;
            case CollectiveKind::alltoallv:
                uneven_side(send, true, sent);
                uneven_side(recv, false, received);
                break;
        }
        send.range.size = sent * element_size;
        recv.range.size = received * element_size;
        numbers data(sent);
        for (std::size_t i = 0; i < sent; ++i)
            data[i] = static_cast<std::int32_t>(i * 7 + index(r) * 1000003);
        j.in.push_back(data);
        j.out.emplace_back(received, -1);
    }
    for (int r = 0; r < j.size; ++r) {
        Collective what{j.kind, j.root, n * element_size};
        if (traits_of(j.kind).reduces) {
            what.element = element_size;
            what.type = MPI_INT32_T;
            what.op = MPI_SUM;
            if (j.kind == CollectiveKind::reduce_scatter) {
                what.counts = counts;
                what.bytes = all * element_size;
            }
        }
        if (j.kind == CollectiveKind::barrier) what.bytes = 0;
        const CollectiveSide &send = sends[index(r)], &recv = recvs[index(r)];
        j.works.push_back(plan_collective(what, send, recv, r, j.size, block, false));
        numbers result = j.out[index(r)];
        if (traits_of(j.kind).reduces) {
            std::size_t first = 0;
            if (j.kind == CollectiveKind::reduce_scatter)
                first = std::accumulate(counts.begin(), counts.begin() + r, std::size_t{0});
            for (std::size_t i = 0; i < result.size(); ++i) {
                result[i] = 0;
                for (const numbers &data : j.in) result[i] += data[first + i];
            }
        } else if (j.kind == CollectiveKind::bcast) {
            if (r != j.root) result = j.in[index(j.root)];
        } else if (j.kind != CollectiveKind::barrier) {
            for (int p = 0; p < j.size; ++p) {
                const Span got = got_from(what, recv, r, p);
                const Span given = given_to(what, sends[index(p)], p, r);
                REQUIRE(got.size == given.size);
                if (got.size == 0) continue;
                std::copy_n(
                    j.in[index(p)].begin() +
                        static_cast<std::ptrdiff_t>(given.offset / element_size),
                    got.size / element_size,
                    result.begin() + static_cast<std::ptrdiff_t>(got.offset / element_size));
            }
        }
        j.wanted.push_back(result);
    }
}

/// The bytes of a range of `size` bytes that a round moves.
Span piece_of(std::uint64_t size, std::uint32_t round, std::uint64_t block) {
    const std::uint64_t first = std::min(size, round * block);
    return {first, std::min(size - first, block)};
}

/// Executes the work of all processes' kernels.
void execute(job &j) {
    using bytes = std::vector<char>;
    const std::size_t size = index(j.size);
    std::uint32_t rounds = 0;
    for (std::size_t m = 0; m < size; ++m) {
        rounds = std::max(rounds, j.works[m].rounds);
        CHECK(j.works[m].groups == j.works[0].groups);
        CHECK(j.works[m].phases == j.works[0].phases);
        CHECK((j.works[m].scheme == j.works[0].scheme));
        for (std::size_t p = 0; p < size; ++p)
            if (p != m) CHECK(j.works[m].members[p].rounds == j.works[p].members[m].rounds);
    }
    const auto in = [&](std::size_t m) { return reinterpret_cast<const char *>(j.in[m].data()); };
    const auto out = [&](std::size_t m) { return reinterpret_cast<char *>(j.out[m].data()); };
    for (std::uint32_t round = 0; round < rounds; ++round) {
        std::vector<std::vector<bytes>> given(size, std::vector<bytes>(size)), passed = given;
        const auto take = [&](const std::vector<std::vector<bytes>> &arrived, std::size_t m) {
            for (std::size_t p = 0; p < size; ++p) {
                if (p == m) continue;
                const CollectiveWork::Member &member = j.works[m].members[p];
                const Span piece = piece_of(member.take_size, round, j.works[m].block);
                REQUIRE(arrived[m][p].size() >= piece.size);
                if (piece.size != 0) CHECK(round < member.rounds);
                if (piece.size != 0)
                    std::memcpy(out(m) + member.take + piece.offset, arrived[m][p].data(),
                                piece.size);
            }
        };
        for (std::size_t m = 0; m < size; ++m)
            for (std::size_t p = 0; p < size; ++p) {
                if (p == m) continue;
                const CollectiveWork::Member &member = j.works[m].members[p];
                const Span piece = piece_of(member.give_size, round, j.works[m].block);
                if (piece.size != 0) CHECK(round < member.rounds);
                const char *const first = in(m) + member.give + piece.offset;
                if (piece.size != 0) given[p][m].assign(first, first + piece.size);
            }
        for (std::size_t m = 0; m < size; ++m) {
            const CollectiveWork &work = j.works[m];
            const Span own = piece_of(work.own_size, round, work.block);
            if (work.scheme == CollectiveScheme::exchange) {
                if (own.size != 0)
                    std::memcpy(out(m) + work.own_out + own.offset,
                                in(m) + work.own_in + own.offset, own.size);
                take(given, m);
                continue;
            }
            bytes result(own.size);
            for (std::size_t p = 0; p < size; ++p) {
                const bool forwards = work.scheme == CollectiveScheme::forward;
                if (own.size == 0 || (forwards && p != work.root)) continue;
                REQUIRE((p == m || given[m][p].size() >= own.size));
                const char *const data =
                    p == m ? in(m) + work.own_in + own.offset : given[m][p].data();
                for (std::size_t i = 0; i < own.size; i += element_size) {
                    std::int32_t value = 0, sum = 0;
                    std::memcpy(&value, data + i, element_size);
                    if (!forwards) std::memcpy(&sum, result.data() + i, element_size);
                    sum += value;
                    std::memcpy(result.data() + i, &sum, element_size);
                }
            }
            if (work.keep != 0 && own.size != 0)
                std::memcpy(out(m) + work.own_out + own.offset, result.data(), own.size);
            for (std::size_t p = 0; p < size; ++p)
                if ((work.targets >> p & 1U) != 0) {
                    passed[p][m] = result;
                    if (own.size != 0) CHECK(round < work.members[p].rounds);
                }
        }
        for (std::size_t m = 0; m < size; ++m)
            if (j.works[m].phases == 2) take(passed, m);
    }
}

}  // namespace

TEST_CASE("the plans of all processes give every collective its result") {
    for (const CollectiveKind kind :
         {CollectiveKind::barrier, CollectiveKind::bcast, CollectiveKind::gather,
          CollectiveKind::gatherv, CollectiveKind::scatter, CollectiveKind::scatterv,
          CollectiveKind::allgather, CollectiveKind::allgatherv, CollectiveKind::alltoall,
          CollectiveKind::alltoallv, CollectiveKind::reduce, CollectiveKind::allreduce,
          CollectiveKind::reduce_scatter})
        for (int size = 2; size <= 5; ++size)
            for (const std::size_t count : {0, 1, 5, 1000, 200003}) {
                job j{kind, size, size / 2, count};
                CAPTURE(traits_of(kind).name);
                CAPTURE(size);
                CAPTURE(count);
                prepare(j, 65536);
                execute(j);
                for (int r = 0; r < size; ++r) CHECK((j.out[index(r)] == j.wanted[index(r)]));
            }
}

namespace {

Collective reduction(MPI_Datatype type = MPI_INT, MPI_Op op = MPI_SUM) {
    return {CollectiveKind::allreduce, 0, 400, 4, type, op};
}

/// The announcements of several processes.
struct Members {
    explicit Members(std::size_t size) : boards(size) {
        std::vector<CollectiveBoard *> all;
        for (CollectiveBoard &board : boards) all.push_back(&board);
        for (std::size_t rank = 0; rank < size; ++rank) processes.emplace_back(all, rank);
    }
    std::vector<CollectiveBoard> boards;
    std::vector<Announcements> processes;
};

}  // namespace

TEST_CASE("calls that differ have different hashes") {
    std::vector<Collective> calls{reduction(),
                                  reduction(MPI_FLOAT),
                                  reduction(MPI_UNSIGNED),
                                  reduction(MPI_INT, MPI_MAX),
                                  reduction(MPI_2INT, MPI_MINLOC),
                                  reduction(MPI_2INT, MPI_MAXLOC),
                                  reduction(MPI_FLOAT_INT, MPI_MINLOC),
                                  reduction(MPI_DOUBLE_INT, MPI_MINLOC),
                                  reduction(MPI_LONG_INT, MPI_MINLOC),
                                  reduction(MPI_SHORT_INT, MPI_MINLOC),
                                  {CollectiveKind::allreduce, 0, 404, 4, MPI_INT, MPI_SUM},
                                  {CollectiveKind::barrier}};
    for (const CollectiveKind kind : {CollectiveKind::bcast, CollectiveKind::gather})
        for (const int root : {0, 1})
            for (const std::size_t bytes : {0UL, 1UL, 400UL, 1UL << 31U, 1UL << 40U})
                calls.push_back({kind, root, bytes});
    for (const std::size_t own : {1, 2}) {
        calls.push_back({CollectiveKind::reduce_scatter, 0, 12, 4, MPI_INT, MPI_SUM});
        calls.back().counts = {own, 3 - own};
    }
    for (std::size_t a = 0; a < calls.size(); ++a)
        for (std::size_t b = 0; b < calls.size(); ++b)
            CHECK((hash_of(calls[a]) == hash_of(calls[b])) == (a == b));
    CHECK(hash_of(reduction(MPI_INT32_T)) == hash_of(reduction(MPI_INT)));
    // Processes may have other sizes.
    CHECK(hash_of({CollectiveKind::gatherv, 0, 8}) == hash_of({CollectiveKind::gatherv, 0, 16}));
}

TEST_CASE("the decision on a collective follows from all announcements") {
    enum Answer { not_begun, begins_later, missing, yes, no, other_yes, other_no };
    const Collective call{CollectiveKind::bcast, 0, 400}, other{CollectiveKind::bcast, 1, 400};
    constexpr std::uint64_t wraps = std::uint64_t{1} << 31U;
    for (const std::uint64_t number : {std::uint64_t{7}, wraps - 1, wraps + 1, 3 * wraps + 5})
        for (int a = not_begun; a <= other_no; ++a)
            for (int b = not_begun; b <= other_no; ++b) {
                CAPTURE(number);
                CAPTURE(a);
                CAPTURE(b);
                Members members(3);
                const auto announce = [&](std::size_t rank, int answer) {
                    Announcements &own = members.processes[rank];
                    if (answer == not_begun) return;
                    own.begin(answer == begins_later ? number + 1 : number - 2);
                    if (answer >= missing) CHECK(own.announce(number - 2, number - 2, true, {}));
                    const bool same = answer == yes || answer == no;
                    if (answer > missing)
                        CHECK(own.announce(number, number, answer == yes || answer == other_yes,
                                           same ? call : other));
                };
                announce(1, yes);
                announce(0, a);
                announce(2, b);
                const Announcements &own = members.processes[1];
                const auto is = [&](Answer answer) { return a == answer || b == answer; };
                if (is(begins_later)) {
                    // One of the others is not asked.
                    if (!(a == other_yes || a == other_no))
                        CHECK(own.decision(number, call) == std::optional(false));
                } else if (is(other_yes) || is(other_no)) {
                    CHECK_THROWS_WITH_AS(
                        static_cast<void>(own.decision(number, call)),
                        doctest::Contains(a >= other_yes ? "Bcast of 400 bytes, root 0, "
                                                           "rank 0 called something else"
                                                         : "rank 2 called something else"),
                        Error);
                } else if (is(no)) {
                    CHECK(own.decision(number, call) == std::optional(false));
                } else if (is(not_begun) || is(missing)) {
                    CHECK(!own.decision(number, call));
                } else {
                    CHECK(own.decision(number, call) == std::optional(true));
                }
            }
}

TEST_CASE("a process decides only after its own announcement") {
    const Collective call{CollectiveKind::bcast, 0, 400};
    for (const bool on_devices : {false, true}) {
        Members members(2);
        for (Announcements &process : members.processes) process.begin(7);
        Announcements &own = members.processes[0], &other = members.processes[1];
        CHECK(other.announce(7, 7, on_devices, call));
        CHECK(!own.decision(7, call));
        CHECK(own.announce(7, 7, true, call));
        CHECK(own.decision(7, call) == std::optional(on_devices));
    }
}

TEST_CASE("both processes of a pair find that the sizes of its part differ") {
    constexpr std::size_t size = 3;
    constexpr std::uint64_t first = 7;
    const Collective call{CollectiveKind::alltoallv};
    for (std::size_t from = 0; from < size; ++from)
        for (std::size_t to = 0; to < size; ++to)
            for (const bool sender_is_wrong : {false, true})
                for (const std::uint64_t bytes : {0, 15, 16, 17}) {
                    if (from == to) continue;
                    const std::uint64_t given = sender_is_wrong ? bytes : 16;
                    const std::uint64_t expected = sender_is_wrong ? 16 : bytes;
                    CAPTURE(from);
                    CAPTURE(to);
                    CAPTURE(given);
                    CAPTURE(expected);
                    Members members(size);
                    for (std::size_t rank = 0; rank < size; ++rank) {
                        std::vector<PartSizes> parts(size, {16, 16});
                        if (rank == from) parts[to].given = given;
                        if (rank == to) parts[from].expected = expected;
                        members.processes[rank].begin(first);
                        CHECK(members.processes[rank].announce(first, first, true, call, parts));
                    }
                    const std::string text = "rank " + std::to_string(from) + " sends rank " +
                                             std::to_string(to) + " " + std::to_string(given) +
                                             " bytes, but rank " + std::to_string(to) +
                                             " expects " + std::to_string(expected);
                    for (std::size_t rank = 0; rank < size; ++rank) {
                        const Announcements &own = members.processes[rank];
                        if (given == expected || (rank != from && rank != to))
                            CHECK(own.decision(first, call) == std::optional(true));
                        else
                            CHECK_THROWS_WITH_AS(static_cast<void>(own.decision(first, call)),
                                                 doctest::Contains(text.c_str()), Error);
                    }
                }
}

TEST_CASE("an announcement waits until all processes have read the announcement before it") {
    Members members(2);
    Announcements &own = members.processes[0], &other = members.processes[1];
    CHECK(own.announce(1, 1, true, {}));  // before the first
    CHECK(members.boards[0].calls[1] == 0);
    own.begin(3);
    other.begin(3);
    for (std::uint64_t number = 3; number < 3 + CollectiveBoard::window; ++number)
        CHECK(own.announce(number, 3, true, {}));
    CHECK(!own.announce(3 + CollectiveBoard::window, 3, true, {}));
    CHECK(other.announce(3, 3, true, {}));
    CHECK(other.decision(3, {}) == std::optional(true));
    CHECK(own.announce(3 + CollectiveBoard::window, 4, true, {}));
    CHECK(!own.decision(3 + CollectiveBoard::window, {}));
}

TEST_CASE("in random orders, all processes decide alike, whenever their announcements begin") {
    constexpr std::size_t size = 3;
    constexpr std::uint64_t commands = 400;
    std::mt19937 random(1);
    for (int run = 0; run < 20; ++run) {
        Members members(size);
        struct Process {
            std::vector<bool> may{};  ///< by number: the process has a kernel
            std::uint64_t announced = 0, decided = 0;
        };
        std::vector<Process> processes(size);
        std::vector<int> decisions(commands, -1);
        std::uint64_t ended = 0;  ///< by all processes
        std::size_t on_devices = 0;
        while (ended < commands) {
            const std::size_t rank = random() % size;
            Process &process = processes[rank];
            Announcements &own = members.processes[rank];
            const auto called = static_cast<std::uint64_t>(process.may.size());
            if (random() % 2 == 0 && called < commands)
                process.may.push_back(own.begun() && random() % 8 != 0);
            if (!own.begun() && ended >= 5 && random() % 16 == 0) own.begin(process.may.size() + 1);
            if (process.announced < process.may.size() &&
                own.announce(process.announced + 1, ended + 1, process.may[process.announced], {}))
                ++process.announced;
            while (process.decided < process.announced) {
                if (process.may[process.decided]) {
                    const std::optional<bool> decision = own.decision(process.decided + 1, {});
                    if (!decision) break;
                    int &known = decisions[process.decided];
                    REQUIRE((known == -1 || known == (*decision ? 1 : 0)));
                    known = *decision ? 1 : 0;
                }
                ++process.decided;
            }
            while (std::all_of(processes.begin(), processes.end(),
                               [&](const Process &each) { return each.decided > ended; })) {
                const bool all = std::all_of(processes.begin(), processes.end(),
                                             [&](const Process &each) { return each.may[ended]; });
                REQUIRE((decisions[ended] == 1) == all);
                on_devices += all ? 1 : 0;
                ++ended;
            }
        }
        CHECK(on_devices > commands / 3);
    }
}
