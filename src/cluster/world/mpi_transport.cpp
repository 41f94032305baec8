#include "cluster/world/mpi_transport.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "cluster/execution/operations.hpp"
#include "cluster/world/channel_transfer.hpp"
#include "cluster/world/host_memory_transfer.hpp"
#include "cluster/world/kernel_transfer.hpp"
#include "cluster/world/message_tag.hpp"
#include "cluster/world/relay_operation.hpp"
#include "cluster/world/require_mpi.hpp"
#include "cluster/world/result_forward.hpp"
#include "cluster/world/send_turn.hpp"
#include "mpi_interop/mpi_status.hpp"

namespace cldist::cluster {
namespace {

Wire wire_of(const Runtime &runtime, MPI_Comm comm, const Message &message, Content content,
             std::size_t size) {
    return {comm, static_cast<int>(message.peer),
            message_tag(runtime.max_tag(), message.number, content, size)};
}

class StatusSend final : public Operation {
public:
    StatusSend(Wire wire, TimesOfCommand times, MessageDriver &driver)
        : Operation(record_of(Direction::send, wire, sizeof end_)),
          wire_(wire),
          times_(std::move(times)),
          driver_(driver) {}

    void woken_by(const Waker &waker) override {
        waker_ = waker;
        ticket_.waker = &waker_;
    }
    void start(const Status &gate) override {
        end_.code = gate.code;
        if (gate.ok() && times_ && *times_) end_.times = (*times_)();
        send();
    }
    Progress poll() override {
        if (turn_.waits() && !send()) return Progress::idle;
        if (!ticket_.done) return Progress::idle;
        if (ticket_.error != MPI_SUCCESS) fail(mpi_failure(ticket_.error, "MPI_Isend"));
        return Progress::done;
    }
    [[nodiscard]] bool wakes() const override { return waker_ && !ticket_.done; }
    [[nodiscard]] bool bytes_in_flight() const override { return true; }

private:
    bool send() {
        if (!turn_.take(waker_)) return false;
        driver_.send(&end_, sizeof end_, wire_.rank, wire_.tag, wire_.comm, ticket_);
        return true;
    }

    const Wire wire_;
    const TimesOfCommand times_;
    MessageDriver &driver_;
    EndMessage end_;
    Waker waker_;
    SendTurn turn_;
    MessageTicket ticket_;
};

class StatusReceive final : public Operation {
public:
    StatusReceive(Wire wire, std::shared_ptr<Ending> ending, MessageDriver &driver)
        : Operation(record_of(Direction::recv, wire, sizeof end_)),
          wire_(wire),
          ending_(std::move(ending)),
          driver_(driver) {}
    ~StatusReceive() override { ending_->set(CL_TRANSFER_ABANDONED); }

