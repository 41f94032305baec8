#include "cluster/world/result_forward.hpp"

#include <algorithm>
#include <utility>

namespace cldist::cluster {
namespace {

class AddressReceive final : public Operation {
public:
    AddressReceive(std::shared_ptr<ResultTargets> targets, MessageDriver &driver)
        : Operation(record_of(Direction::recv, targets->all().front()->wire,
                              sizeof(ResultTarget::address))),
          targets_(std::move(targets)),
          driver_(driver) {}

    void woken_by(const Waker &waker) override { waker_ = waker; }
    void start(const Status &) override {
        for (const auto &target : targets_->all()) {
            target->ticket.waker = &waker_;
            driver_.receive(&target->address, sizeof target->address, target->wire.rank,
                            target->wire.tag, targets_->comm(), target->ticket);
        }
    }
    Progress poll() override {
        bool all = true;
        for (const auto &target : targets_->all()) {
            if (target->ticket.done && target->ticket.error == MPI_SUCCESS) target->known = true;
            all = all && target->ticket.done;
        }
        return all ? Progress::done : Progress::idle;
    }
    [[nodiscard]] bool wakes() const override {
        return waker_ && std::ranges::none_of(targets_->all(), [](const auto &target) {
                   return target->ticket.done && !target->known;
               });
    }
    [[nodiscard]] bool bytes_in_flight() const override { return true; }

private:
    const std::shared_ptr<ResultTargets> targets_;
    MessageDriver &driver_;
    Waker waker_;
};

}  // namespace

void ResultTargets::copy(std::size_t offset, std::byte *from, std::size_t size) {
    for (const auto &target : targets_)
        if (target->known &&
            reach_.copy_alone(target->wire.rank, target->address + offset, from, size, true) == 0)
            target->copied += size;
}

std::unique_ptr<Operation> make_address_receive(std::shared_ptr<ResultTargets> targets,
                                                MessageDriver &driver) {
    return std::make_unique<AddressReceive>(std::move(targets), driver);
}

}  // namespace cldist::cluster
