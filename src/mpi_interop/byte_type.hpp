#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "mpi_interop/mpi_status.hpp"

namespace cldist {

/// A number of bytes as count and datatype. MPI counts are int, so a larger number is one element
/// of a derived datatype.
class ByteType {
public:
    /// Throws an Error.
    explicit ByteType(std::size_t bytes) {
        if (bytes <= std::numeric_limits<int>::max()) {
            count_ = static_cast<int>(bytes);
            return;
        }
        constexpr std::size_t piece = std::size_t{1} << 30U;
        std::vector<int> lengths;
        std::vector<MPI_Aint> offsets;
        for (std::size_t at = 0; at < bytes; at += piece) {
            lengths.push_back(static_cast<int>(std::min(piece, bytes - at)));
            offsets.push_back(static_cast<MPI_Aint>(at));
        }
        check_mpi(PMPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(),
                                            offsets.data(), MPI_BYTE, &type_),
                  "MPI_Type_create_hindexed");
        PMPI_Type_commit(&type_);
    }
    ByteType(const ByteType &) = delete;
    ByteType &operator=(const ByteType &) = delete;
    ~ByteType() {
        if (type_ != MPI_BYTE) PMPI_Type_free(&type_);
    }

    [[nodiscard]] int count() const { return count_; }
    [[nodiscard]] MPI_Datatype type() const { return type_; }

private:
    int count_ = 1;
    MPI_Datatype type_ = MPI_BYTE;
};

}  // namespace cldist
