#include "mpi_interop/collective_rounds.hpp"

#include <algorithm>
#include <numeric>

#include "base/binomial_tree.hpp"

namespace cldist {
namespace {

constexpr std::size_t alignment = 64;

std::size_t aligned(std::size_t size) { return (size + alignment - 1) / alignment * alignment; }

// The other ranks from the next one on, so that not all processes send to the same one first.
std::vector<int> others_of(Member me) {
    std::vector<int> others;
    for (int i = 1; i < me.size; ++i) others.push_back((me.rank + i) % me.size);
    return others;
}
// The ranks in the order in which they send to `me`.
std::vector<int> senders_to(Member me) {
    std::vector<int> senders = others_of(me);
    std::reverse(senders.begin(), senders.end());
    return senders;
}

void send(Round &round, int peer, Piece piece) {
    if (piece.size != 0) round.sends.push_back({peer, piece});
}
void receive(Round &round, int peer, Piece piece) {
    if (piece.size != 0) round.receives.push_back({peer, piece});
}
void copy(Round &round, Piece from, Piece to) {
    if (from.size != 0) round.steps.push_back({false, from, to});
}
void combine(Round &round, Piece from, Piece to) {
    if (from.size != 0) round.steps.push_back({true, from, to});
}

/// A binomial tree of the ranks. Places are ranks relative to the root.
class Tree {
public:
    Tree(Member me, int root)
        : me_(me), root_(root), place_((me.rank - root + me.size) % me.size) {}

    [[nodiscard]] bool is_root() const { return place_ == 0; }
    [[nodiscard]] int parent() const { return rank_of(parent_in_tree(place_)); }
    /// The children. Children with more ranks below them come first.
    [[nodiscard]] std::vector<int> children() const {
        std::vector<int> children = children_in_tree(place_, me_.size);
        for (int &child : children) child = rank_of(child);
        return children;
    }

private:
    [[nodiscard]] int rank_of(int place) const { return (place + root_) % me_.size; }

    Member me_;
    int root_;
    int place_;
};

/// Divides elements over the processes as equally as possible.
class EqualShares {
public:
    EqualShares(Member me, std::size_t bytes, std::size_t element)
        : element_(element),
          each_(bytes / element / count(me)),
          more_(bytes / element % count(me)) {}

    [[nodiscard]] Piece of(int rank, Area area) const {
        const auto place = static_cast<std::size_t>(rank);
        return {area, (each_ * place + std::min(place, more_)) * element_,
                (each_ + (place < more_ ? 1 : 0)) * element_};
    }

private:
    static std::size_t count(Member me) { return static_cast<std::size_t>(me.size); }

