#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cluster/execution/host_copies.hpp"
#include "cluster/execution/host_link.hpp"
#include "cluster/execution/steps.hpp"
#include "cluster/execution/transport.hpp"
#include "cluster/objects/event.hpp"
#include "cluster/objects/memory.hpp"
#include "cluster/objects/queue.hpp"
#include "cluster/schedule/schedule.hpp"

namespace cldist::cluster {

/// A box within the program's memory: `region` is in bytes, rows and slices.
struct HostRegion {
    std::byte *begin;
    std::array<std::size_t, 3> region;
    std::size_t row_pitch;
    std::size_t slice_pitch;

    [[nodiscard]] std::size_t size() const { return region[0] * region[1] * region[2]; }
    [[nodiscard]] bool has_gaps() const;
    [[nodiscard]] std::size_t size_with_gaps() const {
        return (region[2] - 1) * slice_pitch + (region[1] - 1) * row_pitch + region[0];
    }
};
/// Contiguous bytes.
inline HostRegion plain_region(const void *begin, std::size_t size) {
    return {static_cast<std::byte *>(const_cast<void *>(begin)), {size, 1, 1}, size, size};
}

/// A command as the program enqueues it.
struct Enqueued {
    QueueObject &queue;
    cl_command_type type;
    std::span<const Access> accesses;
    std::span<EventObject *const> wait_list;
    Result result{};        ///< has no bytes if the command has no result
    bool blocking = false;  ///< the caller will wait_for_result()
    bool reads_host_memory = false;
    /// The program's memory that the command reads, if it must be sent to the device's process. A process without the program
    /// ignores `begin`.
    std::optional<HostRegion> source{};
    /// The same bytes without gaps in this process, present when the command begins; null if they were not sent here.
    std::shared_ptr<std::byte[]> brought{};
    /// A promised ending that the native command must wait for; null if there is none.
    std::shared_ptr<Ending> behind{};
    /// Page-locked memory for all bytes of the copy; null if the copy does not use it.
    std::shared_ptr<std::byte[]> staging{};
    /// Whether the bytes are copied in blocks through page-locked memory.
    bool in_blocks = false;
    /// Keeps the program's memory alive until the command has ended; null if the program does this.
    std::shared_ptr<const void> kept{};
    /// Whether this is a part of a command on a lane of an aggregate queue. Then the schedule knows its bytes already (begin_parts()).
    bool is_part = false;
    /// The command fails, because bytes that it reads did not arrive.
    bool lacks_input = false;
    /// The wait list of the whole command; `wait_list` contains its events for this lane.
    std::span<EventObject *const> whole_wait_list{};
};

/// How many commands were enqueued.
struct Commands {
    std::uint64_t actual = 0;  ///< on this process's devices
    std::uint64_t others = 0;
    std::uint64_t aside = 0;  ///< commands of both kinds whose calls are not numbered (CallLog::record_aside)
};

/// A range of a native buffer, in bytes.
struct NativeRange {
    cl_mem buffer;
    std::size_t offset;
    std::size_t size;
};

/// The last three arguments of a native command.
struct Waits {
    cl_uint count;
    const cl_event *events;
    cl_event *event;
};

/// Enqueues a native marker that waits only for these events, or for none. PoCL 3.1's markers in out-of-order queues wait for all
/// earlier commands; other drivers' markers do so without events.
cl_int enqueue_marker_behind(const QueueObject &queue, const Waits &waits);

/// Executes the schedule's decisions in this process: moves bytes, enqueues native commands after their dependencies, and notifies
/// other processes. Requires the lock.
class Executor final : public MemoryKeeper, public QueueKeeper, public SpaceKeeper {
public:
    /// `self` is this process; `memories` is indexed by memory numbers. All referenced objects must outlive the executor.
    /// `link` is null unless there is a central host.
    Executor(Schedule &schedule, Process self, Transport &transport, const std::vector<MemoryTraits> &memories,
             HostLink *link = nullptr);

