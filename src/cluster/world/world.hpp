#pragma once

#include <atomic>
#include <ctime>
#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "cluster/calls/call_log.hpp"
#include "cluster/execution/counted_transport.hpp"
#include "cluster/execution/executor.hpp"
#include "cluster/objects/device.hpp"
#include "cluster/schedule/schedule.hpp"
#include "cluster/world/job.hpp"

namespace cldist::cluster {

/// All processes of the job and their devices, as this one knows them. There is one, from the program's first question
/// about devices to its end.
class World {
public:
    /// Whether this process is one of an MPI job, or was told to be a cluster by itself (CLDIST_CLUSTER=on). Asks MPI
    /// nothing: programs that load OpenCL, mpirun's own among them, must not be disturbed.
    static bool is_wanted();
    /// Joins the other processes at the first call; collective then. Throws an Error.
    static World &get() {
        World *const world = world_.load(std::memory_order_acquire);
        return world != nullptr ? *world : join();
    }

    /// Joins the processes of another job than get() would, which must outlive the program; before get(). Throws an Error.
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
    [[nodiscard]] QueueId next_queue() { return next_queue_++; }

private:
    struct Found {
        std::vector<std::uint32_t> hosts;  // of each process
        std::vector<Process> processes;    // of each memory
        std::vector<MemoryTraits> memories;
        std::vector<Ref<DeviceObject>> devices;
        bool attaches = false;  // rank 0's CLDIST_ATTACH
    };

    struct Counters {
        explicit Counters(Job &job) : traffic(job.agreement().processes()), transport(job.transport(), traffic) {
            job.agreement().count(traffic);
        }
        Traffic traffic;
        CountedTransport transport;
    };

    explicit World(Job &job);
    static World &join();
    void write_account(std::uint64_t calls) const;
    static Found find_devices(Job &job);
    void end();

    static inline std::atomic<World *> world_ = nullptr;

    const std::uint64_t begin_ns_ = now_ns();
    const std::clock_t begin_clock_ = std::clock();
    Job &job_;
    const Agreement &agreement_;
    const std::unique_ptr<Counters> counters_;  // null: nobody counts
    Found found_;
    Schedule schedule_;
    Executor executor_;
    CallLog calls_;
    std::uint64_t last_number_ = 0;
    QueueId next_queue_ = 0;
};

}  // namespace cldist::cluster
