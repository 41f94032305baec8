#pragma once

#include <mpi.h>

#include "cluster/world/agreement.hpp"

namespace cldist::cluster {

/// Uses MPI. A process that receives a message of another call, or a broken message, waits forever:
/// the call-consistency check is about to end the job.
class MpiAgreement final : public Agreement {
public:
    /// Duplicates the communicator; collective.
    explicit MpiAgreement(MPI_Comm comm);

protected:
    void send(const CallHash &call, std::span<const Process> to, const Blob &blob) const override;
    [[nodiscard]] Blob receive(const CallHash &call, Process from, Blob expected) const override;

private:
    void wait(MPI_Request request, MPI_Status *status = MPI_STATUS_IGNORE) const;
    [[nodiscard]] int tag(const CallHash &call) const;

    const MPI_Comm comm_;
    const int max_tag_;
};

}  // namespace cldist::cluster
