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

/// All processes of the job and their devices, as this process knows them. The only instance is
/// created at the program's first query for devices and is never destroyed.
class World {
public:
    /// Returns true if this process belongs to an MPI job, is simulated, or is a cluster by itself
    /// (CLDIST_CLUSTER=on). Does not call MPI, because mpirun's daemons may load OpenCL, too.
    static bool is_wanted();
    /// The first call joins the other processes and is collective. Throws an Error.
    static World &get() {
        World *const world = world_.load(std::memory_order_acquire);
        return world != nullptr ? *world : join();
    }

    /// Creates the instance for `job`, which must outlive the program. Only get() and, in place of
    /// its first call, tests call it. Throws an Error.
    static World &begin(Job &job);

    [[nodiscard]] const Agreement &agreement() const { return agreement_; }
    [[nodiscard]] bool alone() const { return agreement_.alone(); }
    [[nodiscard]] Process self() const { return agreement_.self(); }
    [[nodiscard]] Executor &executor() { return executor_; }
    /// This process's mode; replicated until it has joined the other processes.
    [[nodiscard]] static const HostMode &mode() {
        const World *const world = world_.load(std::memory_order_acquire);
        return world != nullptr ? world->executor_.mode() : host_mode_of(HostRole::replicated);
    }
    [[nodiscard]] CallLog &calls() { return calls_; }
    void confirm_calls() { job_.confirm_calls(); }  ///< see Job
    /// The devices that the program sees.
    [[nodiscard]] const std::vector<Ref<DeviceObject>> &devices() const { return found_.devices; }
    [[nodiscard]] std::uint64_t next_number() { return ++last_number_; }

    /// The weights by which launches on a single virtual device are distributed among its members.
    struct Shares {
        std::vector<double> first;  ///< the initial weights, by member
        bool adapts = false;        ///< the weights follow measurements
    };
    [[nodiscard]] const Shares &shares() const { return found_.shares; }

    // With a central host. "The host" is process 0, the only process that runs the program.

    /// In the host, under the lock: appends a call's record. Waits while the other processes are
    /// too far behind.
    void append(std::span<const std::byte> record);
    /// In the host, under the lock, after a build: registers the platform's end with atexit again.
    /// A compiler's first builds create static objects, which must not be destroyed before the
    /// platform's end, because that waits for other threads' builds.
    void note_build();
    /// In the host, under the lock: returns true in the thread that ends the program, whose calls
    /// the other processes no longer follow. In other threads, once the end has begun, releases the
    /// lock and blocks, because the process is about to exit. If it does not exit, throws an Error.
    [[nodiscard]] bool has_ended();
    /// In the other processes: waits for the next record. Returns the reader at its beginning, or
    /// at the rest of the current record.
    RecordReader &records() { return central_->records(); }
    /// The number that begins the record of the program's end.
    static constexpr std::uint64_t end_of_calls = 0;
    /// The same for a record by which the host makes the other processes forget a queue's user
    /// events. The queue's number follows. No OpenCL call has this number.
    static constexpr std::uint64_t user_events_over = 1000;
    /// In the host, under the lock: appends that record, unless the program's end has begun.
    void tell_user_events_over(std::uint64_t queue);

    [[nodiscard]] QueueId next_queue() { return next_queue_++; }

private:
    struct Found {
        std::vector<std::uint32_t> hosts;  ///< by process
        std::vector<Process> processes;    ///< by memory
        std::vector<MemoryTraits> memories;
        std::vector<Ref<DeviceObject>> devices;
        bool attaches = false;  ///< rank 0's CLDIST_ATTACH
        Shares shares;          ///< empty unless the program sees a single virtual device
    };

    /// What is counted for the account.
    struct Counters {
        explicit Counters(Job &job)
            : traffic(job.agreement().processes()), transport(job.transport(), traffic) {
            job.agreement().count(traffic);
        }
        const std::uint64_t begin_ns = now_ns();
        const std::clock_t begin_clock = std::clock();
        Traffic traffic;
        CountedTransport transport;
    };

    /// Carries the calls from the host to the other processes.
    class Central final : public HostLink {
    public:
        explicit Central(CallStream &stream);
        void give(unsigned kind, std::span<const std::byte> bytes) override;
        Given take() override;
        RecordReader &records();

        Recorder recorder;
        CallStream &stream;
        std::unordered_map<std::uint64_t, void *> numbers;  ///< objects_by_number of a follower
        std::atomic<std::thread::id> ended_by;  ///< the thread that runs end(); none before
        std::atomic<bool> is_over = false;      ///< end() has finished

    private:
        RecordReader reader_;
        RecordWriter writer_;
    };

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
    unsigned builds_ = 0;  ///< up to builds_that_make_objects; under the lock
    Job &job_;
    const Agreement &agreement_;
    const std::unique_ptr<Counters> counters_;  ///< null: messages are not counted
    const std::unique_ptr<Central> central_;    ///< null: every process runs the program
    Found found_;
    Schedule schedule_;
    Executor executor_;
    CallLog calls_;
    std::uint64_t last_number_ = 0;
    QueueId next_queue_ = 0;
};

}  // namespace cldist::cluster
