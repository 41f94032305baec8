/// Decides at enqueue what each process has to do for a command. The decisions follow from the
/// calls, which are the same in all processes.
///
/// Every process has a Schedule and passes it all enqueues, for its own and for remote devices, in
/// the program's order. The schedule returns what this process must do. The processes agree without
/// messages, and nothing here waits or calls OpenCL or MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cluster/schedule/hazards.hpp"
#include "cluster/schedule/residency.hpp"
#include "cluster/schedule/topology.hpp"

namespace cldist::cluster {

/// The same in all processes. Numbers of released buffers are reused.
using BufferId = std::uint32_t;

enum class AccessMode : std::uint8_t {
    read,
    write,       ///< every byte
    read_write,  ///< may also leave some bytes unchanged
};

/// A command's access to bytes [begin, end) of a buffer. A sub-buffer is a range of its parent.
struct Access {
    BufferId buffer;
    std::size_t begin;
    std::size_t end;
    AccessMode mode;
};

/// The schedule's record of a command's event. It lives as long as the event may be in wait lists.
struct ScheduledEvent {
    CommandId command = 0;
    Process process = 0;    ///< of the command's device
    bool told_all = false;  ///< every process is or will be notified of the end
    /// In `process`: the other processes that are notified of the end, sorted. Elsewhere: only this
    /// process, if it is notified.
    std::vector<Process> told;
};

/// A command as it is enqueued.
struct ScheduledCommand {
    MemoryId memory;
    /// The queue's number if it is in-order. Each queue has a unique number and one device.
    QueueId queue = unordered;
    std::span<const Access> accesses;  ///< ranges may overlap
    /// Without user events, which every process handles itself.
    std::span<ScheduledEvent *const> wait_list;
    /// Whether the bytes that it reads go to the program's memory (reads and maps).
    bool result_to_hosts = false;
    /// Whether it may fail because an event that it waits for fails. The bytes that it would have
    /// written must then be unchanged, so its device gets them first.
    bool may_fail = false;
    /// Identifies the set of user events that it waits for, directly or through other commands, and
    /// that may not be set yet. Different sets have different values; 0 is the empty set.
    std::uint64_t behind = 0;
};

/// The processes that run the program and receive the results of its reads.
enum class Hosts : std::uint8_t {
    all,    ///< every process
    first,  ///< only process 0
};

/// Identifies a message to or from `peer`. Both ends count the messages in each direction. The
/// number does not determine the order in which messages are sent.
struct Message {
    Process peer;
    std::uint64_t number;

    bool operator==(const Message &) const = default;
};

/// A part of a command that several devices execute concurrently. All parts read the bytes from
/// before any part's writes, and no two parts write the same byte.
struct CommandPart {
    MemoryId memory;
    std::span<const Access> accesses;
};

/// Bytes [begin, end).
struct Piece {
    std::size_t begin;
    std::size_t end;

