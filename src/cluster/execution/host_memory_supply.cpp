#include "cluster/execution/host_memory_supply.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>
#include <vector>

#include <CL/cl_ext_dist.h>

#include "cluster/execution/host_region.hpp"
#include "cluster/execution/operations.hpp"

namespace cldist::cluster {
namespace {

// Up to this many bytes are sent to all processes with the record of the call that reads them.
constexpr std::size_t most_with_record = 256;
// Kinds for HostLink::give(): how the bytes are sent.
enum Brought : unsigned { with_record, as_message };

/// Sends the program's memory, and then ends `sent`, also after a failure.
class HostMemorySend final : public Carried {
public:
    /// `pack` is called before the carrier starts.
    HostMemorySend(std::unique_ptr<Operation> carrier, std::function<void()> pack,
                   std::shared_ptr<Ending> sent, std::shared_ptr<const void> kept)
        : Carried(std::move(carrier)),
          pack_(std::move(pack)),
          sent_(std::move(sent)),
          kept_(std::move(kept)) {}
    ~HostMemorySend() override { sent_->set(CL_TRANSFER_ABANDONED); }

private:
    void before() override {
        if (pack_) pack_();
    }
    void after() override { sent_->set(CL_COMPLETE); }

    const std::function<void()> pack_;
    const std::shared_ptr<Ending> sent_;
    const std::shared_ptr<const void> kept_;
};

}  // namespace

Link HostMemorySupply::link_to(Process other) const {
    static const MemoryTraits host_memory{true, {}};
    const Topology &topology = schedule_.topology();
    return {.same_host = topology.host_of(other) == topology.host_of(self_),
            .sender = host_memory,
            .here = host_memory,
            .in_process = false,
            .sends_program_memory = true};
}

// The program's memory is in process 0. The program may change it until the command can begin,
// which requires that the program has set all earlier user events.
HostMemorySupply::Supply HostMemorySupply::bring(Enqueued &command, const Promise &before,
                                                 bool fails, bool is_here, NativeWaits &waits) {
    Supply supply;
    const Process owner = command.queue.device->process;
    const std::size_t size = command.source->shape.size();
    if (owner == 0 || size == 0) return supply;
    if (self_ == 0) {
        const auto after = both(both(before.incoming, command.behind), before.set);
        const bool is_small = size <= most_with_record && !is_open(after);
        std::array<std::byte, most_with_record> bytes;
        if (is_small) pack(command.source->shape, command.source->begin, 0, size, bytes.data());
        link_->give(is_small ? with_record : as_message,
                    std::span(bytes).first(is_small ? size : 0));
        if (!is_small)
            supply.sent =
                send(command, *schedule_.message_from_first(owner), after, before.set, fails);
        return supply;
    }
    const HostLink::Given given = link_->take();
    if (given.kind == as_message) {
        if (const auto message = schedule_.message_from_first(owner))
            receive(command, *message, supply, waits);
    } else if (is_here) {
        command.brought = own_memory(size);
        std::copy(given.bytes.begin(), given.bytes.end(), command.brought.get());
    }
    return supply;
}

// If the command fails first, its event promises nothing, and the program may have freed the
// memory. So nothing is read.
std::shared_ptr<Ending> HostMemorySupply::send(const Enqueued &command, const Message &message,
                                               const std::shared_ptr<Ending> &after,
                                               const std::shared_ptr<Ending> &set, bool fails) {
    const HostRegion source = *command.source;
    const std::size_t size = source.shape.size();
    std::shared_ptr<std::byte[]> packed;
    std::function<void()> pack_first;
    if (!source.shape.contiguous()) {
        packed = own_memory(size);
        pack_first = [source, size, to = packed.get()] {
            pack(source.shape, source.begin, 0, size, to);
        };
    }
    DeviceRange range{nullptr, {}, 0, size, packed != nullptr ? packed.get() : source.begin, {}};
    auto sent = std::make_shared<Ending>();
    auto kept =
        std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
            std::move(packed), command.kept);
    auto send = std::make_shared<std::unique_ptr<Operation>>(std::make_unique<HostMemorySend>(
        transport_.transfer(std::move(range), Direction::send, message, link_to(message.peer)),
        std::move(pack_first), sent, std::move(kept)));
    const cl_int failed = fails ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST : CL_COMPLETE;
    if (is_open(after))
        after->then([this, send, set, failed](cl_int) {
            ends_.submit_now(std::move(*send),
                             set != nullptr ? std::min(failed, set->status()) : failed);
        });
    else
        ends_.submit_now(std::move(*send), failed);
    return sent;
}

// start() starts the receive later.
void HostMemorySupply::receive(Enqueued &command, const Message &message, Supply &supply,
                               NativeWaits &waits) {
    const std::size_t size = command.source->shape.size();
    command.brought = brought_memory(command.queue, size);
    Space &space = *command.queue.space;
    auto bridge = std::make_unique<Bridge>(space.context.get());
    supply.arrival = bridge->user_visible_event();
    waits.add(Event::share(supply.arrival));
    keep_until(supply.arrival, command.brought);  // the command may fail earlier
    DeviceRange range{nullptr, {}, 0, size, command.brought.get(), {}};
    // No device is passed: the command itself reports a failure, so failure_policy must not apply.
    supply.receive = command_of(
        transport_.transfer(std::move(range), Direction::recv, message, link_to(message.peer)),
        std::move(bridge));
}

// Returns memory that counts in bytes_brought_ until it is freed.
std::shared_ptr<std::byte[]> HostMemorySupply::brought_memory(QueueObject &queue,
                                                              std::size_t size) {
    std::shared_ptr<std::byte[]> memory = memory_.memory_for(queue, size);
    *bytes_brought_ += size;
    std::byte *const bytes = memory.get();
    return {bytes, [memory = std::move(memory), size, all = bytes_brought_](std::byte *) mutable {
                memory.reset();
                *all -= size;
            }};
}

// The host sends bytes ahead, and they stay here until their command can run. Beyond a limit, they
// stay in the host: the receive starts when the command waits for nothing else.
void HostMemorySupply::start(Supply &supply, const QueueObject &queue, NativeWaits &waits,
                             bool fails) {
    if (supply.receive == nullptr) return;
    constexpr std::size_t most_brought_ahead = std::size_t{256} << 20U;
    std::vector<cl_event> others = waits.events();
    std::erase(others, supply.arrival);
    if (queue.in_order()) steps_.add_last(queue, *queue.space, others);
    if (*bytes_brought_ <= most_brought_ahead || fails || others.empty()) {
        transport_.progress_thread().submit(std::move(supply.receive), {});
        return;
    }
    auto receive = std::make_shared<std::unique_ptr<Command>>(std::move(supply.receive));
    ends_.ending_of_all(others)->then(
        [this, receive](cl_int) { transport_.progress_thread().submit(std::move(*receive), {}); });
}

}  // namespace cldist::cluster
