#include "message_transfers.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include <CL/cl_ext_dist.h>

#include "ceiling_points.hpp"
#include "ocl/query.hpp"

namespace cldist::tool {
namespace {

constexpr int tag = 1;

// In seconds. A slower transfer is limited by the network, so warming up is unnecessary.
constexpr double longest_warming = 0.03;
constexpr std::chrono::microseconds longest_pause{3000};

void send(const DeviceEnd &end, cl_mem buffer, std::size_t size, int peer) {
    cl_event event = nullptr;
    check(clEnqueueSendBuffer(end.queue(), buffer, CL_FALSE, 0, size, peer, tag, MPI_COMM_WORLD, 0,
                              nullptr, &event),
          "clEnqueueSendBuffer");
    finish(event, "clEnqueueSendBuffer");
}

void receive(const DeviceEnd &end, std::size_t size, int peer) {
    cl_event event = nullptr;
    check(clEnqueueRecvBuffer(end.queue(), end.in(), CL_FALSE, 0, size, peer, tag, MPI_COMM_WORLD,
                              0, nullptr, &event),
          "clEnqueueRecvBuffer");
    finish(event, "clEnqueueRecvBuffer");
}

void plain_ping_pong(std::vector<std::byte> &memory, std::size_t size, unsigned count, int peer,
                     bool first, MPI_Comm comm) {
    const int bytes = static_cast<int>(size);
    for (unsigned i = 0; i < count; ++i) {
        if (first) MPI_Send(memory.data(), bytes, MPI_BYTE, peer, tag, comm);
        MPI_Recv(memory.data(), bytes, MPI_BYTE, peer, tag, comm, MPI_STATUS_IGNORE);
        if (!first) MPI_Send(memory.data(), bytes, MPI_BYTE, peer, tag, comm);
    }
}

Order next_order(MPI_Comm orders) {
    Order order;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(&order, sizeof order, MPI_BYTE, 0, tag, orders, &request);
    int done = 0;
    // Other ranks may be measuring a route, so this wait must not occupy a core.
    std::chrono::microseconds pause{50};
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); done == 0;
         MPI_Test(&request, &done, MPI_STATUS_IGNORE)) {
        std::this_thread::sleep_for(pause);
        pause = std::min(pause + pause / 32, longest_pause);
    }
    return order;
}

}  // namespace

void MessageTransfers::order(const Order &order) const {
    MPI_Send(&order, sizeof order, MPI_BYTE, partner_, tag, orders_);
    // The partner's reply shows that it is ready.
    MPI_Recv(nullptr, 0, MPI_BYTE, partner_, tag, orders_, MPI_STATUS_IGNORE);
}

double MessageTransfers::ping_pongs(const Way &way, std::size_t size, unsigned count) const {
    order({Order::What::ping_pong, route_, way, size, count});
    const double start = now_seconds();
    for (unsigned i = 0; i < count; ++i) {
        send(end_, end_.out(), size, partner_);
        receive(end_, size, partner_);
    }
    return (now_seconds() - start) / count / 2;
}

double MessageTransfers::seconds(const Way &way, std::size_t size, unsigned count) {
    end_.take_way(route_, way);
    // The first transfer allocates the page-locked memory of this way.
    const double first = ping_pongs(way, size, 1);
    return first > longest_warming ? first : ping_pongs(way, size, count);
}

bool MessageTransfers::arrives(const Way &way, std::size_t size) {
    order({Order::What::clear, route_, way, size, 0});
    end_.clear_in(size);
    end_.take_way(route_, way);
    static_cast<void>(ping_pongs(way, size, 1));
    return end_.pattern_is_in(size);
}

std::vector<Curve::Point> MessageTransfers::plain(std::size_t largest) const {
    std::vector<std::byte> memory(largest);
    return ceiling_points(1024, largest, [&](std::size_t size) {
        const unsigned count = size < 65536 ? 20 : 1;
        order({Order::What::plain, route_, {}, size, count});
        const double start = now_seconds();
        plain_ping_pong(memory, size, count, partner_, true, orders_);
        return (now_seconds() - start) / count / 2;
    });
}

void serve(const DeviceEnd &end, MPI_Comm orders) {
    std::vector<std::byte> memory;
    for (;;) {
        const Order order = next_order(orders);
        if (order.what == Order::What::clear) end.clear_in(order.size);
        if (order.what == Order::What::ping_pong) end.take_way(order.route, order.way);
        memory.resize(std::max(memory.size(), order.what == Order::What::plain ? order.size : 0));
        MPI_Send(nullptr, 0, MPI_BYTE, 0, tag, orders);
        if (order.what == Order::What::end) return;
        if (order.what == Order::What::plain)
            plain_ping_pong(memory, order.size, order.count, 0, false, orders);
        for (unsigned i = 0; order.what == Order::What::ping_pong && i < order.count; ++i) {
            receive(end, order.size, 0);
            send(end, end.in(), order.size, 0);
        }
    }
}

}  // namespace cldist::tool