    void woken_by(const Waker &waker) override {
        waker_ = waker;
        ticket_.waker = &waker_;
    }
    void start(const Status &) override {
        driver_.receive(&end_, sizeof end_, wire_.rank, wire_.tag, wire_.comm, ticket_);
    }
    Progress poll() override {
        if (!ticket_.done) return Progress::idle;
        const bool whole = ticket_.bytes == sizeof end_ && end_.code <= CL_COMPLETE;
        if (ticket_.error != MPI_SUCCESS || !whole) {
            fail(ticket_.error != MPI_SUCCESS
                     ? mpi_failure(ticket_.error, "MPI_Irecv")
                     : Status::failure(CL_MPI_ERROR,
                                       "an unexpected message arrived; do all hosts have the same "
                                       "version of cldist?"));
            end_.code = CL_MPI_ERROR;
        }
        ending_->set(end_.code, end_.times);
        return Progress::done;
    }
    [[nodiscard]] bool wakes() const override { return waker_ && !ticket_.done; }
    [[nodiscard]] bool bytes_in_flight() const override { return false; }

private:
    const Wire wire_;
    const std::shared_ptr<Ending> ending_;
    MessageDriver &driver_;
    EndMessage end_;
    Waker waker_;
    MessageTicket ticket_;
};

}  // namespace

MpiTransport::MpiTransport(std::shared_ptr<Runtime> runtime, MPI_Comm comm)
    : runtime_(std::move(runtime)), comm_(comm) {}

void MpiTransport::drive(Command &command) { cldist::drive(command, caller_driver()); }

std::unique_ptr<Operation> MpiTransport::transfer(DeviceRange range, Direction direction,
                                                  const Message &message, const Link &link) {
    require_mpi();
    const Wire wire = wire_of(*runtime_, comm_, message, Content::data, range.size);
    if (link.sends_program_memory && reach_ != nullptr &&
        reach_->has(static_cast<int>(message.peer), range.size))
        return make_host_memory_transfer(std::move(range), direction, wire, *reach_,
                                         runtime_->progress_driver());
    return make_channel_transfer(std::move(range), direction, wire, link,
                                 *runtime_->communicators().links(), runtime_->progress_driver());
}

static_assert(most_bytes_by_kernel == DeviceLinks::most_bytes);

Event MpiTransport::transfer_by_kernel(const KernelMessage &message) {
    require_mpi();
    const DeviceRange &range = message.range;
    const Wire wire = wire_of(*runtime_, comm_, message.message, Content::data, range.size);
    HostLinks &rings = *runtime_->communicators().links();
    const std::shared_ptr<DeviceLinks> &links = rings.devices();
    if (!links->connected(wire.rank, range.resources)) return {};
    const auto copy = [&range] {
        return DeviceRange{
            range.resources, Mem::share(range.buffer.get()), range.offset, range.size, nullptr, {}};
    };
    KernelEnd end{copy(), message.queue, message.wait_list, wire};
    MessageDriver &driver = runtime_->progress_driver();
    if (message.direction == Direction::send)
        return send_by_kernel(std::move(end), links, driver, progress_thread());
    Link link = message.link;
    link.by_kernels = false;
    return receive_by_kernel(
        std::move(end), links, driver, progress_thread(),
        make_channel_transfer(copy(), message.direction, wire, link, rings, driver));
}

std::unique_ptr<Operation> MpiTransport::send_status(const Message &message, TimesOfCommand times) {
    require_mpi();
    return std::make_unique<StatusSend>(wire_of(*runtime_, comm_, message, Content::status, 0),
                                        std::move(times), runtime_->progress_driver());
}

std::unique_ptr<Operation> MpiTransport::receive_status(const Message &message,
                                                        std::shared_ptr<Ending> ending) {
    require_mpi();
    return std::make_unique<StatusReceive>(wire_of(*runtime_, comm_, message, Content::status, 0),
                                           std::move(ending), runtime_->progress_driver());
}

std::shared_ptr<ResultForward> MpiTransport::forward(const Relay &relay, std::size_t size) {
    require_mpi();
    const auto reached = [&](const Message &message) {
        return reach_ != nullptr && reach_->has(static_cast<int>(message.peer), size);
    };
    if (!std::ranges::all_of(relay.to, reached)) return nullptr;
    auto targets = std::make_shared<ResultTargets>(*reach_);
    for (const Message &message : relay.to)
        targets->add(wire_of(*runtime_, comm_, message, Content::result, size));
    progress_thread().submit(command_of(make_address_receive(targets, runtime_->progress_driver())),
                             {});
    return targets;
}

std::unique_ptr<Operation> MpiTransport::relay(Result result, const Relay &relay,
                                               std::shared_ptr<Ending> ending, TimesOfCommand times,
                                               bool by_caller) {
    require_mpi();
    const auto wire = [&](const Message &message) {
        return wire_of(*runtime_, comm_, message, Content::result, result.size);
    };
    const Wire from = relay.from ? wire(*relay.from) : Wire{MPI_COMM_NULL, 0, 0};
    std::vector<Wire> to;
    for (const Message &message : relay.to) to.push_back(wire(message));
    return make_relay(std::move(result), from, to, std::move(ending), std::move(times),
                      reach_.get(), by_caller ? caller_driver() : runtime_->progress_driver());
}

}  // namespace cldist::cluster
