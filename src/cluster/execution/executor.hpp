#pragma once

#include <span>
#include <utility>
#include <vector>

#include "cluster/execution/command_ends.hpp"
#include "cluster/execution/command_run.hpp"
#include "cluster/execution/enqueued.hpp"
#include "cluster/execution/host_link.hpp"
#include "cluster/execution/host_memory_supply.hpp"
#include "cluster/execution/host_mode.hpp"
#include "cluster/execution/memory_objects.hpp"
#include "cluster/execution/program_memory.hpp"
#include "cluster/execution/steps.hpp"
#include "cluster/execution/throttle.hpp"
#include "cluster/execution/transfers.hpp"
#include "cluster/execution/transport.hpp"
#include "cluster/schedule/schedule.hpp"

namespace cldist::cluster {

/// Numbers of enqueued commands.
struct Commands {
    std::uint64_t local = 0;   ///< on this process's devices
    std::uint64_t remote = 0;  ///< on other processes' devices
    /// Commands of both kinds whose calls are not numbered (CallLog::record_aside).
    std::uint64_t aside = 0;
};

/// Executes the schedule's decisions in this process: moves bytes, enqueues native commands after
/// their dependencies, and notifies other processes. Requires the lock.
class Executor final : public Keeper<QueueObject>, public Keeper<Space> {
public:
    /// `self` is this process; `memories` is indexed by memory numbers. All referenced objects must
    /// outlive the executor. `link` is null unless there is a central host.
    Executor(Schedule &schedule, Process self, Transport &transport,
             const std::vector<MemoryTraits> &memories, const HostMode &mode, HostLink *link);

    /// Enqueues a command. If its device is in this process, calls `native(command, waits)`, which
    /// enqueues it natively, returns OpenCL's error code, and may set the result's address. Returns
    /// the command's event, or null if none is needed. If the driver rejects the command, run()
    /// throws an Error in a job of one process; otherwise the event fails.
    template <typename Native>
    Ref<EventObject> run(Enqueued &&command, bool event_wanted, Native &&native) {
        CommandRun run(*this, command);
        run.prepare();
        run.call(event_wanted, std::forward<Native>(native));
        return run.finish(event_wanted);
    }

    /// Returns the program's event for a command that this process skips, because the command
    /// concerns only other processes' devices. The caller owns the reference.
    EventObject *event_of_left_out(QueueObject &queue, cl_command_type type);
    void note_aside() { ++commands_.aside; }
    /// Starts the transfers for the sub-ranges of a split launch (Schedule::begin_parts()). The
    /// caller must keep the lock until it has run this process's sub-ranges.
    void begin_parts(std::span<const CommandPart> parts, std::span<const BufferId> buffers,
                     KnownParts &known, const OpenUserEvents &behind);
    /// Removes steps that have ended, once every few calls.
    void forget_ended();

    /// Moves a root buffer's bytes to the device's memory until detach() (Schedule::attach()).
    void attach(MemObject &buffer, MemoryId device);
    void detach(MemObject &buffer);

    void forget(QueueObject &queue) override;
    void forget(Space &space) override;

    [[nodiscard]] const Commands &commands() const { return commands_; }
    /// Counts a command of the queue. `native`: its device is this process's.
    void count(QueueObject &queue, bool native);
    /// Counts sub-ranges of a command that run in other processes.
    void count_remote(std::size_t parts) { commands_.remote += parts; }

    /// Called when the program has ended. Waits until this process has done everything that other
    /// processes need from it. Not under the lock.
    void finish_all();

    [[nodiscard]] Schedule &schedule() { return schedule_; }
    [[nodiscard]] const Topology &topology() const { return schedule_.topology(); }
    [[nodiscard]] Transport &transport() { return transport_; }
    [[nodiscard]] MemoryObjects &objects() { return objects_; }
    [[nodiscard]] CommandEnds &ends() { return ends_; }
    [[nodiscard]] Steps &steps() { return steps_; }
    [[nodiscard]] Throttle &throttle() { return throttle_; }
    [[nodiscard]] Transfers &transfers() { return transfers_; }
    [[nodiscard]] ProgramMemory &memory() { return memory_; }
    [[nodiscard]] HostMemorySupply &supply() { return supply_; }

    [[nodiscard]] const HostMode &mode() const { return mode_; }
    /// Whether there is no other process.
    [[nodiscard]] bool alone() const { return schedule_.topology().processes() == 1; }
    /// Whether the ends of commands may promise results (Promise).
    [[nodiscard]] bool promises(const ContextObject &context) const {
        return memory_.copies_possible() || !alone() ||
               (context.aggregate && context.spaces.size() > 1);
    }
    /// Returns true if the context has one memory and there is no other process. Then no bytes
    /// move, and the program's own order of commands suffices, except between lanes.
    [[nodiscard]] bool decides_nothing(const ContextObject &context) const {
        return alone() && context.spaces.size() == 1 &&
               (!context.aggregate || context.devices.size() == 1);
    }

private:
    Schedule &schedule_;
    Transport &transport_;
    const HostMode &mode_;
    MemoryObjects objects_;
    CommandEnds ends_;
    Steps steps_;
    Throttle throttle_;
    Transfers transfers_;
    ProgramMemory memory_;
    HostMemorySupply supply_;
    Commands commands_;
    unsigned since_forgetting_ = 0;
};

}  // namespace cldist::cluster
