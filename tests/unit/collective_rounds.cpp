// The rounds of collectives, executed for all processes in one process.

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <utility>

#include <doctest/doctest.h>

#include "mpi_interop/collective_rounds.hpp"

using namespace cldist;

namespace {

using numbers = std::vector<std::int32_t>;
constexpr std::size_t element = sizeof(std::int32_t);

/// One process: its memory and its current round.
struct process {
    Rounds rounds;
    numbers in;
    numbers out;
    bool in_place = false;  ///< input and output are both `in`
    numbers scratch;
    std::size_t round = 0;
    bool posted = false;
    std::vector<std::vector<char>> sent;

    char *at(const Piece &piece) {
        numbers &area = piece.area == Area::in || (piece.area == Area::out && in_place) ? in
                        : piece.area == Area::out                                       ? out
                                                                                        : scratch;
        REQUIRE(piece.offset + piece.size <= area.size() * element);
        return reinterpret_cast<char *>(area.data()) + piece.offset;
    }
    [[nodiscard]] const numbers &result() const { return in_place ? in : out; }
};

using operation = std::int32_t (*)(std::int32_t to, std::int32_t from);
std::int32_t sum(std::int32_t to, std::int32_t from) { return to + from; }
/// The result depends on the order.
std::int32_t append(std::int32_t to, std::int32_t from) { return (to * 31 + from) % 65521; }

/// Executes all processes' rounds in a random order. Messages between two processes stay in order.
void play(std::vector<process> &all, std::mt19937 &random, operation combine = sum) {
    std::map<std::pair<int, int>, std::deque<std::vector<char>>> wire;
    for (process &each : all)
        each.scratch.assign((each.rounds.scratch + element - 1) / element, -1);
    const auto ready = [&](int rank) {
        std::map<int, std::size_t> wanted;
        const process &p = all[static_cast<std::size_t>(rank)];
        for (const auto &[peer, piece] : p.rounds.rounds[p.round].receives)
            if (wire[{peer, rank}].size() < ++wanted[peer]) return false;
        return true;
    };
    std::size_t left = all.size();
    for (std::size_t idle = 0; left != 0;) {
        REQUIRE(idle < 10000);
        const int rank = static_cast<int>(random() % all.size());
        process &p = all[static_cast<std::size_t>(rank)];
        if (p.round == p.rounds.rounds.size()) {
            if (!std::exchange(p.posted, true)) --left;
            continue;
        }
        const Round &round = p.rounds.rounds[p.round];
        if (!p.posted) {
            p.sent.clear();
            for (const auto &[peer, piece] : round.sends) {
                p.sent.emplace_back(p.at(piece), p.at(piece) + piece.size);
                wire[{rank, peer}].push_back(p.sent.back());
            }
            p.posted = true;
        }
        if (!ready(rank)) {
            ++idle;
            continue;
        }
        idle = 0;
        for (const auto &[peer, piece] : round.receives) {
            const std::vector<char> data = wire[{peer, rank}].front();
            wire[{peer, rank}].pop_front();
            REQUIRE(data.size() == piece.size);
            std::memcpy(p.at(piece), data.data(), data.size());
        }
        // MPI may read the send buffer until the round ends.
        for (std::size_t i = 0; i < p.sent.size(); ++i)
            CHECK(std::memcmp(p.at(round.sends[i].piece), p.sent[i].data(), p.sent[i].size()) == 0);
        for (const LocalStep &step : round.steps) {
            REQUIRE(step.from.size == step.to.size);
            auto *const from = reinterpret_cast<std::int32_t *>(p.at(step.from));
            auto *const to = reinterpret_cast<std::int32_t *>(p.at(step.to));
            for (std::size_t i = 0; i < step.from.size / element; ++i)
                to[i] = step.combines ? combine(to[i], from[i]) : from[i];
        }
        ++p.round;
        p.posted = false;
    }
    for (const auto &[way, messages] : wire) CHECK(messages.empty());
}

std::int32_t value(int rank, std::size_t i) {
    return static_cast<std::int32_t>(i * 7 + static_cast<std::size_t>(rank) * 1001 + 1);
}

numbers values(int rank, std::size_t count) {
    numbers all(count);
    for (std::size_t i = 0; i < count; ++i) all[i] = value(rank, i);
    return all;
}

numbers sums(int size, std::size_t count) {
    numbers all(count);
    for (int rank = 0; rank < size; ++rank)
        for (std::size_t i = 0; i < count; ++i) all[i] += value(rank, i);
    return all;
}

constexpr std::array sizes{1, 2, 3, 4, 5, 7, 8, 9, 17};

/// Element counts, some near the threshold above which processes share the work of a reduction. Not
/// all are multiples of the number of processes.
std::vector<std::size_t> counts_for(int size) {
    const auto n = static_cast<std::size_t>(size);
    return {0, 1, 3, 255 * n, 256 * n, 256 * n + 1, 300 * n + 5};
}

}  // namespace

