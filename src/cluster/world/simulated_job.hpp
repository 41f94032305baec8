#pragma once

#include <thread>

#include "base/config.hpp"
#include "cluster/world/job.hpp"

namespace cldist::cluster {

/// Returns this process's data as that of the absent processes.
class AbsentOthers final : public Agreement {
public:
    using Agreement::Agreement;
    [[nodiscard]] bool speaks_for(Process) const override { return true; }

protected:
    void send(const CallHash &, std::span<const Process>, const Blob &) const override {}
    [[nodiscard]] Blob receive(const CallHash &, Process, Blob expected) const override {
        return expected;
    }
};

/// Transfers nothing. Sent data is dropped, received data is zeros, and remote commands succeed.
class NoTransport final : public Transport {
public:
    NoTransport();

    std::unique_ptr<Operation> transfer(DeviceRange range, Direction direction,
                                        const Message &message, const Link &link) override;
    std::unique_ptr<Operation> send_status(const Message &message, TimesOfCommand times) override;
    std::unique_ptr<Operation> receive_status(const Message &message,
                                              std::shared_ptr<Ending> ending) override;
    std::unique_ptr<Operation> relay(Result result, const Relay &relay,
                                     std::shared_ptr<Ending> ending, TimesOfCommand times,
                                     bool by_caller) override;
    [[nodiscard]] bool reaches_itself() const override { return false; }
    ProgressThread &progress_thread() override { return progress_thread_; }
    void drive(Command &command) override;

private:
    ProgressThread &progress_thread_;
};

/// Counts a central host's records and drops them.
class DroppedCalls final : public CallStream {
public:
    explicit DroppedCalls(Process processes) : tree_(0, processes) {}

    void begin(Recorder &recorder) override;
    void finish() override;
    std::span<const std::byte> next() override { return {}; }  // never called

private:
    const CallTree tree_;
    std::thread thread_;
};

/// Simulates one process of many, without MPI. The other processes are absent. Their devices are
/// assumed to be identical to this process's.
class SimulatedJob final : public Job {
public:
    explicit SimulatedJob(const Simulation &simulation);

    Agreement &agreement() override { return agreement_; }
    Transport &transport() override { return transport_; }
    [[nodiscard]] Place place_of(Process process) const override;
    CallStream &call_stream() override;

private:
    const Simulation simulation_;
    AbsentOthers agreement_;
    NoTransport transport_;
    DroppedCalls calls_;
};

}  // namespace cldist::cluster
