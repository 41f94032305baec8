#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>

#include "cluster/execution/transport.hpp"
#include "cluster/world/host_memory_reach.hpp"
#include "cluster/world/host_memory_transfer.hpp"
#include "mpi_interop/message_driver.hpp"

namespace cldist::cluster {

/// The memory of another process for a result. That process sends its address when the memory may
/// be written.
struct ResultTarget {
    explicit ResultTarget(const Wire &wire_in) : wire(wire_in) {}

    const Wire wire;  ///< of the result; the address has another communicator
    std::uint64_t address = 0;
    MessageTicket ticket{};               ///< of the address
    std::atomic<bool> known = false;      ///< the address has arrived; for other threads
    std::atomic<std::size_t> copied = 0;  ///< bytes
};

/// Copies a result's blocks to the targets whose addresses have arrived.
class ResultTargets final : public ResultForward {
public:
    explicit ResultTargets(const HostMemoryReach &reach) : reach_(reach) {}

    void add(const Wire &wire) { targets_.push_back(std::make_shared<ResultTarget>(wire)); }
    [[nodiscard]] const auto &all() const { return targets_; }
    /// The communicator for the addresses.
    [[nodiscard]] MPI_Comm comm() const { return reach_.comm(); }
    void copy(std::size_t offset, std::byte *from, std::size_t size) override;

private:
    const HostMemoryReach &reach_;
    std::list<std::shared_ptr<ResultTarget>> targets_;
};

/// Creates the operation that receives the addresses of the targets.
std::unique_ptr<Operation> make_address_receive(std::shared_ptr<ResultTargets> targets,
                                                MessageDriver &driver);

}  // namespace cldist::cluster
