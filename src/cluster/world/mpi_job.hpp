#pragma once

#include <memory>

#include <mpi.h>

#include "cluster/world/divergence_watch.hpp"
#include "cluster/world/job.hpp"
#include "cluster/world/mpi_agreement.hpp"
#include "cluster/world/mpi_transport.hpp"

namespace cldist::cluster {

/// The processes of MPI_COMM_WORLD.
class MpiJob final : public Job {
public:
    /// Initialises MPI, unless the program has; collective. Throws an Error.
    MpiJob();

    Agreement &agreement() override { return agreement_; }
    Transport &transport() override { return transport_; }
    [[nodiscard]] Place place_of(Process process) const override;
    CallStream &call_stream() override;
    void compare(CallLog &calls) override;
    void confirm_calls() override {
        if (watch_ != nullptr) watch_->confirm();
    }
    void finish_comparison() override { watch_->finish(); }
    /// Finalises MPI, unless the program has done so or is doing so.
    void end() override;
    /// If the program has initialised MPI, `end` is called at the start of MPI_Finalize.
    static void call_at_finalize(void (*end)());

private:
    MpiAgreement agreement_;
    const MPI_Comm comm_;  ///< only for the transport's messages; other users duplicate it
    MpiTransport transport_;
    std::unique_ptr<DivergenceWatch> watch_;
    std::unique_ptr<CallStream> stream_;
};

}  // namespace cldist::cluster