    /// Calls `native(command, waits)` if the command runs in this process. `native` returns OpenCL's code, and may set the result's
    /// address. Returns the command's event, or null if nobody needs it. If the native platform rejects the command, run() throws
    /// an Error in a single process; with several processes the event fails.
    template <typename Native>
    Ref<EventObject> run(Enqueued &&command, bool event_wanted, Native &&native) {
        prepare(command);
        if (native_ && !poisoned_) {
            const auto count = static_cast<cl_uint>(waits_.size());
            const auto held = command.queue.context->is_careful() ? hold_failures() : FailureLock();
            try {
                code_ = native(command, Waits{count, count != 0 ? waits_.data() : nullptr,
                                              needs_event(command, event_wanted) ? native_event_.out() : nullptr});
            } catch (const Error &error) {
                code_ = error.status().code;
            }
        }
        return finish(command, event_wanted);
    }

    /// Returns the program's event of a command on another process's device that this process leaves out.
    EventObject *event_of_left_out(QueueObject &queue, cl_command_type type);
    void note_aside() { ++commands_.aside; }
    /// Starts the transfers for the parts of a split launch (Schedule::begin_parts()). The caller then runs those of this process and
    /// keeps the lock until it has. Returns the memories that will lack what their parts read, because a transfer has failed.
    std::vector<MemoryId> begin_parts(std::span<const CommandPart> parts, std::span<const BufferId> buffers,
                                      KnownParts &known, const OpenUserEvents &behind);
    /// Returns markers to wait for before the next command of the queue is enqueued, if the program is far ahead of the device.
    std::vector<Event> markers_to_wait_for(QueueObject &queue);
    [[nodiscard]] Schedule &schedule() { return schedule_; }
    /// Returns true if there is one memory and no other process. Then no bytes move, and commands need no order that the program did
    /// not ask for, except on the lanes of one queue.
    [[nodiscard]] bool decides_nothing(const ContextObject &context) const {
        return alone() && context.spaces.size() == 1 && (!context.aggregate || context.devices.size() == 1);
    }

    /// Returns where this process first stores the bytes that a command of the queue reads into the program's memory, which may have
    /// gaps.
    [[nodiscard]] Result result_in(const HostRegion &host, const QueueObject &queue) const;
    /// Decides how a read or write of a buffer's range copies its bytes to or from the program's memory. Call it before run().
    void stage(Enqueued &command, const void *memory, std::size_t size);
    /// Enqueues such a command natively: for run().
    cl_int read(Enqueued &command, const NativeRange &range, std::byte *to, const Waits &waits);
    cl_int write(Enqueued &command, const NativeRange &range, const std::byte *from, const Waits &waits);
    [[nodiscard]] HostCopies &copies() { return copies_; }
    [[nodiscard]] Transport &transport() { return transport_; }
    [[nodiscard]] const Commands &commands() const { return commands_; }
    /// Gives a mapping of the queue memory of the library with a guard behind it. For a buffer, the memory is page-locked if possible.
    void give_memory(QueueObject &queue, MemObject &object, Mapped &mapped);

    /// Moves the bytes of a root buffer to the device's memory, and keeps them there until detach() (Schedule::attach).
    void attach(MemObject &buffer, MemoryId device);
    void detach(MemObject &buffer);

    /// Registers a new root memory object; forget() ends that.
    void know(MemObject &object, Contents contents);
    void forget(MemObject &object) override;
    /// Forgets a queue that ends.
    void forget(QueueObject &queue) override;
    /// Forgets a space without objects.
    void forget(Space &space) override;

    /// Ends `ending` as the native event ends.
    void end_with(cl_event native, std::shared_ptr<Ending> ending);
    /// Ends as the event does, in this process. The event is known here.
    const std::shared_ptr<Ending> &ending_of(EventObject &event);

    /// Has all processes in which the program runs know the event's end. To be called by all.
    void tell_hosts(EventObject &event);
    /// With a central host, of the native marker that is a clFinish: rank 0 gets its end when all commands of the queue have ended.
    /// A marker of a queue out of order may fail before, with the first of them that does.
    void tell_host_of_finish(EventObject &marker);

