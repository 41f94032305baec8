#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mpi_interop/collective_exchange.hpp"

namespace cldist {

struct Collective;

/// The arguments of a collective that must be equal in all processes, and the sizes of the parts
/// that the sender of this summary exchanges with its receiver.
struct CallSummary {
    int kind;
    int root;
    std::uint64_t bytes;   ///< as Collective::bytes; 0 if processes may differ
    std::uint64_t counts;  ///< a hash
    std::uint64_t element;
    std::array<char, 32> type;  ///< for reductions
    std::array<char, 16> op;
    PartSizes parts;
};
[[nodiscard]] CallSummary summary_of(const Collective &what);
/// A hash of the arguments that must be equal. Datatypes that are the same in OpenCL C have the
/// same hash.
[[nodiscard]] std::uint32_t hash_of(const Collective &what);
/// Describes how the sizes of the parts that two processes exchange differ. Returns an empty text
/// if they are equal. Process `rank` passes `sizes` for process `other`.
[[nodiscard]] std::string difference_of(std::size_t rank, const PartSizes &sizes, std::size_t other,
                                        const PartSizes &sizes_of_other);
/// For example "Bcast of 4000 bytes, root 0".
[[nodiscard]] std::string text_of(const CallSummary &call);

/// Compares a command's call with the calls of all other processes before data moves
/// (CLDIST_CHECK). Must not be moved.
class CollectiveCheck {
public:
    /// `parts`: by rank, for collectives with a size per process. `transport` must outlive the
    /// check.
    CollectiveCheck(const Collective &what, const std::vector<PartSizes> &parts,
                    std::uint64_t number, const CollectiveTransport &transport);

    /// Returns a result when all processes have answered: success in all processes, or
    /// CL_COLLECTIVE_MISMATCH in all.
    Outcome poll();

private:
    enum class Step { start, compare, compared, agree };

    [[nodiscard]] std::string difference() const;

    const std::uint64_t number_;
    const CollectiveTransport &transport_;
    std::vector<CallSummary> mine_;    ///< one for each process
    std::vector<CallSummary> theirs_;  ///< received from each process
    CollectiveExchange exchange_;
    Step step_ = Step::start;
    std::string difference_;
    int differs_ = 0;
    std::array<int, 32> others_differ_{};
};

}  // namespace cldist
