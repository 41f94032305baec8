#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "mpi_interop/collective_operations.hpp"

namespace cldist {

/// Small collectives use one exchange: each process sends all others a record with its data and its
/// status. Larger ones need a second exchange for the status. All processes must decide alike.
struct Records {
    static constexpr std::size_t head = 64;  ///< the status, padded to keep data aligned
    std::size_t size;                        ///< bytes of one record
};
/// Returns nothing if the collective has no records.
[[nodiscard]] std::optional<Records> records_of(const Collective &what, std::size_t processes);

/// Writes the receive side `out` of process `me` from the data in all records. `first` is the data
/// in the record of rank 0, and may be overwritten. The other records follow at equal distances.
void take_records(const Collective &what, Member me, const Records &records, std::byte *first,
                  std::span<std::byte> out);

}  // namespace cldist