    /// So many parts of a command are other processes'.
    void count_others(std::size_t parts) { commands_.others += parts; }

    /// Counts from now on what is kept of memory objects.
    void count_memory() { counts_memory_ = true; }

    /// The program has ended: waits until all that this process does for others has been done. Not under the lock.
    void finish_all();
    /// The progress thread has ended with MPI. The program's static objects may still make calls.
    void outlive_progress_thread() { progress_thread_is_over_ = true; }

    [[nodiscard]] const Topology &topology() const { return schedule_.topology(); }
    /// Process 0 alone runs the program: this one, or another.
    [[nodiscard]] bool is_host() const { return link_ != nullptr && self_ == 0; }
    [[nodiscard]] bool follows() const { return link_ != nullptr && self_ != 0; }
    /// Which device has the contents that the program gives a new object of the context; null if all have.
    [[nodiscard]] const DeviceObject *first_holder(const ContextObject &context) const;

    /// Whether there is no other process.
    [[nodiscard]] bool alone() const { return schedule_.topology().processes() == 1; }

private:
    /// A user event for an ending that has no native event in a space.
    struct StandIn {
        std::shared_ptr<Ending> ending;
        Event event;
    };

    Event marker_to_wait_for(QueueObject &queue);
    cl_int copy_in_blocks(Enqueued &command, const NativeRange &range, std::byte *memory, Direction direction,
                          const Waits &waits);
    void note_host_memory(const Enqueued &command);
    void warn_of_unseen(const MemObject &object) const;
    void keep_step(const Enqueued &command, bool failed);
    cl_event native_in(EventObject &event, Space &space);
    std::shared_ptr<Ending> ending_of_all(std::span<const cl_event> events);
    void wait_for_one(const Enqueued &command);
    void tell_all(EventObject &event);
    void tell_first(EventObject &event);
    void bring_host_memory(Enqueued &command);
    void send_host_memory(const Enqueued &command, const Message &message, const std::shared_ptr<Ending> &after,
                          const std::shared_ptr<Ending> &set);
    void receive_host_memory(Enqueued &command, const Message &message);
    void start_receive(const QueueObject &queue);
    std::shared_ptr<std::byte[]> brought_memory(std::size_t size);
    [[nodiscard]] Link link_between_hosts(Process other) const;
    void prepare(Enqueued &command);
    void decide(const Enqueued &command);
    Ref<EventObject> finish(Enqueued &command, bool event_wanted);
    void start(const Transfer &transfer);
    void start_message(const Transfer &transfer, MemObject &object);
    [[nodiscard]] Event copy_packed(const Transfer &transfer, MemObject &object, Space &space,
                                    const std::shared_ptr<const QueueInfo> &queue,
                                    const std::shared_ptr<std::byte[]> &memory, bool reads,
                                    std::span<const cl_event> waits);
    void start_packed_message(const Transfer &transfer, MemObject &object);
    void tell_all_of_joint(EventObject &event);
    /// One end of a message, which waits for its start.
    struct ChannelEnd {
        DeviceRange range;
        std::unique_ptr<Bridge> bridge;
        cl_device_id device;
        ProgressThread::StartRule rule;
    };
    ChannelEnd make_end(const Transfer &transfer, MemObject &object, Direction direction);
    void start_channel(ChannelEnd end, Direction direction, const Message &message, const Link &link);
    void start_copy(const Transfer &transfer, MemObject &object);
    void start_staged_copy(const Transfer &transfer, MemObject &object);
    void send_completion(EventObject &event, const Message &message);
    std::shared_ptr<Ending> pass_result(Enqueued &command, EventObject &event, const std::shared_ptr<Ending> &earlier);
    Promise promise(const Enqueued &command, Promise own);
    /// Returns true if a command without a result leaves the promises of the queue's ends as they are.
    [[nodiscard]] bool adds_nothing(const Enqueued &command) const {
        return promised_.empty() && command.behind == nullptr && command.type != CL_COMMAND_BARRIER;
    }
    [[nodiscard]] Promise promised_before(const Enqueued &command) const;
    void wait_natively(const std::shared_ptr<Ending> &ending, Space &space);
    [[nodiscard]] bool is_expected(std::span<const std::byte> memory) const;
    bool keep_open(std::span<const std::byte> memory, const std::shared_ptr<Ending> &landed);
    void submit(std::unique_ptr<Operation> operation, cl_event after);
    void submit_now(std::unique_ptr<Operation> operation, cl_int status);
    [[nodiscard]] bool needs_event(const Enqueued &command, bool event_wanted) const {
        const bool copied = command.staging != nullptr || command.in_blocks || command.brought != nullptr ||
                            command.kept != nullptr || is_tracked(command) || is_read_here(command);
        return event_wanted || copied ||
               (decisions_ != nullptr &&
                (!command.queue.in_order() || !decisions_->result.to.empty() || command.queue.context->is_careful()));
    }
    /// Whether a native command stores a result in the program's pageable memory.
    [[nodiscard]] bool is_tracked(const Enqueued &command) const {
        if (is_host() && command.result.size > 0) return true;
        return copies_possible_ && command.staging == nullptr && command.result.size > 0 &&
               !copies_.is_page_locked(command.result.data, command.result.size);
    }
    /// Whether the result reaches the program's memory after the native command has ended.
    [[nodiscard]] bool lands(const Enqueued &command) const {
        return native_ && command.result.size > 0 && (command.staging != nullptr || command.result.arrived != nullptr);
    }
    /// Whether a process reads bytes that all devices have. Results of other processes may reach the same memory before or after.
    [[nodiscard]] bool is_read_here(const Enqueued &command) const {
        return !alone() && command.is_part && command.result.size > 0;
    }
    /// Whether ends may have promises.
    [[nodiscard]] bool promises() const { return copies_possible_ || !alone(); }
    [[nodiscard]] Link link(const Transfer &transfer, Direction direction) const;

