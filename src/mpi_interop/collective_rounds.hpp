#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace cldist {

/// Bytes, from the first of a side's range.
struct Span {
    std::size_t offset;
    std::size_t size;
};

/// The memory that a process uses for a collective: what it gives, what it gets, and memory of the library.
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

/// A copy of `from` to `to`, or a reduction of both into `to`.
struct LocalStep {
    bool combines;
    Piece from;
    Piece to;
};

/// Messages that a process posts at once. It then waits for them.
struct Round {
    std::vector<PieceMessage> sends{};
    std::vector<PieceMessage> receives{};
    std::vector<LocalStep> steps{};  ///< after the messages, in this order
};

/// The messages and computations of one process in a collective. They do not depend on the memory of the other processes, so
/// each may work in place or not. A process receives messages from another in the order in which the other sends them.
struct Rounds {
    std::vector<Round> rounds;
    std::size_t scratch = 0;  ///< bytes
};

struct Member {
    int rank;
    int size;
};

/// The root gives, the others get.
Rounds broadcast_rounds(Member me, int root, std::size_t bytes);
/// Reductions: elements of `element` bytes. Where a process gives and gets, both areas may be the same memory.
Rounds reduce_rounds(Member me, int root, std::size_t bytes, std::size_t element);
Rounds allreduce_rounds(Member me, std::size_t bytes, std::size_t element);
/// Process i gets the elements of part i, of `parts[i]` bytes.
Rounds reduce_scatter_rounds(Member me, const std::vector<std::size_t> &parts);
/// `given` and `got`: the bytes that the process sends to, or receives from, each process, itself included. Size 0: no bytes.
Rounds exchange_rounds(Member me, const std::function<Span(int)> &given, const std::function<Span(int)> &got);
/// Each process has a record at the place of its rank in the scratch memory, and gets the others'.
Rounds record_rounds(Member me, std::size_t record);
/// Each process has an int in Area::out, and gets the combination of all. Ends in no process before all have begun. The
/// result of the operator must not change if a number is combined several times, as with MPI_MAX.
Rounds agreement_rounds(Member me);

}  // namespace cldist
