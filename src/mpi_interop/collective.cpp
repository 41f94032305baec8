#include <algorithm>
#include <array>
#include <optional>

#include <mpi.h>

#include "mpi_interop/collective_operations.hpp"

namespace cldist {
namespace {

// The data that this process exchanges with `other`: the part for that process, or the whole side
// if it has no parts.
Span part_of(const CollectiveSide &side, std::size_t bytes, bool has_parts, int other) {
    const auto place = static_cast<std::size_t>(other);
    if (!side.parts.empty()) return side.parts[place];
    return has_parts ? Span{place * bytes, bytes} : Span{0, side.range.size};
}

// Returns true if `from` sends a part to `to`. False for kinds without parts.
bool sends_part(const Collective &what, int from, int to) {
    const CollectiveTraits &kind = traits_of(what.kind);
    if (!kind.gives_parts && !kind.gets_parts) return false;
    return !kind.has_root || what.root == (kind.gives_parts ? from : to);
}

}  // namespace

const Operator *find_operator(MPI_Op op) {
    using enum Operator::Operands;
    static const std::array known{
        Operator{MPI_MAX, "MPI_MAX", numbers},     Operator{MPI_MIN, "MPI_MIN", numbers},
        Operator{MPI_SUM, "MPI_SUM", numbers},     Operator{MPI_PROD, "MPI_PROD", numbers},
        Operator{MPI_LAND, "MPI_LAND", integers},  Operator{MPI_BAND, "MPI_BAND", integers},
        Operator{MPI_LOR, "MPI_LOR", integers},    Operator{MPI_BOR, "MPI_BOR", integers},
        Operator{MPI_LXOR, "MPI_LXOR", integers},  Operator{MPI_BXOR, "MPI_BXOR", integers},
        Operator{MPI_MINLOC, "MPI_MINLOC", pairs}, Operator{MPI_MAXLOC, "MPI_MAXLOC", pairs}};
    const auto *const found = std::find_if(known.begin(), known.end(),
                                           [&](const Operator &each) { return each.op == op; });
    return found == known.end() ? nullptr : found;
}

std::optional<ElementKind> combinable(MPI_Datatype type, MPI_Op op) {
    const std::array reals{MPI_FLOAT, MPI_DOUBLE};
    const std::array signed_integers{MPI_INT,     MPI_LONG,    MPI_SHORT,   MPI_INT8_T,
                                     MPI_INT16_T, MPI_INT32_T, MPI_INT64_T, MPI_LONG_LONG};
    const std::array unsigned_integers{MPI_UNSIGNED, MPI_UNSIGNED_LONG,     MPI_UNSIGNED_SHORT,
                                       MPI_UINT8_T,  MPI_UINT16_T,          MPI_UINT32_T,
                                       MPI_UINT64_T, MPI_UNSIGNED_LONG_LONG};
    const std::array pairs{MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT, MPI_SHORT_INT};
    const auto is_in = [](const auto &list, auto value) {
        return std::find(list.begin(), list.end(), value) != list.end();
    };
    std::optional<ElementKind> kind;
    if (is_in(reals, type)) kind = ElementKind::real;
    if (is_in(signed_integers, type)) kind = ElementKind::signed_integer;
    if (is_in(unsigned_integers, type)) kind = ElementKind::unsigned_integer;
    if (is_in(pairs, type)) kind = ElementKind::pair;
    const Operator *const known = find_operator(op);
    const bool allowed = known != nullptr &&
                         (known->operands == Operator::pairs) == (kind == ElementKind::pair) &&
                         !(known->operands == Operator::integers && kind == ElementKind::real);
    return allowed ? kind : std::nullopt;
}

Span given_to(const Collective &what, const CollectiveSide &send, int rank, int to) {
    if (!sends_part(what, rank, to)) return {};
    return part_of(send, what.bytes, traits_of(what.kind).gives_parts, to);
}

Span got_from(const Collective &what, const CollectiveSide &recv, int rank, int from) {
    if (!sends_part(what, from, rank)) return {};
    return part_of(recv, what.bytes, traits_of(what.kind).gets_parts, from);
}

std::vector<Span> pieces_of(std::vector<Span> parts, std::size_t size) {
    if (parts.empty()) parts.push_back({0, size});
    std::erase_if(parts, [](const Span &part) { return part.size == 0; });
    std::sort(parts.begin(), parts.end(),
              [](const Span &a, const Span &b) { return a.offset < b.offset; });
    std::vector<Span> merged;
    for (const Span &part : parts) {
        if (!merged.empty() && part.offset <= merged.back().offset + merged.back().size) {
            const std::size_t end =
                std::max(merged.back().offset + merged.back().size, part.offset + part.size);
            merged.back().size = end - merged.back().offset;
        } else {
            merged.push_back(part);
        }
    }
    return merged;
}

}  // namespace cldist