TEST_CASE(
    "broadcasts, reductions and all-reductions give the result in every process, in place or not") {
    std::mt19937 random(7);
    for (const int size : sizes)
        for (const std::size_t count : counts_for(size))
            for (const int root : {0, size / 2, size - 1})
                for (const int kind : {0, 1, 2}) {
                    CAPTURE(size);
                    CAPTURE(count);
                    CAPTURE(root);
                    CAPTURE(kind);
                    std::vector<process> all(static_cast<std::size_t>(size));
                    for (int rank = 0; rank < size; ++rank) {
                        process &p = all[static_cast<std::size_t>(rank)];
                        const Member me{rank, size};
                        p.rounds = kind == 0 ? broadcast_rounds(me, root, count * element)
                                   : kind == 1
                                       ? reduce_rounds(me, root, count * element, element, false)
                                       : allreduce_rounds(me, count * element, element, false);
                        p.in = values(rank, count);
                        p.out.assign(count, -1);
                        p.in_place = random() % 2 == 0;
                    }
                    play(all, random);
                    for (int rank = 0; rank < size; ++rank) {
                        const process &p = all[static_cast<std::size_t>(rank)];
                        if (kind == 0 && rank != root) CHECK(p.result() == values(root, count));
                        if (kind == 2 || (kind == 1 && rank == root))
                            CHECK(p.result() == sums(size, count));
                        if (!p.in_place) CHECK(p.in == values(rank, count));
                    }
                }
}

TEST_CASE("reductions of any size combine in the order of the ranks if kernels do") {
    std::mt19937 random(10);
    for (const int size : sizes)
        for (const std::size_t count : counts_for(size))
            for (const int root : {0, size / 2, size - 1})
                for (const bool for_all : {false, true}) {
                    CAPTURE(size);
                    CAPTURE(count);
                    CAPTURE(root);
                    CAPTURE(for_all);
                    std::vector<process> all(static_cast<std::size_t>(size));
                    numbers wanted = values(0, count);
                    for (int rank = 0; rank < size; ++rank) {
                        process &p = all[static_cast<std::size_t>(rank)];
                        const Member me{rank, size};
                        p.rounds = for_all
                                       ? allreduce_rounds(me, count * element, element, true)
                                       : reduce_rounds(me, root, count * element, element, true);
                        p.in = values(rank, count);
                        p.out.assign(count, -1);
                        for (std::size_t i = 0; rank != 0 && i < count; ++i)
                            wanted[i] = append(wanted[i], value(rank, i));
                    }
                    play(all, random, append);
                    for (int rank = 0; rank < size; ++rank)
                        if (for_all || rank == root)
                            CHECK(all[static_cast<std::size_t>(rank)].out == wanted);
                }
}

TEST_CASE("a reduce-scatter gives each process its range, even if some ranges are empty") {
    std::mt19937 random(8);
    for (const int size : sizes) {
        CAPTURE(size);
        std::vector<std::size_t> counts(static_cast<std::size_t>(size));
        for (std::size_t i = 0; i < counts.size(); ++i)
            counts[i] = i % 3 == 1 ? 0 : 1 + random() % 50;
        std::vector<std::size_t> parts = counts;
        for (std::size_t &part : parts) part *= element;
        const std::size_t count = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
        std::vector<process> all(counts.size());
        for (int rank = 0; rank < size; ++rank) {
            process &p = all[static_cast<std::size_t>(rank)];
            p.rounds = reduce_scatter_rounds({rank, size}, parts);
            p.in = values(rank, count);
            p.out.assign(counts[static_cast<std::size_t>(rank)], -1);
            p.in_place = random() % 2 == 0;
        }
        play(all, random);
        const numbers sum = sums(size, count);
        std::size_t at = 0;
        for (std::size_t i = 0; i < all.size(); at += counts[i++])
            for (std::size_t j = 0; j < counts[i]; ++j) CHECK(all[i].result()[j] == sum[at + j]);
    }
}

TEST_CASE("the ranges reach their destinations, and all processes learn the largest number") {
    std::mt19937 random(9);
    for (const int size : sizes) {
        CAPTURE(size);
        const auto n = static_cast<std::size_t>(size);
        const auto count = [](int from, int to) {
            return static_cast<std::size_t>((from * 3 + to * 5) % 4);
        };
        std::vector<process> all(n);
        for (int rank = 0; rank < size; ++rank) {
            process &p = all[static_cast<std::size_t>(rank)];
            const auto span = [](int other, std::size_t size_of_part) {
                return Span{static_cast<std::size_t>(other) * 4 * element, size_of_part * element};
            };
            p.rounds = exchange_rounds(
                {rank, size}, [&](int to) { return span(to, count(rank, to)); },
                [&](int from) { return span(from, count(from, rank)); });
            p.in = values(rank, 4 * n);
            p.out.assign(4 * n, -1);
        }
        play(all, random);
        for (int rank = 0; rank < size; ++rank)
            for (int from = 0; from < size; ++from)
                for (std::size_t i = 0; i < 4; ++i)
                    CHECK(all[static_cast<std::size_t>(rank)]
                              .out[static_cast<std::size_t>(from) * 4 + i] ==
                          (i < count(from, rank)
                               ? value(from, static_cast<std::size_t>(rank) * 4 + i)
                               : -1));

        // The agreement on a number, here a sum: it includes each process at least once, and no
        // process ends before all have begun.
        std::vector<process> agreeing(n);
        for (int rank = 0; rank < size; ++rank) {
            process &p = agreeing[static_cast<std::size_t>(rank)];
            p.rounds = agreement_rounds({rank, size});
            p.out.assign(1, 1);
        }
        play(agreeing, random);
        for (const process &p : agreeing) CHECK(p.out[0] >= size);

        std::vector<process> recording(n);
        for (int rank = 0; rank < size; ++rank)
            recording[static_cast<std::size_t>(rank)].rounds = record_rounds({rank, size}, 8);
        for (process &p : recording) p.rounds.scratch = 8 * n;
        play(recording, random);
    }
}
