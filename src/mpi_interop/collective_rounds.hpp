#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace cldist {

/// A range of bytes, relative to the start of a side.
struct Span {
    std::size_t offset;
    std::size_t size;
};

/// The memory areas of a process in a collective. `scratch` is memory of the library.
enum class Area { in, out, scratch };

struct Piece {
    Area area;
    std::size_t offset;
    std::size_t size;
};

/// A message to or from the process with rank `peer`.
struct PieceMessage {
    int peer;
    Piece piece;
};

/// A copy of `from` to `to`. If `combines`, `to` becomes `from` op `to` instead.
struct LocalStep {
    bool combines;
    Piece from;
    Piece to;
};

/// Messages that a process posts together and then waits for.
struct Round {
    std::vector<PieceMessage> sends{};
    std::vector<PieceMessage> receives{};
    std::vector<LocalStep> steps{};  ///< executed after the messages, in this order
};

/// The messages and computations of one process in a collective. They do not depend on the memory
/// of other processes, so each process decides alone whether it works in place. Messages from one
/// process are received in the order in which that process sends them.
struct Rounds {
    std::vector<Round> rounds;
    std::size_t scratch = 0;  ///< bytes
};

struct Member {
    int rank;
    int size;
};

/// The root's input becomes the output of all other processes.
Rounds broadcast_rounds(Member me, int root, std::size_t bytes);
/// Reductions of elements of `element` bytes. Input and output may be the same memory.
/// `in_rank_order`: combine in the order of the ranks, also if another order is faster. All
/// processes must pass the same value.
Rounds reduce_rounds(Member me, int root, std::size_t bytes, std::size_t element,
                     bool in_rank_order);
Rounds allreduce_rounds(Member me, std::size_t bytes, std::size_t element, bool in_rank_order);
/// Process i receives the elements of part i, which has `parts[i]` bytes.
Rounds reduce_scatter_rounds(Member me, const std::vector<std::size_t> &parts);
/// `given` and `got` return the bytes that the process sends to or receives from each process,
/// including itself. Size 0 means no bytes.
Rounds exchange_rounds(Member me, const std::function<Span(int)> &given,
                       const std::function<Span(int)> &got);
/// Scratch memory contains one record of `record` bytes per process. Each process has its own
/// record there and receives all others.
Rounds record_rounds(Member me, std::size_t record);
/// Each process has an int in Area::out and receives the combination of all. No process ends before
/// all have begun. The operator must be idempotent, like MPI_MAX.
Rounds agreement_rounds(Member me);

}  // namespace cldist
