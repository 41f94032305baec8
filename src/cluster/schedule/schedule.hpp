/// Decide at enqueue: what each process has to do for a command, from the calls that all processes
/// make alike.
///
/// Every process has a Schedule and passes it all enqueues, for its devices and for others', in the
/// program's order. The schedule returns what this process must do. No message is needed to agree,
/// and nothing here waits or calls OpenCL or MPI.
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

/// The same in all processes. Numbers of released buffers are given again.
using BufferId = std::uint32_t;

enum class AccessMode : std::uint8_t {
    read,
    write,       ///< every byte
    read_write,  ///< whatever may write some bytes and leave others
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
    Process process = 0;    ///< whose command it is
    bool told_all = false;  ///< every process gets to know its end, or did
    /// In `process`: who else gets to know its end, in order; elsewhere: this process, if it does.
    std::vector<Process> told;
};

/// A command as it is enqueued.
struct ScheduledCommand {
    MemoryId memory;
    /// Its queue if that is in-order: one device's, and no other queue's number.
    QueueId queue = unordered;
    std::span<const Access> accesses;  ///< ranges may overlap
    /// Without user events, which every process has itself.
    std::span<ScheduledEvent *const> wait_list;
    /// What it reads goes to the memory of the program: reads and maps.
    bool result_to_hosts = false;
    /// It may fail for what it waits for: then the bytes that it was to write must stay, so its
    /// device gets them first.
    bool may_fail = false;
    /// Names the user events that it waits for, perhaps through others, and that the program may
    /// not have set: others are named otherwise. 0 if there are none.
    std::uint64_t behind = 0;
};

/// Where the program runs, and what it reads goes.
enum class Hosts : std::uint8_t {
    all,    ///< in every process
    first,  ///< in process 0 alone
};

/// Names a message: the `number`th from one process to the other, counted alike at both ends. It
/// has nothing to do with the order in which messages are sent.
struct Message {
    Process peer;
    std::uint64_t number;

    bool operator==(const Message &) const = default;
};

/// One of the commands of several devices that stand side by side: they all read what was there
/// before any of them wrote, and no two write the same byte.
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

/// Bytes that a device of this process gives or gets.
struct Transfer {
    enum class Kind : std::uint8_t {
        send,     ///< from `source`, here, to `message.peer`
        receive,  ///< by `target`, here, from `message.peer`
        copy,     ///< both are here
    };
    Kind kind;
    BufferId buffer;
    std::size_t begin;
    std::size_t end;
    std::vector<Piece> pieces{};  ///< if it is of several, in order: then they travel together, and
                                  ///< all between is not touched
    MemoryId source;
    MemoryId target;
    Message message;          ///< not for a copy
    Step step;                ///< its name
    std::vector<Step> after;  ///< which of this process's steps it waits for
};

/// That a command has ended.
struct Completion {
    CommandId command;
    Message message;
};

/// This process's messages for something that all hosts learn, along a tree. First the message
/// arrives, then it goes to others. At the root it goes out when the command has ended.
struct Relay {
    std::optional<Message> from;  ///< not at the root
    std::vector<Message> to;
};

/// The actions of this process for a command.
struct Decisions {
    ScheduledEvent event;  ///< to be kept if the program wants an event
    /// The command's device is here: it is to be enqueued.
    bool actual = false;
    /// If it is: whom it waits for beside its queue and its wait list.
    std::vector<Step> after;
    /// By this process, each when the command it names has ended.
    std::vector<Completion> completions_sent;
    std::vector<Completion> completions_awaited;  ///< by the command's own process
    std::vector<Transfer> transfers;              ///< parts 1, 2, …
    Relay result;                                 ///< of a command with `result_to_hosts`
    /// After the command: its writes to buffers that are attached to other devices. Their steps
    /// have the next number.
    std::vector<Transfer> write_backs;
    /// Buffers that were attached by themselves (Schedule::home), or taken back.
    std::vector<BufferId> homes_changed;
};

/// What was decided for parts that come again and again. Kept by who has the parts.
struct KnownParts {
    struct Move {
        BufferId buffer;
        MemoryId source;
        MemoryId target;
        std::vector<Piece> pieces;
        /// What stays if the part fails, which may wait for others than what it reads.
        bool overwritten;
        std::uint64_t behind;  ///< as in ScheduledCommand, of who wrote it
    };
    struct Decided {
        std::vector<std::shared_ptr<Residency>> before;  ///< of each buffer
        std::vector<std::shared_ptr<Residency>> after;
        std::vector<Move> moves;  ///< from or to this process
    };
    std::vector<Decided> decided;  ///< the oldest first
};

/// Not thread-safe. All processes must call every function in one order, except for `over` and the
/// queries. A process may omit `decide` if there is nothing to decide. Then the command has no wait
/// list and no result, its device belongs to another process, and all its buffers are attached to
/// devices of other processes. A buffer that is attached by itself must be attached to the
/// command's device.
///
/// **Conflicts** (two steps use overlapping bytes of one device's memory, and one writes) are
/// ordered by enqueue, whatever the queues and wait lists say. If these order the steps, it is the
/// same order. Commands on different devices use different memories: a reader need not wait for a
/// later writer elsewhere, because it has its own copy.
///
/// Every step waits only for steps of earlier commands, or for transfers of the same command. So no
/// cycle is possible.
class Schedule {
public:
    /// A buffer is attached by itself to a device if that device's commands alone have used it
    /// `attach_after` times, and the device alone has all its bytes. It is detached when a command
    /// of another device uses it. Until then, that device remains the only holder, so the same
    /// bytes move as without attachment. 0 attaches none.
    Schedule(Topology topology, Process self, std::uint32_t attach_after = 0,
             Hosts hosts = Hosts::all);

