#include "cluster/world/host_memory_transfer.hpp"

#include <cstring>
#include <utility>

#include <CL/cl.h>
#include <fmt/format.h>

#include "base/log.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "pipeline/file_endpoint.hpp"

namespace cldist::cluster {
namespace {

/// Process 0 sends the address of the bytes, or 0 if its command failed. The receiver copies the
/// bytes, and then answers with one byte.
class HostMemoryTransfer final : public Operation {
public:
    HostMemoryTransfer(DeviceRange range, Direction direction, Wire wire,
                       const HostMemoryReach &reach, MessageDriver &driver)
        : Operation(record_of(direction, wire, range.size)),
          range_(std::move(range)),
          sends_(direction == Direction::send),
          wire_(wire),
          reach_(reach),
          driver_(driver) {}

    void woken_by(const Waker &waker) override { waker_ = waker; }
    void start(const Status &gate) override {
        if (!gate.ok()) fail(gate);
        if (sends_) {
            address_.send(gate.ok() ? reinterpret_cast<std::uint64_t>(range_.mapped) : 0, wire_,
                          driver_, waker_);
            copied_.receive(wire_of_answer(), driver_, waker_);
        } else {
            address_.receive(wire_, driver_, waker_);
        }
    }
    Progress poll() override {
        if (!address_.done()) return Progress::idle;
        if (!sends_ && !answered_ && !answer()) return Progress::idle;
        if (!copied_.done()) return Progress::idle;
        for (const int error : {address_.error(), copied_.error()})
            if (error != MPI_SUCCESS) fail(mpi_failure(error, "MPI_Isend or MPI_Irecv"));
        if (status().ok()) record()->moved(range_.size);
        return Progress::done;
    }
    [[nodiscard]] bool wakes() const override { return bool(waker_); }
    [[nodiscard]] bool bytes_in_flight() const override { return false; }

private:
    [[nodiscard]] Wire wire_of_answer() const { return {reach_.comm(), wire_.rank, wire_.tag}; }
    /// In the receiver: copies, then answers. Returns false while the copy runs.
    bool answer() {
        if (address_.content() == 0)
            fail(Status::failure(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
                                 "the command failed in rank 0"));
        if (status().ok()) {
            const Outcome copied = copy_.poll(reach_, wire_.rank, address_.content(), range_.mapped,
                                              range_.size, false, waker_);
            if (!copied) return false;
            if (!copied->ok()) fail(*copied);
        }
        copied_.send(1, wire_of_answer(), driver_, waker_);
        return answered_ = true;
    }

    const DeviceRange range_;
    const bool sends_;
    const Wire wire_;
    const HostMemoryReach &reach_;
    MessageDriver &driver_;
    Waker waker_;
    ObjectMessage<std::uint64_t> address_;
    ObjectMessage<char> copied_;
    bool answered_ = false;
    OwnCopy copy_;
};

}  // namespace

Outcome OwnCopy::poll(const HostMemoryReach &reach, int rank, std::uint64_t address,
                      std::byte *here, std::size_t size, bool writes, const Waker &waker) {
    if (state_ == nullptr) {
        state_ = std::make_shared<State>();
        io_threads().run([&reach, rank, address, here, size, writes, waker, state = state_] {
            state->error = reach.copy(rank, address, here, size, writes);
            state->over = true;
            if (waker) waker();
        });
    }
    if (!state_->over) return std::nullopt;
    if (state_->error == 0) return Status{};
    auto failure = Status::failure(
        CL_OUT_OF_RESOURCES,
        fmt::format("cannot {} {} bytes of the program's memory in rank {} ({}), so "
                    "the command fails; the memory must be valid, and other "
                    "processes must be allowed to access it",
                    writes ? "write" : "read", size, rank, std::strerror(state_->error)));
    log_error("{}", failure.message);
    return failure;
}

std::unique_ptr<Operation> make_host_memory_transfer(DeviceRange range, Direction direction,
                                                     const Wire &wire, const HostMemoryReach &reach,
                                                     MessageDriver &driver) {
    return std::make_unique<HostMemoryTransfer>(std::move(range), direction, wire, reach, driver);
}

}  // namespace cldist::cluster