    bool operator==(const Piece &) const = default;
};

/// A transfer of bytes from or to a device of this process.
struct Transfer {
    enum class Kind : std::uint8_t {
        send,     ///< from `source`, in this process, to `message.peer`
        receive,  ///< from `message.peer` to `target`, in this process
        copy,     ///< both memories are in this process
    };
    Kind kind;
    BufferId buffer;
    std::size_t begin;
    std::size_t end;
    /// The pieces, in order, if there are several. They are sent together, and the bytes between
    /// them are not touched.
    std::vector<Piece> pieces{};
    MemoryId source;
    MemoryId target;
    Message message;          ///< unused for a copy
    Step step;                ///< identifies the transfer
    std::vector<Step> after;  ///< steps of this process that it waits for
};

/// The message which reports that a command has ended.
struct Completion {
    CommandId command;
    Message message;
};

/// This process's messages in a tree broadcast to all hosts. It first receives `from`, then sends
/// `to`. The root sends when the command has ended.
struct Relay {
    std::optional<Message> from;  ///< none at the root
    std::vector<Message> to;
};

/// The actions of this process for a command.
struct Decisions {
    ScheduledEvent event;  ///< kept if the program wants an event
    /// Whether this process has the command's device and must enqueue the native command.
    bool local = false;
    /// If so: the steps that it waits for in addition to its queue and its wait list.
    std::vector<Step> after;
    /// Sent by this process, each when its command has ended.
    std::vector<Completion> completions_sent;
    std::vector<Completion> completions_awaited;  ///< only in the command's process
    std::vector<Transfer> transfers;              ///< parts 1, 2, …
    Relay result;                                 ///< of a command with `result_to_hosts`
    /// Transfers after the command: they copy its writes to the devices to which the buffers are
    /// attached. Their steps have the next command number.
    std::vector<Transfer> write_backs;
    /// Buffers that this command has attached or detached automatically (Schedule::home).
    std::vector<BufferId> homes_changed;
};

/// Cached decisions for parts that are enqueued repeatedly. Stored by the owner of the parts.
struct KnownParts {
    struct Move {
        BufferId buffer;
        MemoryId source;
        MemoryId target;
        std::vector<Piece> pieces;
        /// Whether the part overwrites these bytes and needs them only in case it fails. They are
        /// sent separately from bytes that it reads, because they may wait for other steps.
        bool overwritten;
        std::uint64_t behind;  ///< ScheduledCommand::behind of the writer
    };
    struct Decided {
        std::vector<std::shared_ptr<Residency>> before;  ///< of each buffer
        std::vector<std::shared_ptr<Residency>> after;
        std::vector<Move> moves;  ///< only those from or to this process
    };
    std::vector<Decided> decided;  ///< oldest first
};

/// Not thread-safe. All processes must call the functions in the same order, except over(),
/// decide_part() and the queries. A process may omit decide() for a command without wait list and
/// without result, if its device belongs to another process and all its buffers are attached to
/// devices of other processes. Buffers that are attached automatically must be attached to the
/// command's device.
///
/// **Conflicts** (two steps use overlapping bytes of one device's memory, and at least one writes)
/// are ordered by enqueue, also if queues and wait lists do not order them. If they do, the order
/// is the same. Commands on different devices use different memories: a writer need not wait for an
/// earlier reader on another device, which has its own copy.
///
/// Every step waits only for steps of earlier commands or for transfers of the same command, so
/// there are no cycles.
class Schedule {
public:
    /// A buffer is attached automatically to a device if its last `attach_after` uses were by that
    /// device's commands and the device is the only holder of all its bytes. It is detached when a
    /// command uses it that is of another device or waits for user events. Until then, the device
    /// would be the only holder anyway, so the same bytes move as without attachment. 0 disables
    /// automatic attachment.
    Schedule(Topology topology, Process self, std::uint32_t attach_after = 0,
             Hosts hosts = Hosts::all);

    /// `size` is in bytes. Only an `attachable` buffer may be attached automatically.
    BufferId create_buffer(std::size_t size, Contents contents, bool attachable = false);
    /// Makes that memory the only holder of a new buffer's contents.
    void give_contents(BufferId buffer, MemoryId memory);
    /// No later command may use the buffer. Its memory must outlive the steps that use it.
    void release_buffer(BufferId buffer);

    /// Enqueues a command. The result is valid until the next call.
    const Decisions &decide(const ScheduledCommand &command);

    /// Returns the event's record for a command without decide(). Only needed if the program wants
    /// an event. `memory` is that of the command's device.
    [[nodiscard]] ScheduledEvent leave_out(MemoryId memory) {
        return {++last_, topology_.process_of(memory), false, {}};
    }
    /// Returns the transfers that bring to the devices of `parts` the bytes that they read and
    /// lack, and records the parts' writes. All processes call it, whatever devices they have.
    /// `buffers` are the buffers of the parts. `known` caches decisions for the same parts: while
    /// their buffers' holders recur, the cost grows only with the transfers of this process.
    /// `may_fail` and `behind` are as in ScheduledCommand and must be the same for all decisions in
    /// `known`. The result is valid until the next call. Its steps have the same command number.
    /// decide_part() must follow for each part of this process.
    const std::vector<Transfer> &begin_parts(std::span<const CommandPart> parts,
                                             std::span<const BufferId> buffers, KnownParts &known,
                                             bool may_fail = false, std::uint64_t behind = 0);
    /// Enqueues a part of a command on a device of this process, after begin_parts(),
    /// write_everywhere() or copy_in_place(). Only finds its conflicts with other steps of this
    /// process. Only this process calls it.
    const Decisions &decide_part(const ScheduledCommand &command);
    /// Records that all devices write the same bytes. decide_part() must follow for each device of
    /// this process.
    void write_everywhere(const Access &access);
    /// Records that each device copies those of the bytes that it holds. decide_part() must follow
    /// for the copies of this process's devices.
    void copy_in_place(const Access &from, const Access &to);

