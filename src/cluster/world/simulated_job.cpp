#include "cluster/world/simulated_job.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "pipeline/file_operation.hpp"

namespace cldist::cluster {
namespace {

/// Calls `end` with the status of its wait list and ends with this status.
class AtOnce final : public Operation {
public:
    AtOnce(Direction direction, const Message &message, std::size_t bytes,
           std::function<void(cl_int status)> end)
        : Operation(std::make_shared<Record>(direction, static_cast<int>(message.peer),
                                             static_cast<int>(message.peer), 0, bytes)),
          end_(std::move(end)) {}

    void start(const Status &gate) override {
        if (!gate.ok()) fail(gate);
        end_(gate.code);
    }
    Progress poll() override { return Progress::done; }
    [[nodiscard]] bool bytes_in_flight() const override { return false; }

private:
    const std::function<void(cl_int)> end_;
};

/// Fills a range of a buffer with zeros.
class Zeros final : public Operation {
public:
    Zeros(DeviceRange range, const Message &message)
        : Operation(std::make_shared<Record>(Direction::recv, static_cast<int>(message.peer),
                                             static_cast<int>(message.peer), 0, range.size)),
          range_(std::move(range)) {}

    void start(const Status &gate) override {
        if (!gate.ok()) {
            fail(gate);
        } else if (range_.mapped != nullptr) {
            std::memset(range_.mapped, 0, range_.size);
        } else {
            attempt([&] {
                zeros_.resize(range_.size);
                start_write(command_.emplace(), range_, 0, range_.size, zeros_.data(), false);
            });
        }
    }
    Progress poll() override {
        if (!command_ || !status().ok()) return Progress::done;
        const Outcome outcome = command_->ended();
        if (!outcome) return Progress::idle;
        if (!outcome->ok()) fail(*outcome);
        return Progress::done;
    }
    [[nodiscard]] bool bytes_in_flight() const override { return command_.has_value(); }

private:
    const DeviceRange range_;
    std::vector<std::byte> zeros_;
    std::optional<DeviceCommand> command_;
};

// An absent process's command takes no time.
Times times_now() {
    Times times;
    times.fill(now_ns());
    return times;
}

}  // namespace

NoTransport::NoTransport() : progress_thread_(file_progress_thread()) {}

std::unique_ptr<Operation> NoTransport::transfer(DeviceRange range, Direction direction,
                                                 const Message &message, const Link &) {
    if (direction == Direction::recv) return std::make_unique<Zeros>(std::move(range), message);
    return std::make_unique<AtOnce>(direction, message, range.size, [](cl_int) {});
}

std::unique_ptr<Operation> NoTransport::send_status(const Message &message, TimesOfCommand) {
    return std::make_unique<AtOnce>(Direction::send, message, sizeof(EndMessage), [](cl_int) {});
}

std::unique_ptr<Operation> NoTransport::receive_status(const Message &message,
                                                       std::shared_ptr<Ending> ending) {
    return std::make_unique<AtOnce>(Direction::recv, message, sizeof(EndMessage),
                                    [=](cl_int) { ending->set(CL_COMPLETE, times_now()); });
}

std::unique_ptr<Operation> NoTransport::relay(Result result, const Relay &relay,
                                              std::shared_ptr<Ending> ending, TimesOfCommand times,
                                              bool) {
    const bool comes = relay.from.has_value();
    const Message message = relay.from.value_or(Message{});
    const Direction direction = comes ? Direction::recv : Direction::send;
    const std::size_t bytes = result.size;
    return std::make_unique<AtOnce>(direction, message, bytes,
                                    [=, result = std::move(result)](cl_int status) {
                                        if (comes) std::memset(result.data, 0, result.size);
                                        if (status == CL_COMPLETE && result.arrived)
                                            result.arrived();
                                        Times of_command{};
                                        if (status == CL_COMPLETE && times)
                                            of_command = *times ? (*times)() : times_now();
                                        ending->set(status, of_command);
                                    });
}

void NoTransport::drive(Command &command) {
    Wakeup wakeup;
    cldist::drive(command, wakeup);
}

void DroppedCalls::begin(Recorder &recorder) {
    thread_ = std::thread([this, &recorder] {
        std::vector<std::byte> records;
        for (bool more = true; more;) {
            records.clear();
            more = recorder.wait_and_take(records);
            if (records.empty() || traffic_ == nullptr) continue;
            for (const Process child : tree_.children)
                traffic_->sent(child, Carries::calls, records.size());
        }
    });
}

void DroppedCalls::finish() {
    if (thread_.joinable()) thread_.join();
}

SimulatedJob::SimulatedJob(const Simulation &simulation)
    : simulation_(simulation),
      agreement_(simulation.rank, simulation.processes),
      calls_(simulation.processes) {
    set_log_rank(static_cast<int>(simulation.rank));
}

CallStream &SimulatedJob::call_stream() {
    if (simulation_.rank != 0)
        throw Error(CL_INVALID_OPERATION,
                    fmt::format("CLDIST_SIMULATE simulates rank {}, but with "
                                "CLDIST_HOST_MODE=central it can only simulate rank 0",
                                simulation_.rank));
    return calls_;
}

Job::Place SimulatedJob::place_of(Process process) const {
    const Process host = process / simulation_.per_host;
    const Process first = host * simulation_.per_host;
    return {host, process - first, std::min(simulation_.per_host, simulation_.processes - first)};
}

}  // namespace cldist::cluster
