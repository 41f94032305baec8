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
/// Bytes behind each other.
inline HostRegion plain_region(const void *begin, std::size_t size) {
    return {static_cast<std::byte *>(const_cast<void *>(begin)), {size, 1, 1}, size, size};
}

/// A command as the program enqueues it.
struct Enqueued {
    QueueObject &queue;
    cl_command_type type;
    std::span<const Access> accesses;
    std::span<EventObject *const> wait_list;
    Result result{};        ///< of no bytes if the command has none
    bool blocking = false;  ///< the caller will wait_for_result()
    bool reads_host_memory = false;
    /// What it reads of it, where that has to be brought to the device's process; `begin` means nothing where there is no program.
    std::optional<HostRegion> source{};
    /// The bytes, without gaps, once they were brought here, or will have been when the command begins; null where they weren't.
    std::shared_ptr<std::byte[]> brought{};
    /// What must have ended first natively, and is promised; null if there is nothing.
    std::shared_ptr<Ending> behind{};
    /// Page-locked memory through which its bytes go as a whole; null if they don't.
    std::shared_ptr<std::byte[]> staging{};
    /// They go through such memory in blocks.
    bool in_blocks = false;
    /// What keeps the program's memory that it uses until it has ended; null if that is the program's affair.
    std::shared_ptr<const void> kept{};
    /// One of the parts of a command on a lane of an aggregate queue, for whose bytes account has been kept: begin_parts() and others.
    bool is_part = false;
    /// What it reads has not come: it fails.
    bool lacks_input = false;
    /// The wait list of that command: `wait_list` has what it says of this lane.
    std::span<EventObject *const> whole_wait_list{};
};

/// How many commands were enqueued.
struct Commands {
    std::uint64_t actual = 0;  ///< of this process's devices
    std::uint64_t others = 0;
    std::uint64_t aside = 0;  ///< of both, those whose calls are not numbered (CallLog::record_aside)
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

/// Natively a marker that waits for these events alone, none perhaps. PoCL's (3.1) wait for all commands before them in queues that
/// are out of order, as do others' without events.
cl_int enqueue_marker_behind(const QueueObject &queue, const Waits &waits);

/// Puts the schedule's decisions into effect in this process: moves bytes, enqueues native commands behind what they wait
/// for, tells other processes. Under the lock.
class Executor final : public MemoryKeeper, public QueueKeeper, public SpaceKeeper {
public:
    /// Of the process `self`; `memories` by their numbers. All that it gets by reference must outlive it.
    /// `link` is null unless there is a central host.
    Executor(Schedule &schedule, Process self, Transport &transport, const std::vector<MemoryTraits> &memories,
             HostLink *link = nullptr);

    /// Calls `native(command, waits)` if the command is this process's; it returns OpenCL's code, and may set where the
    /// result is. Returns the command's event, null if nobody wants it. Throws an Error if the native platform refuses the
    /// command and there is no other process; else the event fails.
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

    /// The event, the program's, of a command of another process's device that this process leaves out.
    EventObject *event_of_left_out(QueueObject &queue, cl_command_type type);
    void note_aside() { ++commands_.aside; }
    /// Starts the transfers for the parts of a split launch (Schedule::begin_parts()). The caller then runs those of this process and
    /// keeps the lock until it has. Returns the memories that will lack what their parts read, because a transfer has failed.
    std::vector<MemoryId> begin_parts(std::span<const CommandPart> parts, std::span<const BufferId> buffers,
                                      KnownParts &known, const OpenUserEvents &behind);
    /// What the next command of the queue should wait for before it is enqueued: the program is far ahead of the device.
    std::vector<Event> markers_to_wait_for(QueueObject &queue);
    [[nodiscard]] Schedule &schedule() { return schedule_; }
    /// With one memory and no other process nothing has to move, and commands that the program left unordered may stay so; but
    /// not those of the lanes of one queue.
    [[nodiscard]] bool decides_nothing(const ContextObject &context) const {
        return alone() && context.spaces.size() == 1 && (!context.aggregate || context.devices.size() == 1);
    }