    /// `size` in bytes. Never attached by itself unless `attachable`.
    BufferId create_buffer(std::size_t size, Contents contents, bool attachable = false);
    /// A new buffer's contents are in that memory alone.
    void give_contents(BufferId buffer, MemoryId memory);
    /// No later command may name it. Its memory must outlive the steps that use it.
    void release_buffer(BufferId buffer);

    /// Enqueues a command. The result is valid until the next call.
    const Decisions &decide(const ScheduledCommand &command);

    /// The record of the event of a command that is left out, if the program wants an event.
    /// `memory` is the device's.
    [[nodiscard]] ScheduledEvent leave_out(MemoryId memory) {
        return {++last_, topology_.process_of(memory), false, {}};
    }
    /// Brings to the devices of `parts` the bytes that they read and lack, and records their
    /// writes. All processes do this, whatever devices they have. `buffers` are the buffers of the
    /// parts. `known` has earlier decisions for the same buffers and the same holders, so that the
    /// cost grows only with the transfers of this process. `may_fail` and `behind` are as in
    /// ScheduledCommand; `may_fail` is the same for all decisions in `known`. The result is valid
    /// until the next call. Its steps have one number. Then decide_part() follows for each part of
    /// this process.
    const std::vector<Transfer> &begin_parts(std::span<const CommandPart> parts,
                                             std::span<const BufferId> buffers, KnownParts &known,
                                             bool may_fail = false, std::uint64_t behind = 0);
    /// Enqueues a part of a command on a device of this process, after begin_parts() and similar
    /// functions. Only its conflicts with other steps of this process remain to be decided. Only
    /// this process calls it.
    const Decisions &decide_part(const ScheduledCommand &command);
    /// All devices write the same bytes; then comes decide_part() for each here.
    void write_everywhere(const Access &access);
    /// Each device copies what it has of the bytes; then comes decide_part() for what those here
    /// have.
    void copy_in_place(const Access &from, const Access &to);

    /// From now on the device has the buffer's newest bytes, and other holders are not recorded. A
    /// command of another device gets the bytes that it reads from there each time, and brings back
    /// its writes. This lasts until detach(), or attach() to another device. The result's transfers
    /// bring the bytes there. It is valid until the next call.
    const Decisions &attach(BufferId buffer, MemoryId memory);
    void detach(BufferId buffer);

    /// Where a buffer is attached.
    struct Home {
        MemoryId memory;
        bool by_itself;
    };
    [[nodiscard]] std::optional<Home> home(BufferId buffer) const { return buffers_[buffer].home; }

    /// The host program waits for the event, or asks for its status or its profiling information:
    /// all processes do, so all get to know its end. Empty if they do already.
    Relay tell_all(ScheduledEvent &event);
    /// The same where process 0 alone has the program, which waits or asks: the message that this
    /// process sends it, or, as process 0, gets. Nothing if it knows already, or the two are
    /// others.
    std::optional<Message> tell_first(ScheduledEvent &event);
    /// A message from process 0, which has the program's memory, to another one; nothing in others.
    /// Not of a process to itself.
    std::optional<Message> message_from_first(Process to);

    /// The other way, all processes tell `root` something: first it comes in from those in `to`,
    /// then it goes on to `from`. To be called by all.
    Relay gather(Process root);

    /// All of this process's steps for commands before `command` have ended: nobody needs to wait
    /// for them any more.
    void over(CommandId command);

    [[nodiscard]] const Topology &topology() const { return topology_; }
    [[nodiscard]] const Residency &residency(BufferId buffer) const {
        return *buffers_[buffer].residency;
    }
    /// What is kept of a buffer in this process.
    [[nodiscard]] std::size_t bytes(BufferId buffer) const;

private:
    struct Buffer {
        // Others that have it think that it stays as it is.
        std::shared_ptr<Residency> residency;
        // By local number of the device; empty until one is used.
        std::vector<Hazards> hazards;
        // In which begin_parts() left it, the oldest first.
        std::vector<std::shared_ptr<Residency>> states{};
        // The only holder in `residency`, which then stays as it is.
        std::optional<Home> home{};
        // Of what may be attached by itself. A command that some processes leave out changes none
        // of these.
        bool attachable = false;
        MemoryId user = 0;         // whose commands used it last,
        std::uint32_t uses = 0;    // so often,
        std::uint32_t wanted = 0;  // and how often it is attached after
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
    CommandId over_ = 1;  // commands before it
    std::vector<Buffer> buffers_;
    std::vector<BufferId> released_;
    std::vector<std::uint64_t> sent_;      // messages, to each process
    std::vector<std::uint64_t> received_;  // messages, from each process
    Decisions decisions_;
    std::vector<Copy> copies_;  // of one access; kept for its memory
};

}  // namespace cldist::cluster
