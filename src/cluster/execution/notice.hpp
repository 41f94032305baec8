#pragma once

#include <memory>
#include <utility>

#include <mpi.h>

#include "cluster/objects/ending.hpp"
#include "events/operation.hpp"

namespace cldist::cluster {

/// Ends `ending` with the status of its command's wait list. An operation that is destroyed before
/// its start ends it with CL_TRANSFER_ABANDONED.
class Notice final : public Operation {
public:
    explicit Notice(std::shared_ptr<Ending> ending)
        : Operation(std::make_shared<Record>(Direction::event, MPI_UNDEFINED, MPI_UNDEFINED,
                                             MPI_ANY_TAG, 0)),
          ending_(std::move(ending)) {}
    ~Notice() override { ending_->set(CL_TRANSFER_ABANDONED); }

    void start(const Status &gate) override { ending_->set(gate.code); }
    Progress poll() override { return Progress::done; }
    [[nodiscard]] bool bytes_in_flight() const override { return false; }

private:
    const std::shared_ptr<Ending> ending_;
};

}  // namespace cldist::cluster