    /// What a command of the queue reads into the program's memory, which has gaps or not: where it comes to first, in this process.
    [[nodiscard]] Result result_in(const HostRegion &host, const QueueObject &queue) const;
    /// Decides how the bytes of a read or a write of a range of a buffer go from or to the program's memory. Before run().
    void stage(Enqueued &command, const void *memory, std::size_t size);
    /// Enqueues such a command natively: for run().
    cl_int read(Enqueued &command, const NativeRange &range, std::byte *to, const Waits &waits);
    cl_int write(Enqueued &command, const NativeRange &range, const std::byte *from, const Waits &waits);
    [[nodiscard]] HostCopies &copies() { return copies_; }
    [[nodiscard]] Transport &transport() { return transport_; }
    [[nodiscard]] const Commands &commands() const { return commands_; }
    /// Memory of the library's for a mapping by the queue, with a guard behind it: of a buffer page-locked, if there is such.
    void give_memory(QueueObject &queue, MemObject &object, Mapped &mapped);

    /// The buffer's bytes go to the device's memory, and stay there (Schedule::attach); until detach(). Of a root.
    void attach(MemObject &buffer, MemoryId device);
    void detach(MemObject &buffer);

    /// A root memory object begins and ends.
    void know(MemObject &object, Contents contents);
    void forget(MemObject &object) override;
    /// A queue ends.
    void forget(QueueObject &queue) override;
    /// So does a space, of which no object is left.
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

    /// No other process is there.
    [[nodiscard]] bool alone() const { return schedule_.topology().processes() == 1; }

private:
    /// A user event that stands for what has no native event in a space.
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
    /// Without a result, what the queue's ends promise stays as it is.
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
    /// A result that a native command brings to pageable memory of the program's.
    [[nodiscard]] bool is_tracked(const Enqueued &command) const {
        if (is_host() && command.result.size > 0) return true;
        return copies_possible_ && command.staging == nullptr && command.result.size > 0 &&
               !copies_.is_page_locked(command.result.data, command.result.size);
    }
    /// Its result is in the program's memory later than its native command has ended.
    [[nodiscard]] bool lands(const Enqueued &command) const {
        return native_ && command.result.size > 0 && (command.staging != nullptr || command.result.arrived != nullptr);
    }
    /// A process's own read of what all devices have: others' results may come to the same memory before or behind it.
    [[nodiscard]] bool is_read_here(const Enqueued &command) const {
        return !alone() && command.is_part && command.result.size > 0;
    }
    /// Whether ends may promise something.
    [[nodiscard]] bool promises() const { return copies_possible_ || !alone(); }
    [[nodiscard]] Link link(const Transfer &transfer, Direction direction) const;

    Schedule &schedule_;
    const Process self_;
    Transport &transport_;
    const std::vector<MemoryTraits> &memories_;
    std::vector<MemObject *> objects_;  // by id
    std::uint64_t copies_between_ = 0;  // memories of this process, so far
    Steps steps_;
    std::atomic<bool> progress_thread_is_over_ = false;
    const bool polls_;  ///< some device here is no CPU device: see ProgressThread::StartRule
    const bool copies_possible_;
    std::atomic<unsigned> finishing_ = 0;  ///< threads in clFinish
    HostCopies copies_;
    HostLink *const link_;
    /// Bytes of the program's memory that are here, or to come, for commands that have not run.
    const std::shared_ptr<std::atomic<std::size_t>> bytes_brought_ = std::make_shared<std::atomic<std::size_t>>(0);

    Commands commands_;
    bool counts_memory_ = false;

    // Of the command that is being enqueued.
    const Decisions *decisions_ = nullptr;  // null if there is nothing to decide
    bool native_ = false;
    bool poisoned_ = false;  // something that it waits for has failed already
    cl_int code_ = CL_SUCCESS;
    std::vector<cl_event> waits_;
    std::unique_ptr<Command> receive_;  // of the program's memory, which ends waits_.front(); null if there is none
    std::vector<StandIn> once_enqueued_;
    std::vector<ScheduledEvent *> scheduled_;
    std::vector<Event> passing_;           // that wait_natively() and wait_for_one() made
    std::vector<Promise> promised_;        // by the wait list
    std::shared_ptr<Ending> incoming_;     // what is promised before it to arrive in the program's memory
    std::shared_ptr<Ending> source_sent_;  // when the program's memory that it reads has gone to the device's process
    Event native_event_;
    std::shared_ptr<const Times> own_times_;  // as in EventObject
    OpenUserEvents user_events_;              // that the command waits for
    unsigned since_forgetting_ = 0;

    // The program's memory that results of other processes are on their way to, by address.
    struct Landing {
        const std::byte *end;
        std::shared_ptr<Ending> landed;
    };
    std::multimap<const std::byte *, Landing> landings_;
    std::size_t longest_landing_ = 0;
    std::size_t tidy_landings_at_ = 64;
};

}  // namespace cldist::cluster