    std::size_t element_;
    std::size_t each_;
    std::size_t more_;  ///< processes with one more element
};

// From this many bytes per process on, all processes share the work. Below, latency dominates.
constexpr std::size_t worth_sharing = 1024;
bool shares_work(Member me, std::size_t bytes) {
    return bytes / static_cast<std::size_t>(me.size) >= worth_sharing;
}

void tree_broadcast(Rounds &all, Member me, int root, std::size_t bytes, Area of_root) {
    const Tree tree(me, root);
    if (!tree.is_root()) receive(all.rounds.emplace_back(), tree.parent(), {Area::out, 0, bytes});
    Round &down = all.rounds.emplace_back();
    for (const int child : tree.children())
        send(down, child, {tree.is_root() ? of_root : Area::out, 0, bytes});
}

void tree_reduce(Rounds &all, Member me, int root, std::size_t bytes) {
    const Tree tree(me, root);
    std::vector<int> children = tree.children();
    std::reverse(children.begin(), children.end());  // in the order of the ranks
    const auto slot = [&](std::size_t i) {
        return Piece{Area::scratch, aligned(bytes) * i, bytes};
    };
    const Piece own{Area::in, 0, bytes};
    const Piece result = tree.is_root() ? Piece{Area::out, 0, bytes} : slot(children.size());
    Round &up = all.rounds.emplace_back();
    for (std::size_t i = 0; i < children.size(); ++i) receive(up, children[i], slot(i));
    if (tree.is_root() || !children.empty()) copy(up, own, result);
    for (std::size_t i = 0; i < children.size(); ++i) combine(up, slot(i), result);
    if (!tree.is_root())
        send(all.rounds.emplace_back(), tree.parent(), children.empty() ? own : result);
    all.scratch = std::max(all.scratch, aligned(bytes) * (children.size() + 1));
}

// Each process combines one part of the data of all processes, in the order of the ranks. `part`
// returns the position of a process's part in the input.
void combine_parts(Rounds &all, Member me, const std::function<Piece(int)> &part, Piece result) {
    const Piece own = part(me.rank);
    const auto slot = [&](int rank) {
        return Piece{Area::scratch, aligned(own.size) * static_cast<std::size_t>(rank), own.size};
    };
    Round &round = all.rounds.emplace_back();
    for (const int peer : senders_to(me))
        receive(round, peer, {slot(peer).area, slot(peer).offset, own.size});
    for (const int peer : others_of(me)) send(round, peer, part(peer));
    if (me.rank == 0) copy(round, own, slot(0));
    for (int rank = 1; rank < me.size; ++rank)
        combine(round, rank == me.rank ? own : slot(rank), slot(0));
    if (result.area != Area::scratch) copy(round, slot(0), result);
    all.scratch = aligned(own.size) * static_cast<std::size_t>(me.size);
}

}  // namespace

Rounds broadcast_rounds(Member me, int root, std::size_t bytes) {
    Rounds all;
    const bool is_root = me.rank == root;
    constexpr int few = 4;
    if (me.size > few && !shares_work(me, bytes)) {
        tree_broadcast(all, me, root, bytes, Area::in);
        return all;
    }
    Round &first = all.rounds.emplace_back();
    if (me.size <= few) {
        for (const int peer : others_of(me))
            if (is_root) send(first, peer, {Area::in, 0, bytes});
        if (!is_root) receive(first, root, {Area::out, 0, bytes});
        return all;
    }
    // The root sends each process a share, and each process sends its share to all others.
    const EqualShares shares(me, bytes, 1);
    if (is_root) {
        for (const int peer : others_of(me)) send(first, peer, shares.of(peer, Area::in));
        for (const int peer : others_of(me)) send(first, peer, shares.of(root, Area::in));
        return all;
    }
    receive(first, root, shares.of(me.rank, Area::out));
    Round second;
    for (const int peer : senders_to(me)) receive(second, peer, shares.of(peer, Area::out));
    for (const int peer : others_of(me))
        if (peer != root) send(second, peer, shares.of(me.rank, Area::out));
    all.rounds.push_back(std::move(second));
    return all;
}

Rounds reduce_rounds(Member me, int root, std::size_t bytes, std::size_t element,
                     bool in_rank_order) {
    Rounds all;
    if (!in_rank_order && !shares_work(me, bytes)) {
        tree_reduce(all, me, root, bytes);
        return all;
    }
    const EqualShares shares(me, bytes, element);
    const bool is_root = me.rank == root;
    const Piece own{Area::scratch, 0, shares.of(me.rank, Area::in).size};
    combine_parts(
        all, me, [&](int rank) { return shares.of(rank, Area::in); },
        is_root ? shares.of(root, Area::out) : own);
    Round &second = all.rounds.emplace_back();
    if (!is_root) send(second, root, own);
    for (const int peer : senders_to(me))
        if (is_root) receive(second, peer, shares.of(peer, Area::out));
    return all;
}

Rounds allreduce_rounds(Member me, std::size_t bytes, std::size_t element, bool in_rank_order) {
    Rounds all;
    if (!in_rank_order && !shares_work(me, bytes)) {
        tree_reduce(all, me, 0, bytes);
        tree_broadcast(all, me, 0, bytes, Area::out);
        return all;
    }
    const EqualShares shares(me, bytes, element);
    combine_parts(
        all, me, [&](int rank) { return shares.of(rank, Area::in); },
        shares.of(me.rank, Area::out));
    Round &second = all.rounds.emplace_back();
    for (const int peer : senders_to(me)) receive(second, peer, shares.of(peer, Area::out));
    for (const int peer : others_of(me)) send(second, peer, shares.of(me.rank, Area::out));
    return all;
}

Rounds reduce_scatter_rounds(Member me, const std::vector<std::size_t> &parts) {
    Rounds all;
    std::vector<std::size_t> offsets(parts.size());
    std::exclusive_scan(parts.begin(), parts.end(), offsets.begin(), std::size_t{0});
    const auto part = [&](int rank) {
        const auto place = static_cast<std::size_t>(rank);
        return Piece{Area::in, offsets[place], parts[place]};
    };
    combine_parts(all, me, part, {Area::out, 0, part(me.rank).size});
    return all;
}

Rounds exchange_rounds(Member me, const std::function<Span(int)> &given,
                       const std::function<Span(int)> &got) {
    const auto piece = [](Area area, Span span) { return Piece{area, span.offset, span.size}; };
    Rounds all;
    Round &round = all.rounds.emplace_back();
    for (const int peer : senders_to(me)) receive(round, peer, piece(Area::out, got(peer)));
    for (const int peer : others_of(me)) send(round, peer, piece(Area::in, given(peer)));
    if (got(me.rank).size != 0)
        copy(round, piece(Area::in, given(me.rank)), piece(Area::out, got(me.rank)));
    return all;
}

Rounds record_rounds(Member me, std::size_t record) {
    const auto place = [&](int rank) {
        return Piece{Area::scratch, record * static_cast<std::size_t>(rank), record};
    };
    Rounds all;
    Round &round = all.rounds.emplace_back();
    for (const int peer : senders_to(me)) receive(round, peer, place(peer));
    for (const int peer : others_of(me)) send(round, peer, place(me.rank));
    return all;
}

Rounds agreement_rounds(Member me) {
    // Before round n, counted from 0, each process has combined the values of 2^n processes.
    Rounds all;
    const Piece own{Area::out, 0, sizeof(int)};
    for (int distance = 1; distance < me.size; distance *= 2) {
        Round &round = all.rounds.emplace_back();
        const Piece got{Area::scratch, all.scratch, sizeof(int)};
        receive(round, (me.rank - distance + me.size) % me.size, got);
        send(round, (me.rank + distance) % me.size, own);
        combine(round, got, own);
        all.scratch += sizeof(int);
    }
    return all;
}

}  // namespace cldist
