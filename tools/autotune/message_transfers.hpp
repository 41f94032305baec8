#pragma once

#include <mpi.h>

#include "device_end.hpp"
#include "measure.hpp"

namespace cldist::tool {

/// What rank 0 wants its partner to do.
struct Order {
    enum class What : int { ping_pong, clear, plain, end } what = What::end;
    Route route = Route::same_host;
    Way way{};
    std::size_t size = 0;
    unsigned count = 0;
};

/// Messages between this rank, 0, and another, which serves.
class MessageTransfers final : public Transfers {
public:
    /// Orders go over `orders`, a communicator of the tool's own with the ranks of MPI_COMM_WORLD.
    MessageTransfers(const DeviceEnd &end, Route route, int partner, MPI_Comm orders)
        : end_(end), route_(route), partner_(partner), orders_(orders) {}
    double seconds(const Way &way, std::size_t size, unsigned count) override;
    bool arrives(const Way &way, std::size_t size) override;

    /// Lets the partner go; nothing else may follow. After a failure the partner may not listen.
    void let_go() const { order({}); }

    /// MPI alone, between host memory.
    [[nodiscard]] std::vector<Curve::Point> plain(std::size_t largest) const;

private:
    void order(const Order &order) const;
    [[nodiscard]] double ping_pongs(const Way &way, std::size_t size, unsigned count) const;

    const DeviceEnd &end_;
    const Route route_;
    const int partner_;
    const MPI_Comm orders_;
};

/// Does what rank 0 orders, until that lets it go. Takes no processor time while there is nothing to do.
void serve(const DeviceEnd &end, MPI_Comm orders);

}  // namespace cldist::tool
