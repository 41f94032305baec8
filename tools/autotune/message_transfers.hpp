#pragma once

#include <mpi.h>

#include "device_end.hpp"
#include "measure.hpp"

namespace cldist::tool {

/// A request that rank 0 sends to its partner.
struct Order {
    enum class What : int { ping_pong, clear, plain, end } what = What::end;
    Route route = Route::same_host;
    Way way{};
    std::size_t size = 0;
    unsigned count = 0;
};

/// Messages between this rank, which is rank 0, and a partner that runs serve().
class MessageTransfers final : public Transfers {
public:
    /// Orders are sent on `orders`, a communicator of the tool with the ranks of MPI_COMM_WORLD.
    MessageTransfers(const DeviceEnd &end, Route route, int partner, MPI_Comm orders)
        : end_(end), route_(route), partner_(partner), orders_(orders) {}
    double seconds(const Way &way, std::size_t size, unsigned count) override;
    bool arrives(const Way &way, std::size_t size) override;

    /// Ends the partner's serve(). Must be the last call. Not for use after a failure, because the
    /// partner may not receive the order.
    void let_go() const { order({}); }

    /// The times of plain MPI messages between host memory.
    [[nodiscard]] std::vector<Curve::Point> plain(std::size_t largest) const;

private:
    void order(const Order &order) const;
    [[nodiscard]] double ping_pongs(const Way &way, std::size_t size, unsigned count) const;

    const DeviceEnd &end_;
    const Route route_;
    const int partner_;
    const MPI_Comm orders_;
};

/// Executes rank 0's orders until it ends the service. Uses no CPU time while it waits.
void serve(const DeviceEnd &end, MPI_Comm orders);

}  // namespace cldist::tool
