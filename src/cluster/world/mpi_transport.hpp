#pragma once

#include <memory>

#include <mpi.h>

#include "cluster/execution/transport.hpp"
#include "cluster/world/host_memory_reach.hpp"
#include "mpi_interop/runtime.hpp"

namespace cldist::cluster {

/// Uses MPI. Both ends know a message's size and number and derive its tag from them, so most
/// messages need no header.
class MpiTransport final : public Transport {
public:
    /// `comm` is only for these messages.
    MpiTransport(std::shared_ptr<Runtime> runtime, MPI_Comm comm);
    /// From now on, processes on the same machine copy results of `least` bytes or more, and the
    /// program's memory in process 0, directly between their memories. Only the first call counts.
    /// Collective.
    void reach_host_memory(std::size_t least) {
        if (reach_ != nullptr) return;
        reach_ = std::make_unique<HostMemoryReach>(comm_, runtime_->communicators().host(), least);
    }

    std::unique_ptr<Operation> transfer(DeviceRange range, Direction direction,
                                        const Message &message, const Link &link) override;
    Event transfer_by_kernel(const KernelMessage &message) override;
    std::unique_ptr<Operation> send_status(const Message &message, TimesOfCommand times) override;
    std::unique_ptr<Operation> receive_status(const Message &message,
                                              std::shared_ptr<Ending> ending) override;
    std::shared_ptr<ResultForward> forward(const Relay &relay, std::size_t size) override;
    std::unique_ptr<Operation> relay(Result result, const Relay &relay,
                                     std::shared_ptr<Ending> ending, TimesOfCommand times,
                                     bool by_caller) override;

    ProgressThread &progress_thread() override { return runtime_->progress_thread(); }
    void drive(Command &command) override;

private:
    const std::shared_ptr<Runtime> runtime_;
    const MPI_Comm comm_;
    std::unique_ptr<HostMemoryReach> reach_;  ///< null if all copies are messages
};

}  // namespace cldist::cluster
