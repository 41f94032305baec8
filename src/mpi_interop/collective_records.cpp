#include "mpi_interop/collective_records.hpp"

#include <cstring>

namespace cldist {

std::optional<Records> records_of(const Collective &what, std::size_t processes) {
    constexpr std::size_t most = std::size_t{8} << 10U;
    // The limit for kinds in which each process needs the data of all processes.
    constexpr std::size_t most_for_all = std::size_t{256} << 10U;
    constexpr std::size_t few = 8;
    std::size_t given = what.bytes;
    const CollectiveTraits &kind = traits_of(what.kind);
    if (what.kind == CollectiveKind::barrier || kind.has_sizes) return {};
    if (kind.gives_parts) {
        if (given > most) return {};
        given *= processes;
    }
    // MPI_Reduce_local may end the program if MPI forbids the combination.
    if (kind.reduces && !combinable(what.type, what.op)) return {};
    const bool for_all = !kind.has_root && (kind.reduces ? processes <= few : !kind.gives_parts);
    if (given > most_for_all) return {};
    const std::size_t size = Records::head + (given + 63) / 64 * 64;
    if (size * processes > (for_all ? most_for_all : most)) return {};
    return Records{size};
}

void take_records(const Collective &what, Member me, const Records &records, std::byte *first,
                  std::span<std::byte> out) {
    const auto own = static_cast<std::size_t>(me.rank);
    const auto data_of = [&](int rank) {
        return first + records.size * static_cast<std::size_t>(rank);
    };
    const CollectiveTraits &kind = traits_of(what.kind);
    if (!kind.reduces) {
        const std::size_t at = kind.gives_parts ? own * what.bytes : 0;
        if (!kind.gets_parts)
            std::memcpy(out.data(), data_of(what.root) + at, what.bytes);
        else
            for (int rank = 0; rank < me.size; ++rank)
                std::memcpy(out.data() + static_cast<std::size_t>(rank) * what.bytes,
                            data_of(rank) + at, what.bytes);
        return;
    }
    // In the order of the ranks, so that all processes get the same bits.
    const auto count = static_cast<int>(what.bytes / what.element);
    for (int rank = 1; rank < me.size; ++rank)
        PMPI_Reduce_local(data_of(rank), data_of(0), count, what.type, what.op);
    std::size_t before = 0;
    for (std::size_t i = 0; what.kind == CollectiveKind::reduce_scatter && i < own; ++i)
        before += what.counts[i];
    std::memcpy(out.data(), data_of(0) + before * what.element, out.size());
}

}  // namespace cldist
