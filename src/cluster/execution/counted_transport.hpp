#pragma once

#include <memory>
#include <utility>

#include "cluster/execution/traffic.hpp"
#include "cluster/execution/transport.hpp"

namespace cldist::cluster {

/// Counts another transport's messages to and from other processes, when they are created.
class CountedTransport final : public Transport {
public:
    /// `carrier` and `traffic` must outlive this object.
    CountedTransport(Transport &carrier, Traffic &traffic) : carrier_(carrier), traffic_(traffic) {}

    std::unique_ptr<Operation> transfer(DeviceRange range, Direction direction,
                                        const Message &message, const Link &link) override {
        if (!link.in_process) count_data(direction, message.peer, range.size);
        return carrier_.transfer(std::move(range), direction, message, link);
    }
    Event transfer_by_kernel(const KernelMessage &message) override {
        Event event = carrier_.transfer_by_kernel(message);
        if (event) count_data(message.direction, message.message.peer, message.range.size);
        return event;
    }
    std::unique_ptr<Operation> send_status(const Message &message, TimesOfCommand times) override {
        traffic_.sent(message.peer, Carries::end, sizeof(EndMessage));
        return carrier_.send_status(message, std::move(times));
    }
    std::unique_ptr<Operation> receive_status(const Message &message,
                                              std::shared_ptr<Ending> ending) override {
        traffic_.received(message.peer, Carries::end, sizeof(EndMessage));
        return carrier_.receive_status(message, std::move(ending));
    }
    std::shared_ptr<ResultForward> forward(const Relay &relay, std::size_t size) override {
        return carrier_.forward(relay, size);
    }
    std::unique_ptr<Operation> relay(Result result, const Relay &relay,
                                     std::shared_ptr<Ending> ending, TimesOfCommand times,
                                     bool by_caller) override {
        const std::size_t bytes = result.size + (times ? sizeof(Times) : 0);
        if (relay.from) traffic_.received(relay.from->peer, Carries::result, bytes);
        for (const Message &to : relay.to) traffic_.sent(to.peer, Carries::result, bytes);
        return carrier_.relay(std::move(result), relay, std::move(ending), std::move(times),
                              by_caller);
    }
    [[nodiscard]] bool reaches_itself() const override { return carrier_.reaches_itself(); }
    ProgressThread &progress_thread() override { return carrier_.progress_thread(); }
    void drive(Command &command) override { carrier_.drive(command); }

private:
    void count_data(Direction direction, Process peer, std::size_t size) {
        if (direction == Direction::send)
            traffic_.sent(peer, Carries::data, size);
        else
            traffic_.received(peer, Carries::data, size);
    }

    Transport &carrier_;
    Traffic &traffic_;
};

}  // namespace cldist::cluster