    Schedule &schedule_;
    const Process self_;
    Transport &transport_;
    const std::vector<MemoryTraits> &memories_;
    std::vector<MemObject *> objects_;  // by id
    std::uint64_t copies_between_ = 0;  // between memories of this process
    Steps steps_;
    std::atomic<bool> progress_thread_is_over_ = false;
    const bool polls_;  ///< some device here is no CPU device: see ProgressThread::StartRule
    const bool copies_possible_;
    std::atomic<unsigned> finishing_ = 0;  ///< threads in clFinish
    HostCopies copies_;
    HostLink *const link_;
    /// Bytes of the program's memory that this process holds or expects for commands that have not run.
    const std::shared_ptr<std::atomic<std::size_t>> bytes_brought_ = std::make_shared<std::atomic<std::size_t>>(0);

    Commands commands_;
    bool counts_memory_ = false;

    // State of the command that is being enqueued.
    const Decisions *decisions_ = nullptr;  // null if there is nothing to decide
    bool native_ = false;
    bool poisoned_ = false;  // an event that it waits for has failed already
    cl_int code_ = CL_SUCCESS;
    std::vector<cl_event> waits_;
    std::unique_ptr<Command> receive_;  // receives the program's memory and ends waits_.front(); or null
    std::vector<StandIn> once_enqueued_;
    std::vector<ScheduledEvent *> scheduled_;
    std::vector<Event> passing_;           // made by wait_natively() and wait_for_one()
    std::vector<Promise> promised_;        // by the wait list
    std::shared_ptr<Ending> incoming_;     // earlier results that are promised to the program's memory
    std::shared_ptr<Ending> source_sent_;  // ends when the program's memory has been sent to the device's process
    Event native_event_;
    std::shared_ptr<const Times> own_times_;  // as in EventObject
    OpenUserEvents user_events_;              // the command waits for them
    unsigned since_forgetting_ = 0;

    // The program's memory that expects results of other processes, by address.
    struct Landing {
        const std::byte *end;
        std::shared_ptr<Ending> landed;
    };
    std::multimap<const std::byte *, Landing> landings_;
    std::size_t longest_landing_ = 0;
    std::size_t tidy_landings_at_ = 64;
};

}  // namespace cldist::cluster
