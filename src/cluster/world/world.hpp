#pragma once

#include <atomic>
#include <ctime>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "cluster/calls/call_log.hpp"
#include "cluster/calls/recorder.hpp"
#include "cluster/execution/counted_transport.hpp"
#include "cluster/execution/executor.hpp"
#include "cluster/execution/host_link.hpp"
#include "cluster/objects/device.hpp"
#include "cluster/schedule/schedule.hpp"
#include "cluster/world/job.hpp"

namespace cldist::cluster {

/// All processes of the job and their devices, as this one knows them. There is one, from the
/// program's first question about devices to its end.
class World {
public:
    /// Whether this process is one of an MPI job, or a cluster by itself (CLDIST_CLUSTER=on). Does
    /// not call MPI: programs that load OpenCL, among them mpirun's daemons, must not be disturbed.
    static bool is_wanted();
    /// Joins the other processes at the first call; collective then. Throws an Error.
    static World &get() {
        World *const world = world_.load(std::memory_order_acquire);
        return world != nullptr ? *world : join();
    }

    /// Joins the processes of another job than get() would, which must outlive the program; before
    /// get(). Throws an Error.
    static World &begin(Job &job);

    [[nodiscard]] const Agreement &agreement() const { return agreement_; }
    [[nodiscard]] bool alone() const { return agreement_.alone(); }
    [[nodiscard]] Process self() const { return agreement_.self(); }
    [[nodiscard]] Schedule &schedule() { return schedule_; }
    [[nodiscard]] Executor &executor() { return executor_; }
    [[nodiscard]] CallLog &calls() { return calls_; }
    /// That the program sees.
    [[nodiscard]] const std::vector<Ref<DeviceObject>> &devices() const { return found_.devices; }
    [[nodiscard]] std::uint64_t next_number() { return ++last_number_; }

    /// The shares of the members of an aggregate device in its launches. If `adapts`, they change
    /// with measurements.
    struct Shares {
        std::vector<double> first;
        bool adapts = false;
    };
    [[nodiscard]] const Shares &shares() const { return found_.shares; }

    /// In the host: puts a call's record behind those before. Waits while the others are slower.
    /// Under the lock.
    void append(std::span<const std::byte> record);
    /// In the host: a compiler has run. The static objects that it makes when it first runs would
    /// go before the platform's end, which waits for other threads' builds: the end is registered
    /// again, behind them.
    void note_build();
    /// In the host, under the lock: whether the program has ended. Then the thread that ends it
    /// calls this process alone. Calls of others do not return, and leave the lock: the process is
    /// about to end. Where it does not, they throw an Error.
    [[nodiscard]] bool has_ended();
    /// In the others: where the next record, or the rest of the current one, is. Waits for it.
    RecordReader &records() { return central_->records(); }
    /// The record of the program's end.
    static constexpr std::uint64_t end_of_calls = 0;
    /// That of a queue whose user events the host forgets, followed by the queue's number. No call
    /// has this one.
    static constexpr std::uint64_t user_events_over = 1000;
    /// In the host: appends that record. Under the lock.
    void tell_user_events_over(std::uint64_t queue);

    [[nodiscard]] QueueId next_queue() { return next_queue_++; }

private:
    struct Found {
        std::vector<std::uint32_t> hosts;  // of each process
        std::vector<Process> processes;    // of each memory
        std::vector<MemoryTraits> memories;
        std::vector<Ref<DeviceObject>> devices;
        bool attaches = false;  // rank 0's CLDIST_ATTACH
        Shares shares;          // none unless the program sees an aggregate device
    };

    struct Counters {
        explicit Counters(Job &job)
            : traffic(job.agreement().processes()), transport(job.transport(), traffic) {
            job.agreement().count(traffic);
        }
        Traffic traffic;
        CountedTransport transport;
    };

    /// The calls' way between the host and the others.
    class Central final : public HostLink {
    public:
        explicit Central(CallStream &stream);
        void give(unsigned kind, std::span<const std::byte> bytes) override;
        Given take() override;
        RecordReader &records();

        Recorder recorder;
        CallStream &stream;
        std::unordered_map<std::uint64_t, void *> numbers;
        std::atomic<std::thread::id> ended_by;  // none: no thread
        std::atomic<bool> is_over = false;      // no other process is there any more

    private:
        RecordReader reader_;
        RecordWriter writer_;
    };

    /// Whether the program runs in process 0 alone, which is the host; the others follow its calls
    /// (docs/dev/decisions/0035). Never of a process alone.
    [[nodiscard]] bool is_central() const { return central_ != nullptr; }
    [[nodiscard]] bool is_host() const { return role() == HostRole::central; }
    [[nodiscard]] HostRole role() const {
        return central_ == nullptr ? HostRole::replicated
               : self() == 0       ? HostRole::central
                                   : HostRole::follower;
    }
    explicit World(Job &job);
    static World &join();
    void write_account(std::uint64_t calls) const;
    static Found find_devices(Job &job);
    [[nodiscard]] std::unique_ptr<Central> begin_central();
    void register_end();
    static void end_without_exit();
    void end();
    void end_calls();
    static void wait_for_calls();

    static inline std::atomic<World *> world_ = nullptr;

    bool end_has_begun_ = false;
    unsigned builds_ = 0;  ///< under the lock
    const std::uint64_t begin_ns_ = now_ns();
    const std::clock_t begin_clock_ = std::clock();
    Job &job_;
    const Agreement &agreement_;
    const std::unique_ptr<Counters> counters_;  // null: nobody counts
    const std::unique_ptr<Central> central_;    // null: every process runs the program
    Found found_;
    Schedule schedule_;
    Executor executor_;
    CallLog calls_;
    std::uint64_t last_number_ = 0;
    QueueId next_queue_ = 0;
};

}  // namespace cldist::cluster