    /// Attaches a buffer: until detach(), or attach() to another device, `memory` always has its
    /// newest bytes, and other holders are not recorded. Each command of another device gets the
    /// bytes that it reads from `memory` and copies its writes back. The result contains the
    /// transfers that bring the buffer's bytes to `memory`; it is valid until the next call.
    const Decisions &attach(BufferId buffer, MemoryId memory);
    void detach(BufferId buffer);

    /// Where a buffer is attached.
    struct Home {
        MemoryId memory;
        bool by_itself;  ///< attached automatically
    };
    [[nodiscard]] std::optional<Home> home(BufferId buffer) const { return buffers_[buffer].home; }

    /// Returns the messages that notify all processes of the event's end. All processes call it
    /// when the program waits for the event or queries its status or profiling information. Empty
    /// if all processes are or will be notified already.
    Relay tell_all(ScheduledEvent &event);
    /// The same if only process 0 runs the program: returns the message that this process sends to
    /// process 0 or, in process 0, receives. Nothing if process 0 is notified already, or if this
    /// process has no part in it.
    std::optional<Message> tell_first(ScheduledEvent &event);
    /// Returns a message from process 0, which has the program's memory, to `to`, which must be
    /// another process. Nothing in all processes except these two.
    std::optional<Message> message_from_first(Process to);

    /// Returns the messages with which all processes report something to `root`, with the
    /// directions of Relay reversed: this process first receives from `to` and then sends to
    /// `from`. All processes call it.
    Relay gather(Process root);

    /// Records that all steps of this process for commands before `command` have ended. No later
    /// step waits for them.
    void over(CommandId command);

    [[nodiscard]] const Topology &topology() const { return topology_; }
    [[nodiscard]] const Residency &residency(BufferId buffer) const {
        return *buffers_[buffer].residency;
    }
    /// The bytes that this schedule stores for a buffer.
    [[nodiscard]] std::size_t bytes(BufferId buffer) const;

private:
    struct Buffer {
        // Copy on write: `states` and KnownParts may share it.
        std::shared_ptr<Residency> residency;
        // By the memory's number in this process; empty until the first use in this process.
        std::vector<Hazards> hazards;
        // States that begin_parts() has found or left, oldest first.
        std::vector<std::shared_ptr<Residency>> states{};
        // While attached: the only holder in `residency`, which does not change.
        std::optional<Home> home{};
        // For automatic attachment. A command that some processes leave out changes none of these.
        bool attachable = false;
        MemoryId user = 0;         // the memory whose commands used the buffer last
        std::uint32_t uses = 0;    // consecutive uses by `user`
        std::uint32_t wanted = 0;  // consecutive uses after which it is attached
    };

    void note_use(BufferId buffer, const ScheduledCommand &command);
    void wait_for(ScheduledEvent &event, Process waiting);
    bool note_told(ScheduledEvent &event, Process waiting) const;
    Residency &changed(BufferId buffer);
    void read(BufferId buffer, MemoryId memory, std::size_t begin, std::size_t end);
    void write(BufferId buffer, MemoryId memory, std::size_t begin, std::size_t end,
               std::uint64_t behind);
    const std::shared_ptr<Residency> &known_state(BufferId buffer);
    void move(BufferId buffer, const Copy &copy, MemoryId target, std::vector<Transfer> &transfers);
    void move(BufferId buffer, std::span<const Piece> pieces, MemoryId source, MemoryId target,
              std::vector<Transfer> &transfers);
    void carry(const KnownParts::Move &move);
    void carry_copies(BufferId buffer, MemoryId target);
    KnownParts::Decided decide_parts(std::span<const CommandPart> parts,
                                     std::span<const BufferId> buffers, bool may_fail,
                                     std::uint64_t behind);
    void find_conflicts(const ScheduledCommand &command);
    void write_back(const ScheduledCommand &command);
    Hazards &hazards(BufferId buffer, MemoryId memory);
    Relay relay(Process root);
    Message message_to(Process peer) { return {peer, sent_[peer]++}; }
    Message message_from(Process peer) { return {peer, received_[peer]++}; }

    Topology topology_;
    Process self_;
    std::uint32_t attach_after_;
    Hosts hosts_;
    CommandId last_ = 0;
    CommandId over_ = 1;  // commands before it have ended
    std::vector<Buffer> buffers_;
    std::vector<BufferId> released_;
    std::vector<std::uint64_t> sent_;      // number of messages to each process
    std::vector<std::uint64_t> received_;  // number of messages from each process
    Decisions decisions_;
    std::vector<Copy> copies_;  // of one access; a member to reuse its allocation
};

}  // namespace cldist::cluster
