#include "mpi_interop/adopted_requests.hpp"

#include <algorithm>
#include <cstdint>

#include "base/clock.hpp"
#include "mpi_interop/own_yields.hpp"

namespace cldist {
namespace {

// A test that moves no bytes takes half a microsecond, or a few microseconds if MPI queries
// sockets. A longer test has moved bytes.
constexpr std::uint64_t working_ns = 20'000;

// Returns true if the request is done or MPI was busy.
bool test(AdoptedRequest &r) {
    const std::uint64_t begin = now_ns();
    int done = 0;
    r.error = test_without_yield(r.request, done, &r.status);
    r.done = done != 0 || r.error != MPI_SUCCESS;
    return r.done || now_ns() - begin > working_ns;
}

}  // namespace

bool AdoptedRequests::poll() {
    bool moved = false;
    for (std::size_t i = std::min(per_round, pending_.size()); i != 0; --i) {
        if (next_ >= pending_.size()) next_ = 0;
        moved |= test(*pending_[next_]);
        if (pending_[next_]->done) {
            if (const Waker &waker = pending_[next_]->waker) waker();
            pending_[next_] = pending_.back();
            pending_.pop_back();
        } else {
            ++next_;
        }
    }
    return moved;
}

}  // namespace cldist
